"""Samples that carry their number as their current, so that what is missing shows by itself: for `make bench-meter`."""

import math
import os
import platform
from collections.abc import Iterable, Sequence
from itertools import count

from meter.devices.power import STEPS_PER_UNIT, Measured, Power

TURN = 600_000
"""Numbers begin anew after so many samples, 100 minutes of 100 a second: 6 A, which the plausibility gate lets in."""
_VOLTAGE_STEPS = 510_000


def numbered(true_ns: list[int] | None = None) -> Power:
    """The first sample has number 0, and so on; `true_ns` is given the moment of each, in ns of the device's clock."""
    numbers = count()

    def measure(t_ns: int) -> Measured:
        if true_ns is not None:
            true_ns.append(t_ns)
        return Measured(_VOLTAGE_STEPS, next(numbers) % TURN)

    return measure


def number_of(current_a: float | None) -> int:
    """The number that a sample carries."""
    return round((current_a or 0.0) * STEPS_PER_UNIT)


class Tally:
    """What came of one meter, in order, held against the numbers."""

    def __init__(self) -> None:
        self.received = 0
        self.missing = 0
        """Numbers that were left out between two that came."""
        self.wrong = 0
        """Samples that came twice, or after a later one."""
        self._last: int | None = None

    def add(self, currents_a: Iterable[float | None]) -> int:
        """How many are missing before or among these."""
        before = self.missing
        for current_a in currents_a:
            number = number_of(current_a)
            step = 1 if self._last is None else (number - self._last) % TURN
            if 0 < step < TURN // 2:
                self.missing += step - 1
            else:
                self.wrong += 1
            self._last = number
            self.received += 1
        return self.missing - before


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that this share of them does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def machine() -> str:
    """Where it was measured, as key=value."""
    return f"cores={os.cpu_count()} python={platform.python_version()}"
