"""A host that is too busy to read at once, again and again: what only came late is not counted as lost."""

import random
from collections.abc import Callable

import pytest

from clock import ServiceClock
from meter.devices.faults import Faults, Which, never, some
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.lockstep import Lockstep, LockstepTransport
from meter.devices.power import Measured
from meter.readings import Counts, Reading, Stream
from meter.sources.fnirsi import FnirsiSource
from meter.timeline import Placed, SampleTimeline
from meter.transports import UsbDevice

MS = 1_000_000
STREAM = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, 10 * MS)
CLOCK = ServiceClock(wall_minus_monotonic_ns=0, timeline_id="t1", boot_id=None)
CALM_NS = 5_000 * MS
"""Before that the host is not busy: the line of the timeline is made of its first reports."""
LATE_MS = (39, 196, 157, 118, 79, 40, 1)
"""Kept from reading twice in a row, then a backlog: as measured with eight meters on one core of a busy machine."""


class BusyHost:
    """A transport whose reader is kept from going on after it has got a report."""

    def __init__(self, usb: Lockstep, line: LockstepTransport, pause_s: Callable[[], float]) -> None:
        self._usb, self._line, self._pause_s = usb, line, pause_s

    @property
    def device(self) -> UsbDevice:
        return self._line.device

    def read(self, timeout_s: float) -> bytes:
        report = self._line.read(timeout_s)
        if report and self._usb.now_ns > CALM_NS:
            self._usb.sleep(self._pause_s())
        return report

    def write(self, report: bytes) -> None:
        self._line.write(report)

    def close(self) -> None:
        self._line.close()


def read_on_a_busy_host(pause_s: Callable[[], float], dropped: Which = never) -> tuple[list[Reading], Counts]:
    """A minute of samples whose current is their number, in steps of 10 uA."""
    numbers = iter(range(10**6))
    device = Fnb58(lambda _: Measured(510_000, next(numbers)), Setup(keep_alive="never"), Faults(dropped=dropped))
    usb = Lockstep(device)
    usb.plug_in()
    source = FnirsiSource(STREAM, lambda: BusyHost(usb, usb.open(), pause_s), CLOCK, pacing=usb.pacing)
    readings: list[Reading] = []
    while usb.now_ns < 60_000 * MS:
        readings += source.read(0.2) or []
    counts = source.counts
    usb.unplug()
    source.close()
    return readings, counts


def missing_from(readings: list[Reading]) -> int:
    first, last = (round((each.current_a or 0.0) * 100_000) for each in (readings[0], readings[-1]))
    return last - first + 1 - len(readings)


def arrivals(late_ms: tuple[int, ...]) -> list[int]:
    """A second in time, then so late."""
    return [40 * MS * index for index in range(100)] + [
        (4000 + 40 * index + late) * MS for index, late in enumerate(late_ms)
    ]


def place(timeline: SampleTimeline, arrivals_ns: list[int]) -> list[Placed]:
    return [placed for each in arrivals_ns for placed in timeline.place(each, is_last=False)]


@pytest.mark.parametrize("seed", range(8))
def test_random_pauses_lose_nothing_and_count_nothing(seed: int) -> None:
    draw = random.Random(seed)
    readings, counts = read_on_a_busy_host(lambda: draw.choice([0.0, draw.uniform(0.0, 0.04), draw.uniform(0.0, 0.09)]))
    assert len(readings) > 5800
    assert missing_from(readings) == 0
    assert (counts.lost_samples, counts.gaps) == (0, 0)


def test_what_is_lost_on_a_busy_host_is_counted_exactly() -> None:
    draw = random.Random(3)
    readings, counts = read_on_a_busy_host(lambda: draw.choice([0.0, draw.uniform(0.0, 0.02)]), some(0.02, seed=5))
    assert counts.lost_samples == missing_from(readings) > 0


def test_two_pauses_and_a_backlog_are_no_loss() -> None:
    placed = place(SampleTimeline(40 * MS, 4), arrivals(LATE_MS))
    assert len(placed) == 100 + len(LATE_MS)
    assert sum(each.lost_reports for each in placed) == 0


def test_a_loss_is_counted_when_nothing_has_come_for_a_quarter_of_a_period() -> None:
    timeline = SampleTimeline(40 * MS, 4)
    arrived = arrivals((0, 0, 0, 0))
    del arrived[-3]
    before = place(timeline, arrived)
    assert (len(before), timeline.held) == (101, 2)
    assert timeline.settle(arrived[-1] + 9 * MS) == []
    assert [each.lost_reports for each in timeline.settle(arrived[-1] + 11 * MS)] == [1, 0]


def test_silence_alone_tells_nothing_of_one_late_report() -> None:
    timeline = SampleTimeline(40 * MS, 4)
    arrived = arrivals((39,))
    place(timeline, arrived)
    assert timeline.settle(arrived[-1] + 11 * MS) == []
    assert [each.lost_reports for each in timeline.place(arrived[-1] + 2 * MS, is_last=False)] == [0, 0]


def test_where_nothing_is_in_doubt_nobody_has_to_wait() -> None:
    timeline = SampleTimeline(40 * MS, 4)
    place(timeline, arrivals(()))
    assert timeline.quiet_ns is None
    assert timeline.settle(10**12) == []
