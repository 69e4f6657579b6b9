"""How the commands write tables to where there is no terminal."""

from rich.console import Console, RenderableType


def print_table(console: Console, table: RenderableType) -> None:
    """As `console.print`; into a file or a pipe without the blanks at the ends of lines."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().splitlines()
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))
