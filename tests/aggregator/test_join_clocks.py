"""When a train waits for clocks: every case is a table of what is known of each timeline."""

from uuid import UUID

from aggregator.clocks import Placed, Timeline
from aggregator.join import Held, Joiner, Stream
from schemas import ClockState
from tests.aggregator.trains import SECOND, T0

UNKNOWN = Placed(ClockState(method="assumed", offset_ns=0, bound_s=None), settled=False)
AHEAD_NS = 3600 * SECOND
TRAIN = Held(UUID(int=1), "lab", "pi4", Timeline("r", None), T0, T0 + 10 * SECOND, T0 + 11 * SECOND)


def _known(*, settled: bool = True, drift_ppm: float = 0.0) -> Placed:
    return Placed(ClockState(method="exchange", offset_ns=AHEAD_NS, drift_ppm=drift_ppm, bound_s=0.002), settled)


def _joiner(**placed: Placed) -> Joiner:
    """One train, and what is known of timelines by their id."""
    joiner = Joiner(90 * SECOND, lambda _, meter: placed[meter.timeline_id])
    joiner.add_train(TRAIN)
    return joiner


def _see(joiner: Joiner, timeline_id: str, first_s: float, watermark_s: float, meter: str = "m1") -> None:
    key = ("lab", "pi4", meter, timeline_id)
    first_ns, watermark_ns = (T0 + round(each * SECOND) for each in (first_s, watermark_s))
    joiner.set_stream(Stream(key, Timeline(timeline_id, None), first_ns, watermark_ns))


def _is_complete(joiner: Joiner, after_s: float = 0.0) -> bool:
    return joiner.complete("lab", "pi4", TRAIN.arrived_ns + round(after_s * SECOND)) == [TRAIN]


def test_a_train_is_compared_with_a_watermark_on_the_timeline_of_the_meter() -> None:
    joiner = _joiner(m=_known())
    _see(joiner, "m", 3590, 3609)
    assert not _is_complete(joiner)
    assert joiner.wait_for_clocks() == []
    _see(joiner, "m", 3590, 3610)
    assert _is_complete(joiner)


def test_the_end_of_a_train_is_where_the_drift_takes_it() -> None:
    joiner = _joiner(m=_known(drift_ppm=100))
    _see(joiner, "m", 3590, 3610.0004)
    assert not _is_complete(joiner)
    _see(joiner, "m", 3590, 3610.0006)
    assert _is_complete(joiner)


def test_a_train_whose_clock_is_not_known_waits_for_it_until_the_deadline() -> None:
    joiner = _joiner(m=UNKNOWN)
    _see(joiner, "m", -5, 20)
    assert not _is_complete(joiner, after_s=60)
    assert joiner.wait_for_clocks() == [("lab", "pi4")]
    assert joiner.overdue(TRAIN.arrived_ns + 90 * SECOND) == [TRAIN]


def test_a_train_that_will_soon_be_placed_better_waits_five_seconds() -> None:
    joiner = _joiner(m=_known(settled=False))
    _see(joiner, "m", 3590, 3620)
    assert not _is_complete(joiner, after_s=4.9)
    assert joiner.wait_for_clocks() == [("lab", "pi4")]
    assert _is_complete(joiner, after_s=5)
    assert joiner.wait_for_clocks() == []


def test_an_old_timeline_of_a_meter_that_was_restarted_is_not_waited_for() -> None:
    joiner = _joiner(old=UNKNOWN, m=_known())
    _see(joiner, "old", -500, 3)
    _see(joiner, "m", 3590, 3620)
    assert _is_complete(joiner)


def test_another_meter_whose_clock_is_not_known_is_waited_for() -> None:
    joiner = _joiner(other=UNKNOWN, m=_known())
    _see(joiner, "other", -500, 20, meter="m2")
    _see(joiner, "m", 3590, 3620)
    assert not _is_complete(joiner, after_s=60)
