"""When a train is complete: every case is a table of watermarks."""

from uuid import UUID

from aggregator.clocks import SAME_HOST_BOUND_S, Timeline, place, shifted
from aggregator.join import STREAMS_KEPT, Finished, Held, Joiner, Stream
from schemas import ClockState, HostClock, Segment
from tests.aggregator.trains import SECOND, T0

SHARED = Timeline("shared", None)
NOW = T0 + 60 * SECOND


def _train(number: int = 1, start_s: float = 0, end_s: float = 10, arrived_s: float = 11) -> Held:
    start_ns, end_ns = T0 + round(start_s * SECOND), T0 + round(end_s * SECOND)
    return Held(UUID(int=number), "lab", "pi4", SHARED, start_ns, end_ns, T0 + round(arrived_s * SECOND))


def _stream(watermark_s: float, meter: str = "m1", timeline: Timeline = SHARED, first_s: float = -5) -> Stream:
    key = ("lab", "pi4", meter, timeline.timeline_id)
    return Stream(key, timeline, T0 + round(first_s * SECOND), T0 + round(watermark_s * SECOND))


def _joiner(*trains: Held) -> Joiner:
    joiner = Joiner(deadline_ns=90 * SECOND)
    for train in trains:
        joiner.add_train(train)
    return joiner


def test_a_train_waits_until_the_watermark_is_past_its_end() -> None:
    joiner = _joiner(_train())
    joiner.set_stream(_stream(9.999))
    assert joiner.complete("lab", "pi4", NOW) == []
    joiner.set_stream(_stream(10.0))
    assert joiner.complete("lab", "pi4", NOW) == [_train()]
    assert joiner.held == 0


def test_the_same_train_again_is_held_once() -> None:
    joiner = _joiner(_train(), _train(arrived_s=50))
    joiner.set_stream(_stream(10.0))
    assert joiner.complete("lab", "pi4", NOW) == [_train()]
    assert joiner.complete("lab", "pi4", NOW) == []


def test_a_train_waits_for_every_meter_that_saw_its_beginning() -> None:
    joiner = _joiner(_train())
    joiner.set_stream(_stream(20.0, "m1"))
    joiner.set_stream(_stream(5.0, "m2"))
    assert joiner.complete("lab", "pi4", NOW) == []
    joiner.set_stream(_stream(12.0, "m2"))
    assert joiner.complete("lab", "pi4", NOW) == [_train()]


def test_a_meter_that_stopped_before_the_train_is_not_waited_for() -> None:
    joiner = _joiner(_train())
    joiner.set_stream(_stream(-1.0, "old"))
    joiner.set_stream(_stream(10.0, "m1"))
    assert joiner.complete("lab", "pi4", NOW) == [_train()]


def test_a_meter_that_started_after_the_train_does_not_complete_it() -> None:
    joiner = _joiner(_train())
    joiner.set_stream(_stream(30.0, first_s=12))
    assert joiner.complete("lab", "pi4", NOW) == []


def test_samples_of_another_dut_complete_nothing() -> None:
    joiner = _joiner(_train())
    joiner.set_stream(Stream(("lab", "pi5", "m1", "shared"), SHARED, T0 - SECOND, T0 + 20 * SECOND))
    assert joiner.complete("lab", "pi5", NOW) == []
    assert joiner.complete("lab", "pi4", NOW) == []


def test_a_train_that_waits_too_long_is_given_up_once() -> None:
    joiner = _joiner(_train(arrived_s=11))
    assert joiner.overdue(T0 + 100 * SECOND) == []
    assert joiner.overdue(T0 + 101 * SECOND) == [_train(arrived_s=11)]
    assert joiner.overdue(T0 + 200 * SECOND) == []


def test_complete_trains_come_in_order_of_their_start() -> None:
    joiner = _joiner(_train(2, 20, 30), _train(1, 0, 10))
    joiner.set_stream(_stream(40.0))
    assert [train.event_id.int for train in joiner.complete("lab", "pi4", NOW)] == [1, 2]


def test_a_meter_that_restarts_for_ever_does_not_grow_the_state() -> None:
    joiner = _joiner()
    for i in range(50):
        joiner.set_stream(_stream(i, timeline=Timeline(f"t{i}", None)))
    assert len(joiner._streams["lab", "pi4"]) == STREAMS_KEPT


def _host(boot_id: str, constant_ns: int) -> HostClock:
    return HostClock(boot_id=boot_id, wall_minus_monotonic_ns=constant_ns)


def test_two_timelines_of_one_host_differ_by_their_constants_even_if_the_wall_clock_stepped() -> None:
    runner, meter = Timeline("r", _host("boot", 1000)), Timeline("m", _host("boot", 1000 + 3600 * SECOND))
    state = place(runner, meter)
    assert (state.method, state.offset_ns, state.bound_s) == ("same_host", 3600 * SECOND, SAME_HOST_BOUND_S)


def test_timelines_of_two_hosts_have_no_known_bound() -> None:
    state = place(Timeline("r", _host("a", 1)), Timeline("m", _host("b", 1)))
    assert (state.method, state.bound_s) == ("assumed", None)
    assert place(Timeline("r", None), Timeline("m", None)).bound_s is None


def test_an_imported_recording_lies_on_its_own_timeline_exactly() -> None:
    assert place(SHARED, SHARED).bound_s == 0.0


def test_a_train_on_another_timeline_of_the_host_is_placed_before_it_is_compared() -> None:
    train = Held(UUID(int=1), "lab", "pi4", Timeline("r", _host("boot", 0)), T0, T0 + 10 * SECOND, T0)
    joiner = _joiner(train)
    late = Timeline("m", _host("boot", 60 * SECOND))
    joiner.set_stream(_stream(69.0, timeline=late))
    assert joiner.complete("lab", "pi4", NOW) == []
    joiner.set_stream(_stream(70.0, timeline=late))
    assert joiner.complete("lab", "pi4", NOW) == [train]


def test_shifting_moves_both_ends() -> None:
    moved = shifted(
        (Segment(kind="load", start_ns=10, end_ns=2000, repetitions=1),), ClockState(method="same_host", offset_ns=5)
    )
    assert (moved[0].start_ns, moved[0].end_ns, moved[0].repetitions) == (15, 2005, 1)


def test_only_samples_before_the_end_of_a_finished_train_may_be_late() -> None:
    finished = Finished()
    key = ("lab", "pi4", "m1", "shared")
    assert not finished.may_concern(key, SHARED, T0)
    finished.note(_train())
    assert finished.may_concern(key, SHARED, T0 + 9 * SECOND)
    assert not finished.may_concern(key, SHARED, T0 + 10 * SECOND)
