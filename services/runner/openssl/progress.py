"""One line that says how far a long job is: rewritten in place at a terminal, now and then a new one elsewhere."""

import time
from typing import TextIO

_STEP = 0.2
"""Share of a phase after which there is a new line where lines cannot be rewritten."""


class Progress:
    """Phases, one after the other, each with the seconds since the start."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._in_place = stream.isatty()
        self._start_s = time.monotonic()
        self._phase = ""
        self._said = 0.0

    @property
    def elapsed_s(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start_s

    def phase(self, name: str) -> None:
        """Another phase begins."""
        self._phase, self._said = name, 0.0
        self._say(name)

    def share(self, done: int, total: int) -> None:
        """So much of the phase is done."""
        share = min(done / total, 1.0) if total else 0.0
        if self._in_place or share >= self._said + _STEP:
            self._said = share
            self._say(f"{self._phase}: {done} of {total} files, {share:.0%}")

    def end(self, line: str) -> None:
        """The last line, which stays."""
        self._say(line)
        self.leave()

    def leave(self) -> None:
        """Others write to the terminal from here."""
        if self._in_place:
            self._stream.write("\n")
        self._stream.flush()

    def _say(self, text: str) -> None:
        line = f"{text} ({self.elapsed_s:.0f} s)"
        self._stream.write(f"\r{line}\x1b[K" if self._in_place else f"{line}\n")
        self._stream.flush()
