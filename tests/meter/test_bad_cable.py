"""Many lost, damaged and doubled reports, and a clock that is far off: counted exactly, and nothing moves."""

import random
from itertools import pairwise

import pytest

from clock import ServiceClock
from meter.devices.faults import Faults, every, some
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.lockstep import Lockstep
from meter.devices.power import Measured
from meter.readings import Counts, Stream
from meter.sources.fnirsi import FnirsiSource

MS = 1_000_000
STREAM = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, 10 * MS)
CLOCK = ServiceClock(wall_minus_monotonic_ns=0, timeline_id="t1", boot_id=None)
SETTLED_S = 10.0


class Run:
    """A simulated meter read for a while; each sample has its number."""

    def __init__(
        self, seconds: float, jitter_ms: float, faults: Faults, slow_ppm: float = 0.0, same: bool = False
    ) -> None:
        self._true_ns: list[int] = []
        self._is_same = same
        draw = random.Random(1)
        device = Fnb58(self._power, Setup(sample_period_ns=round(10 * MS * (1 + slow_ppm / 1e6))), faults)
        usb = Lockstep(device, lambda: round(draw.uniform(0, jitter_ms) * MS))
        usb.plug_in()
        source = FnirsiSource(STREAM, usb.open, CLOCK, pacing=usb.pacing)
        read = []
        while usb.now_ns < seconds * 1e9:
            read += source.read(0.2) or []
        self.counts: Counts = source.counts
        usb.unplug()
        source.close()
        self.placed = [(round((each.voltage_v or 0) * 100_000) - 100_000, each.t_ns) for each in read]

    def _power(self, t_ns: int) -> Measured:
        self._true_ns.append(t_ns)
        return Measured(100_000 + (0 if self._is_same else len(self._true_ns) - 1), 1000)

    @property
    def missing(self) -> int:
        return sum(later - earlier - 1 for (earlier, _), (later, _) in pairwise(self.placed))

    @property
    def p99_ms(self) -> float:
        begin_ns = self.placed[0][1] + SETTLED_S * 1e9
        errors = sorted(abs(t_ns - self._true_ns[number]) / MS for number, t_ns in self.placed if t_ns > begin_ns)
        return errors[round(0.99 * (len(errors) - 1))]


@pytest.mark.parametrize(("share", "jitter_ms"), [(0.06, 30), (0.1, 30), (0.2, 15), (0.2, 30), (0.3, 30), (0.5, 2)])
def test_lost_reports_are_counted_exactly_up_to_every_second_one_on_average(share: float, jitter_ms: float) -> None:
    run = Run(120, jitter_ms, Faults(dropped=some(share, 7)))
    assert run.counts.lost_samples == run.missing > 0
    assert run.p99_ms < 2


def test_every_third_report_lost_is_no_slower_meter() -> None:
    run = Run(60, 15, Faults(dropped=every(3)))
    assert run.counts.lost_samples == run.missing > 1000
    assert run.p99_ms < 2


def test_a_damaged_report_keeps_its_slot_and_is_lost_once() -> None:
    run = Run(120, 15, Faults(bad_crc=some(0.2, 5)))
    assert run.counts.lost_samples == run.missing == 4 * run.counts.rejected["bad_crc"]
    assert run.p99_ms < 1


def test_neighbours_that_are_damaged_and_lost_are_one_gap() -> None:
    faults = Faults(bad_crc=lambda number: number == 500, dropped=lambda number: number in (501, 502))
    run = Run(30, 1, faults)
    assert (run.counts.lost_samples, run.counts.gaps) == (12, 1)


@pytest.mark.parametrize(("share", "jitter_ms"), [(0.01, 30), (0.05, 5)])
def test_a_report_that_is_sent_twice_counts_once(share: float, jitter_ms: float) -> None:
    faults = Faults(duplicated=some(share, 3), dropped=some(0.01, 5))
    run = Run(120, jitter_ms, faults)
    assert run.counts.rejected["duplicate"] > 20
    assert run.counts.lost_samples == run.missing
    assert run.missing > 0
    assert min(later - earlier for (earlier, _), (later, _) in pairwise(run.placed)) == 1
    assert run.p99_ms < 2


@pytest.mark.parametrize("jitter_ms", [0, 5, 30])
def test_values_that_are_held_are_no_duplicates(jitter_ms: float) -> None:
    run = Run(60, jitter_ms, Faults(), same=True)
    assert "duplicate" not in run.counts.rejected
    assert run.counts.lost_samples == 0


@pytest.mark.parametrize("slow_ppm", [-5000, 3000, 5000, 8000, 20_000])
@pytest.mark.parametrize("jitter_ms", [20, 30])
def test_a_meter_whose_clock_is_far_off_gets_no_gaps_once_that_is_known(slow_ppm: float, jitter_ms: float) -> None:
    run = Run(120, jitter_ms, Faults(), slow_ppm)
    assert run.counts.lost_samples <= 8  # in the first seconds
    assert run.p99_ms < 3
