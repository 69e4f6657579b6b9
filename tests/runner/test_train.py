"""The loop of a train, on a clock that moves when told."""

import gc

import pytest

from runner.segments import PRESETS, PlannedSegment, TrainPlan, plan_train
from runner.stopping import Stopped
from runner.train import Repeat, Repetition, run_train, trial_s


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
    record = run_train(PLAN, time.repeat(300), 100, time.wait_until, time.monotonic_ns)
    assert record.edges_ns == (1_000, 1_500, 2_700, 3_400, 3_700, 4_100)
    assert record.verified == (0, 4, 0, 1, 0)
    assert record.durations_ns == (300,) * 5
    assert record.cpu_time_s == pytest.approx(5 * 0.25)


def test_a_repetition_longer_than_the_segment_runs_once() -> None:
    time = FakeTime()
    record = run_train(PLAN, time.repeat(5_000), 100, time.wait_until, time.monotonic_ns)
    assert record.verified == (0, 1, 0, 1, 0)


def test_failed_repetitions_are_counted_and_never_done() -> None:
    time = FakeTime()
    record = run_train(PLAN, time.repeat(100, fail_every=3), 100, time.wait_until, time.monotonic_ns)
    assert (record.verified, record.failed) == ((0, 7, 0, 2, 0), 4)
    assert record.first_error == "failure 3"
    assert len(record.durations_ns) == 9


def test_a_sham_train_sleeps_in_load_segments_too() -> None:
    time = FakeTime()
    record = run_train(PLAN, None, 0, time.wait_until, time.monotonic_ns)
    assert record.edges_ns == (1_000, 1_500, 2_500, 3_200, 3_500, 3_900)
    assert (sum(record.verified), record.failed) == (0, 0)


def test_a_load_segment_ends_early_when_the_room_for_times_is_used_up() -> None:
    time = FakeTime()
    record = run_train(PLAN, time.repeat(10), 5, time.wait_until, time.monotonic_ns)
    assert record.verified == (0, 5, 0, 0, 0)


def test_garbage_collection_is_off_inside_a_train_and_on_after_it_even_when_stopped() -> None:
    seen: list[bool] = []

    def stopping() -> Repetition:
        seen.append(gc.isenabled())
        raise Stopped

    time = FakeTime()
    with pytest.raises(Stopped):
        run_train(PLAN, stopping, 100, time.wait_until, time.monotonic_ns)
    assert seen == [False]
    assert gc.isenabled()


def test_a_trial_gives_median_and_least_time_and_ends_after_a_second() -> None:
    time = FakeTime()
    assert trial_s(time.repeat(2_000_000), time.monotonic_ns) == (0.002, 0.002)
    before_ns = time.t_ns
    assert trial_s(time.repeat(95_000_000_000), time.monotonic_ns) == (95.0, 95.0)
    assert time.t_ns - before_ns == 95_000_000_000


def test_a_real_plan_runs_to_its_end_with_edges_in_order() -> None:
    time = FakeTime()
    plan = plan_train(3, 60.0, 0.004, PRESETS["short"])
    record = run_train(plan, time.repeat(4_000_000), 100_000, time.wait_until, time.monotonic_ns)
    assert list(record.edges_ns) == sorted(set(record.edges_ns))
    assert sum(record.verified) == len(record.durations_ns)
