"""The studies' own procedures, on a clock that moves when told."""

from runner.as_published import run_as_published
from runner.procedures import Procedure, Step
from runner.train import Repetition

S = 10**9


class FakeTime:
    """Waiting and repeating move it."""

    def __init__(self, repetition_s: float) -> None:
        self.t_ns = 5 * S
        self.repetitions = 0
        self._repetition_ns = round(repetition_s * S)
        self.failing = False

    def monotonic_ns(self) -> int:
        return self.t_ns

    def wait_until(self, t_ns: int) -> None:
        self.t_ns = t_ns

    def repeat(self) -> Repetition:
        self.repetitions += 1
        self.t_ns += self._repetition_ns
        return Repetition("no digest" if self.failing else None, 0.0)


FIRST = Procedure(
    1,
    (
        Step("warm_up", duration_s=30.0),
        Step("idle", duration_s=300.0),
        Step("load", duration_s=30.0),
        Step("timing", repetitions=100),
    ),
)
SECOND = Procedure(2, (Step("idle", duration_s=15.0), Step("load", repetitions=1000)))


def test_the_first_study_idles_and_loads_once_and_takes_its_time_from_other_repetitions() -> None:
    time = FakeTime(0.4)
    record, timing = run_as_published(FIRST, time.repeat, 1, time.wait_until, time.monotonic_ns)
    assert [(each.kind, each.duration_ns) for each in record.plan.segments] == [("idle", 300 * S), ("load", 30 * S)]
    assert record.edges_ns == (35 * S, 335 * S, 365 * S)
    assert record.verified == (0, 75)
    assert timing is not None
    assert (timing.count, timing.sum_ns) == (100, 40 * S)
    assert time.repetitions == 75 + 75 + 100
    assert record.plan.guard_s == 0.0


def test_the_second_study_counts_its_repetitions_and_has_no_other_timing() -> None:
    time = FakeTime(0.05)
    record, timing = run_as_published(SECOND, time.repeat, 1, time.wait_until, time.monotonic_ns)
    assert record.edges_ns == (5 * S, 20 * S, 70 * S)
    assert record.verified == (0, 1000)
    assert record.times.count == 1000
    assert timing is None


def test_repetitions_that_fail_are_counted_and_end_a_counted_step_as_well() -> None:
    time = FakeTime(0.05)
    time.failing = True
    record, _ = run_as_published(SECOND, time.repeat, 1, time.wait_until, time.monotonic_ns)
    assert (record.verified, record.failed, record.first_error) == ((0, 0), 1000, "no digest")
    record, timing = run_as_published(FIRST, time.repeat, 1, time.wait_until, time.monotonic_ns)
    assert timing is not None
    assert (record.failed, timing.count) == (600 + 600 + 100, 0)


def test_what_fails_in_the_timing_run_alone_is_not_hidden_by_the_mean_of_the_rest() -> None:
    time = FakeTime(0.4)

    def repeat() -> Repetition:
        time.failing = 150 <= time.repetitions < 190
        return time.repeat()

    record, timing = run_as_published(FIRST, repeat, 1, time.wait_until, time.monotonic_ns)
    assert timing is not None
    assert (record.verified, timing.count) == ((0, 75), 60)
    assert (record.failed, record.first_error) == (40, "no digest")
