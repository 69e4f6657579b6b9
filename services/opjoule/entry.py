"""The program `opjoule`: until the imports are done, Ctrl-C ends it without a word."""

import signal


def main() -> int:
    """Run the command; its exit status. Imports nothing before SIGINT is at its default, which is to end."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from opjoule.__main__ import main as run  # noqa: PLC0415

    return run()


def heed_interrupts() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
