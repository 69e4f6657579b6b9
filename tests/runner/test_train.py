"""The loop of a train, on a clock that moves when told."""

import gc
from itertools import pairwise
from select import select
from time import monotonic_ns

import pytest

from runner.segments import PRESETS, PlannedSegment, TrainPlan, plan_train
from runner.stopping import Stop, Stopped
from runner.timing import Times
from runner.train import MOST_DRAWN, Repeat, Repetition, draw_every, run_train, trial_s


class FakeTime:
    """A monotonic clock; waiting and repeating move it."""

    def __init__(self) -> None:
        self.t_ns = 1_000

    def monotonic_ns(self) -> int:
        return self.t_ns

    def wait_until(self, t_ns: int) -> None:
        self.t_ns = t_ns

    def repeat(self, duration_ns: int, fail_every: int = 0) -> Repeat:
        count = 0

        def once() -> Repetition:
            nonlocal count
            count += 1
            self.t_ns += duration_ns
            failed = fail_every and count % fail_every == 0
            return Repetition(f"failure {count}" if failed else None, 0.25)

        return once


PLAN = TrainPlan(
    (
        PlannedSegment("idle", 500),
        PlannedSegment("load", 1_000),
        PlannedSegment("idle", 700),
        PlannedSegment("load", 300),
        PlannedSegment("idle", 400),
    ),
    guard_s=1e-7,
    expected_s=3e-6,
)


def test_a_load_segment_ends_with_the_repetition_that_crosses_its_planned_end() -> None:
    time = FakeTime()
    record = run_train(PLAN, time.repeat(300), 1, time.wait_until, time.monotonic_ns)
    assert record.edges_ns == (1_000, 1_500, 2_700, 3_400, 3_700, 4_100)
    assert record.verified == (0, 4, 0, 1, 0)
    assert record.times == Times(5, 1500, 5 * 300**2, 300, 300, (300,) * 5)
    assert record.cpu_time_s == pytest.approx(5 * 0.25)


def test_a_repetition_longer_than_the_segment_runs_once() -> None:
    time = FakeTime()
    record = run_train(PLAN, time.repeat(5_000), 1, time.wait_until, time.monotonic_ns)
    assert record.verified == (0, 1, 0, 1, 0)


def test_failed_repetitions_are_counted_and_never_done() -> None:
    time = FakeTime()
    record = run_train(PLAN, time.repeat(100, fail_every=3), 1, time.wait_until, time.monotonic_ns)
    assert (record.verified, record.failed) == ((0, 7, 0, 2, 0), 4)
    assert record.first_error == "failure 3"
    assert record.times.count == len(record.times.drawn_ns) == 9


def test_a_sham_train_sleeps_in_load_segments_too() -> None:
    time = FakeTime()
    record = run_train(PLAN, None, 1, time.wait_until, time.monotonic_ns)
    assert record.edges_ns == (1_000, 1_500, 2_500, 3_200, 3_500, 3_900)
    assert (sum(record.verified), record.failed) == (0, 0)


def test_each_nth_duration_is_kept_by_itself_and_all_are_counted() -> None:
    time = FakeTime()
    durations_ns = iter(range(1, 1000))

    def once() -> Repetition:
        time.t_ns += next(durations_ns)
        return Repetition(None, 0.0)

    record = run_train(PLAN, once, 7, time.wait_until, time.monotonic_ns)
    count = sum(record.verified)
    assert record.verified[1] > 7 and record.verified[3] > 0
    assert record.times.drawn_ns == tuple(range(1, count + 1, 7))
    all_ns = range(1, count + 1)
    assert record.times.sum_ns == sum(all_ns)
    assert record.times.squares_ns2 == sum(each**2 for each in all_ns)
    assert (record.times.least_ns, record.times.most_ns) == (1, count)


def test_what_does_not_fit_is_counted_all_the_same() -> None:
    time = FakeTime()
    plan = TrainPlan(
        (PlannedSegment("idle", 5), PlannedSegment("load", MOST_DRAWN + 100), PlannedSegment("idle", 5)), 0.0, 0.0
    )
    record = run_train(plan, time.repeat(1), 1, time.wait_until, time.monotonic_ns)
    assert len(record.times.drawn_ns) == MOST_DRAWN
    assert record.times.count == record.verified[1] == MOST_DRAWN + 100


def test_durations_are_drawn_so_rarely_that_a_train_of_the_trials_fastest_fits_with_a_margin() -> None:
    assert draw_every(30 * 10**9, 0.01) == 1
    assert 30 / 20e-6 / draw_every(30 * 10**9, 20e-6) < MOST_DRAWN / 1.5
    assert draw_every(30 * 10**9, 0.0) == 1


def test_a_request_to_end_is_heeded_in_a_load_segment_of_repetitions_that_never_wait() -> None:
    time = FakeTime()

    def wait_until(t_ns: int) -> None:
        if time.t_ns > 2_000:
            raise Stopped
        time.wait_until(t_ns)

    with pytest.raises(Stopped):
        run_train(PLAN, time.repeat(10), 3, wait_until, time.monotonic_ns)
    assert 2_000 < time.t_ns < 2_050


def test_a_request_to_end_is_heeded_where_every_repetition_fails() -> None:
    time = FakeTime()

    def wait_until(t_ns: int) -> None:
        if time.t_ns > 1_600:
            raise Stopped
        time.wait_until(t_ns)

    with pytest.raises(Stopped):
        run_train(PLAN, time.repeat(10, fail_every=1), 1, wait_until, time.monotonic_ns)
    assert time.t_ns < 1_650


def test_garbage_collection_is_off_inside_a_train_and_on_after_it_even_when_stopped() -> None:
    seen: list[bool] = []

    def stopping() -> Repetition:
        seen.append(gc.isenabled())
        raise Stopped

    time = FakeTime()
    with pytest.raises(Stopped):
        run_train(PLAN, stopping, 1, time.wait_until, time.monotonic_ns)
    assert seen == [False]
    assert gc.isenabled()


def test_a_trial_gives_median_and_least_time_and_ends_after_a_second() -> None:
    time = FakeTime()
    assert trial_s(time.repeat(2_500_000), time.monotonic_ns) == (0.0025, 0.0025)
    before_ns = time.t_ns
    assert trial_s(time.repeat(95_000_000_000), time.monotonic_ns) == (95.0, 95.0)
    assert time.t_ns - before_ns == 95_000_000_000


def test_a_real_plan_runs_to_its_end_with_edges_in_order() -> None:
    time = FakeTime()
    plan = plan_train(3, 60.0, 0.004, PRESETS["short"])
    record = run_train(plan, time.repeat(4_000_000), 1, time.wait_until, time.monotonic_ns)
    assert list(record.edges_ns) == sorted(set(record.edges_ns))
    assert sum(record.verified) == record.times.count == len(record.times.drawn_ns)


def test_idle_segments_end_within_a_millisecond_of_their_plan() -> None:
    stop = Stop()
    plan = TrainPlan((PlannedSegment("idle", 5_000_000), PlannedSegment("load", 5_000_000)) * 5, 0.0, 0.05)
    worst_ns = 10**9
    try:
        for _ in range(20):  # on a machine that does other things as well, some wake late
            edges_ns = run_train(plan, None, 1, stop.wait_until, monotonic_ns).edges_ns
            late_ns = [end_ns - start_ns - 5_000_000 for start_ns, end_ns in pairwise(edges_ns)]
            assert min(late_ns) >= 0
            worst_ns = min(worst_ns, sorted(late_ns)[len(late_ns) // 2])
    finally:
        stop.close()
    assert worst_ns < 1_000_000


def test_the_last_stretch_of_a_wait_is_slept_by_itself_because_linux_may_wake_late_by_a_thousandth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_s: list[float] = []

    def watched(readable: list[Stop], _w: object, _x: object, timeout_s: float) -> tuple[list[Stop], object, object]:
        asked_s.append(timeout_s)
        return select(readable, [], [], timeout_s)

    monkeypatch.setattr("runner.stopping.select.select", watched)
    stop = Stop()
    try:
        stop.wait_until(monotonic_ns() + 200_000_000)
    finally:
        stop.close()
    assert asked_s[0] == pytest.approx(0.18, abs=0.01)
    assert asked_s[-1] <= 0.04
