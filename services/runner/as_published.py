"""Runs a study's own procedure (`runner.procedures`) as it was done, in silence like a train."""

from dataclasses import dataclass

from runner.procedures import Procedure, Step
from runner.segments import PlannedSegment, TrainPlan
from runner.timing import Times
from runner.train import MonotonicNs, Repeat, Tally, TrainRecord, WaitUntil, load, quiet_memory

FOREVER_NS = 2**62


@dataclass(frozen=True, slots=True)
class _Passed:
    step: Step
    start_ns: int
    end_ns: int
    verified: int


def run_as_published(
    procedure: Procedure, repeat: Repeat, every: int, wait_until: WaitUntil, monotonic_ns: MonotonicNs
) -> tuple[TrainRecord, Times | None]:
    """All steps in their order: the segments with the repetitions in them, and the times of the timing step if any.

    What is verified counts in the segments only; what failed, and the first error, in any step: a mean over those that
    succeeded must not hide the rest.
    """
    tallies = {"warm_up": Tally(every), "load": Tally(every), "timing": Tally(1)}
    passed: list[_Passed] = []
    with quiet_memory():
        for step in procedure.steps:
            start_ns, count = monotonic_ns(), 0
            end_ns = start_ns + round(step.duration_s * 1e9) if step.duration_s else FOREVER_NS
            if step.kind == "idle":
                wait_until(end_ns)
            else:
                most = step.repetitions or -1
                count = load(repeat, end_ns, tallies[step.kind], wait_until, monotonic_ns, most)
            passed.append(_Passed(step, start_ns, monotonic_ns(), count))
    timed = any(step.kind == "timing" for step in procedure.steps)
    return _record(passed, tallies), tallies["timing"].times if timed else None


def _record(passed: list[_Passed], tallies: dict[str, Tally]) -> TrainRecord:
    """The segments follow each other in both studies: the end of one is the start of the next."""
    segments = [each for each in passed if each.step.kind in ("idle", "load")]
    planned = tuple(
        PlannedSegment("load" if each.step.kind == "load" else "idle", each.end_ns - each.start_ns) for each in segments
    )
    inside = tallies["load"]
    errors = (tallies[name].first_error for name in ("load", "timing", "warm_up"))
    return TrainRecord(
        plan=TrainPlan(planned, guard_s=0.0, expected_s=(segments[-1].end_ns - segments[0].start_ns) / 1e9),
        edges_ns=(segments[0].start_ns, *(each.end_ns for each in segments)),
        verified=tuple(each.verified for each in segments),
        times=inside.times,
        failed=sum(tally.failed for tally in tallies.values()),
        first_error=next((error for error in errors if error is not None), None),
        cpu_time_s=inside.cpu_time_s,
    )
