"""A host that was away for longer than a meter goes on unasked: what waited is placed where it was taken."""

import random
from itertools import pairwise

import pytest

from clock import ServiceClock
from meter.devices.faults import Faults
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.lockstep import Lockstep, LockstepTransport
from meter.devices.power import Measured
from meter.protocols.fnirsi import Family
from meter.readings import Counts, Reading, Stream
from meter.sources.fnirsi import FnirsiSource
from meter.timeline import SampleTimeline

MS = 1_000_000
STREAM = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, 10 * MS)
CLOCK = ServiceClock(wall_minus_monotonic_ns=0, timeline_id="t1", boot_id=None)
AWAY_AT_NS = 20_000 * MS
END_NS = 40_000 * MS


def read_with_a_pause(
    away_s: float, setup: Setup | None = None, family: Family | None = None, at_ns: int = AWAY_AT_NS
) -> tuple[list[Reading], list[int], Counts]:
    """Readings whose current is their number, when each was taken, and what was not read."""
    true_ns: list[int] = []

    def power(t_ns: int) -> Measured:
        true_ns.append(t_ns)
        return Measured(510_000, len(true_ns) - 1)

    draw = random.Random(1)
    usb = Lockstep(Fnb58(power, setup, Faults()), lambda: draw.randrange(5 * MS))
    usb.plug_in()
    source = FnirsiSource(STREAM, usb.open, CLOCK, family=family, pacing=usb.pacing)
    readings: list[Reading] = []
    while usb.now_ns < END_NS:
        readings += source.read(0.2) or []
        if usb.now_ns >= at_ns and away_s:
            usb.sleep(away_s)
            away_s = 0.0
    counts = source.counts
    usb.unplug()
    source.close()
    return readings, true_ns, counts


class SleepsAfterReading:
    """A transport whose reader is stopped once, between two reads."""

    def __init__(self, usb: Lockstep, line: LockstepTransport) -> None:
        self._usb, self._line, self._away_s = usb, line, 5.0
        self.device = line.device

    def read(self, timeout_s: float) -> bytes:
        return self._line.read(timeout_s)

    def write(self, report: bytes) -> None:
        self._line.write(report)
        if self._usb.now_ns > AWAY_AT_NS:
            away_s, self._away_s = self._away_s, 0.0
            self._usb.sleep(away_s)

    def close(self) -> None:
        self._line.close()


def number_of(reading: Reading) -> int:
    return round((reading.current_a or 0.0) * 100_000)


def most_off_ms(readings: list[Reading], true_ns: list[int]) -> float:
    return max(abs(each.t_ns - true_ns[number_of(each)]) / MS for each in readings)


def missing_from(readings: list[Reading], true_ns: list[int]) -> int:
    """By the clock: a meter that nobody asks measures nothing."""
    taken_ns = [true_ns[number_of(each)] for each in readings]
    return sum(round((later - earlier) / (10 * MS)) - 1 for earlier, later in pairwise(taken_ns))


@pytest.mark.parametrize("away_s", [0.5, 1.0, 1.4, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("setup", [Setup(), Setup(keep_alive="never"), Setup(keep_alive="each report")])
def test_what_waited_for_a_host_that_was_away_has_the_time_at_which_it_was_taken(setup: Setup, away_s: float) -> None:
    readings, true_ns, counts = read_with_a_pause(away_s, setup)
    assert most_off_ms(readings, true_ns) < 2
    assert counts.lost_samples == missing_from(readings, true_ns)


def test_the_one_report_of_a_meter_that_answers_each_is_not_as_late_as_the_host() -> None:
    readings, true_ns, counts = read_with_a_pause(0.5, Setup("A", keep_alive="each report"), "A")
    assert most_off_ms(readings, true_ns) < 2
    assert counts.lost_samples == missing_from(readings, true_ns)


def test_a_meter_that_stopped_while_the_host_was_away_is_read_again_at_once() -> None:
    readings, true_ns, counts = read_with_a_pause(5.0)
    gaps_s = [(later.t_ns - earlier.t_ns) / 1e9 for earlier, later in pairwise(readings)]
    assert max(gaps_s) == pytest.approx(5.0 - 0.75, abs=0.6)  # it went on for 0.5 to 1.5 s
    assert counts.gaps == 1
    assert true_ns


def test_a_host_that_was_away_between_reading_and_acting_does_not_call_the_meter_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    usb = Lockstep(Fnb58(lambda _: Measured(510_000, 1)))
    usb.plug_in()
    source = FnirsiSource(STREAM, lambda: SleepsAfterReading(usb, usb.open()), CLOCK, pacing=usb.pacing)
    while usb.now_ns < END_NS:
        source.read(0.2)
    assert not [line for line in caplog.messages if "silent" in line]
    assert source.counts.gaps == 1
    usb.unplug()
    source.close()


def test_what_waited_before_the_envelope_is_known_is_refused_and_counted() -> None:
    readings, true_ns, counts = read_with_a_pause(2.0, at_ns=1_600 * MS)
    assert counts.rejected["after_stall"] > 10
    assert most_off_ms(readings, true_ns) < 6  # the line of the first reports, which were few
    assert counts.lost_samples == pytest.approx(missing_from(readings, true_ns), abs=4)


def test_a_full_backlog_leaves_the_timeline_as_it_was() -> None:
    timeline = SampleTimeline(40 * MS, 4)
    for index in range(100):
        timeline.place(40 * MS * index)
    placed = timeline.catch_up(10, 40 * MS * 109 + 3 * MS)
    assert [round(each.times_ns[-1] / MS) for each in placed] == [40 * index for index in range(100, 110)]
    assert timeline.is_known


def test_a_backlog_that_ends_early_lies_before_its_gap_and_what_follows_has_a_phase_of_its_own() -> None:
    timeline = SampleTimeline(40 * MS, 4)
    for index in range(100):
        timeline.place(40 * MS * index)
    placed = timeline.catch_up(10, 40 * MS * 200)
    assert [round(each.times_ns[-1] / MS) for each in placed] == [40 * index for index in range(100, 110)]
    assert not timeline.is_known
    later = [each for index in range(25) for each in timeline.place(40 * MS * (201 + index) + 15 * MS)]
    assert later[0].lost_reports == 91
    assert round(later[0].times_ns[-1] / MS) == 40 * 201 + 15
