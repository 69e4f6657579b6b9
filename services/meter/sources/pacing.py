"""Waiting for a moment of the monotonic clock."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pacing:
    """The clock and the sleep of a source; tests bring their own."""

    monotonic_ns: Callable[[], int] = time.monotonic_ns
    sleep: Callable[[float], None] = time.sleep

    def sleep_until(self, t_ns: int) -> None:
        """Return at this moment, at once when it has passed."""
        rest_ns = t_ns - self.monotonic_ns()
        if rest_ns > 0:
            self.sleep(rest_ns / 1e9)
