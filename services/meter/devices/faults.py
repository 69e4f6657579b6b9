"""What can go wrong with a simulated meter, as switches. All times are s since it was plugged in. Pure."""

import random
from collections.abc import Callable
from dataclasses import dataclass

Which = Callable[[int], bool]
"""Whether the report of this number has the fault; they count from 0 since the meter was made."""


def never(_number: int) -> bool:
    """No report."""
    return False


def every(count: int) -> Which:
    """Each report of this number and its multiples, but the first."""
    return lambda number: number > 0 and number % count == 0


def some(share: float, seed: int) -> Which:
    """This share of the reports, drawn from a seed; ask once per report, in order."""
    draw = random.Random(seed)
    return lambda _number: draw.random() < share


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time: start included, end excluded."""

    start_s: float
    end_s: float

    def contains(self, t_s: float) -> bool:
        """Whether this moment lies in it."""
        return self.start_s <= t_s < self.end_s


@dataclass(frozen=True, slots=True)
class Faults:
    """As it stands: a meter without fault. Each is in a report of somebody's real meter, or in METERS' list."""

    garbage_first: int = 0
    """So many stale reports open every stream (fnirsi-usb-power-data-logger PR 4)."""
    garbage_is_valid: bool = True
    """Whether their checksum is right."""
    dropped: Which = never
    """Measured, and never sent."""
    bad_crc: Which = never
    duplicated: Which = never
    """Sent twice."""
    short: Which = never
    """Only its first 30 bytes are sent."""
    information_before: Which = never
    unknown_before: Which = never
    silent: tuple[Span, ...] = ()
    """Nothing is sent, and what would have been is lost."""
    late: tuple[Span, ...] = ()
    """Nothing is sent; all of it comes in one burst afterwards."""
    frozen: tuple[Span, ...] = ()
    """Firmware that accepts writes, heeds none and sends nothing."""
    deaf_after_81_s: float = 0.0
    """An 81 restarts it: so long it heeds nothing, and it no longer streams."""
    already_streaming: bool = False
    """It streams when it is plugged in; some units do, and each does whose host was killed."""
    freezes_without_keep_alive: bool = False
    """Late keep-alives freeze it until it is plugged in again (firmware 0.68, issue 19 of that logger)."""
    crashes_below_gap_s: float = 0.0
    """Start frames closer than this freeze it (0.025 s according to fnirsi-usb-tool)."""
