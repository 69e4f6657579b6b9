"""The request to end: it wakes whoever sleeps or waits for a child, so that no train has to be waited for."""

import contextlib
import os
import select
import signal
import time

LAST_STEP_NS = 20_000_000
"""Linux may end a select late by a thousandth of its time-out (fs/select.c): the last stretch is slept by itself."""


class Stopped(Exception):  # noqa: N818  (a request, not an error)
    """The runner was asked to end; what was going on is abandoned."""


class Stop:
    """A request to end that can be waited on. Raises Stopped out of every wait once it was made."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self.requested = False

    def on_signals(self, *signals: signal.Signals) -> None:
        """Let these signals make the request."""
        for each in signals:
            signal.signal(each, lambda *_: self.request())

    def request(self) -> None:
        """Ask the runner to end."""
        self.requested = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"x")

    def fileno(self) -> int:
        """Readable, for `select`, from the request on."""
        return self._reader

    def wait_until(self, monotonic_ns: int) -> None:
        """Sleep until this reading of the monotonic clock. Raises Stopped on the request."""
        self.check()
        while (left_ns := monotonic_ns - time.monotonic_ns()) > 0:
            step_ns = left_ns - LAST_STEP_NS if left_ns > 2 * LAST_STEP_NS else left_ns
            readable, _, _ = select.select([self], [], [], step_ns / 1e9)
            if readable:
                raise Stopped

    def check(self) -> None:
        """Raises Stopped if the request was made."""
        if self.requested:
            raise Stopped

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._reader)
        os.close(self._writer)
