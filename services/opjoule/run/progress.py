"""How far a measurement on this machine is. Nothing is drawn while a repetition runs, and no thread draws."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from opjoule.run.rows import Row
from opjoule.run.view import name_of, short_time

REDRAW_S = 0.25


class Progress:
    """A bar in a terminal, else a line per operation."""

    def __init__(self, console: Console, total: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
        self._console = console
        self._bar = Bar(*columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=1)
        self._total = total
        self._begun = 0
        self._drawn_s = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, what: str) -> None:
        """The next operation is prepared and tried."""
        self._begun += 1
        self._bar.reset(self._task, total=1, description=f"{self._begun} of {self._total}  {what}")
        self._redraw()

    def between(self, done: int, count: int) -> None:
        """So many repetitions are done; draws now and then."""
        if time.monotonic() - self._drawn_s > REDRAW_S:
            self._bar.update(self._task, completed=done, total=count)
            self._redraw()

    def finish(self, row: Row | None) -> None:
        """The operation has this row, or was left out."""
        if self._console.is_terminal or row is None:
            return
        said = short_time(row.times.mean_s) if row.times is not None else "FAILED"
        self._console.print(f"{self._begun} of {self._total}: {name_of(row)}: {said}", markup=False, soft_wrap=True)

    def _redraw(self) -> None:
        self._bar.refresh()
        self._drawn_s = time.monotonic()
