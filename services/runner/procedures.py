"""The two published studies' ways to measure, step by step, for campaigns with `procedure = "as-published"`. Pure.

They are run to reproduce figures with their faults: idle power from one side only, time and power from different
repetitions, no error of the method. The measurement of an operation is a train everywhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from runner.job import Job
from schemas import CATALOGUE

Study = Literal[1, 2]
StepKind = Literal["warm_up", "idle", "load", "timing"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step, in s or in repetitions: the other is 0.

    `idle` and `load` are the segments of the event. `warm_up` and `timing` are repetitions outside them; the mean time
    of the `timing` step is the event's `separate_timing_s`. With `duration_s` the repetition that crosses the end is
    finished.
    """

    kind: StepKind
    duration_s: float = 0.0
    repetitions: int = 0

    def expected_s(self, repetition_s: float) -> float:
        """How long it takes when one repetition takes `repetition_s`."""
        return self.duration_s or self.repetitions * repetition_s


@dataclass(frozen=True, slots=True)
class Procedure:
    """The steps of one measurement, in order. The event's procedure is `as_published`."""

    study: Study
    steps: tuple[Step, ...]

    def expected_s(self, repetition_s: float) -> float:
        """How long all steps take when one repetition takes `repetition_s`."""
        return sum(step.expected_s(repetition_s) for step in self.steps)


IDLE_S = 300.0
LOAD_S = 30.0
"""First study: its idle and its load recordings."""
WARM_UP_S = LOAD_S
"""First study: it warms up and does not say how long; here as long as the load."""
TIMING_REPETITIONS = 100
SLOW_TIMING_REPETITIONS = 10
SLOW_SIGNATURE_S = 4.5
"""First study: its 282 rows have 100 repetitions but for SLH-DSA signing on the two slowest boards (18 rows, 10).
No time per repetition separates them: there signing takes from 1.03 s, and up to 4.41 s on a board with 100. From
4.5 s on this rule gives what the study did but for the five fastest of the 18 rows, which get 100; key generation has
100 even at 10.5 s."""

SETTLE_S = 15.0
"""Second study: the time between two runs in its result log, 13.4 to 15.8 s in one series."""
NULL_SLEEP_S = 0.005
"""Second study: what one repetition of its NULL run sleeps; it starts no process."""
NULL_SLEEP_VARIANT = "sleep_s=0.005"
COUNTED_REPETITIONS = 10_000
COUNTED_BY_SET: Mapping[str, int] = MappingProxyType(
    {"RSA-1024": 1000, "RSA-2048": 200, "RSA-3072": 50, "RSA-4096": 20}
)
"""Second study, the first of its three series (a minute each on a Pi 5). Its RSA-1536 is not in the catalogue."""


def procedure_of(study: Study, job: Job, repetition_s: float) -> Procedure | None:
    """The study's steps for a job of which one repetition takes `repetition_s`; None for sham: it is a train."""
    if job.operation == "sham":
        return None
    return _first_study(job, repetition_s) if study == 1 else _second_study(job)


def study_nulls(study: Study) -> tuple[Job, ...]:
    """The null runs that the study itself had: none in the first, one that sleeps in the second."""
    return (Job("null", backend="none", null_variant=NULL_SLEEP_VARIANT),) if study == 2 else ()


def counted_repetitions(study: Study, job: Job, repetition_s: float) -> int:
    """How many repetitions a study timed of a job of which one takes `repetition_s`."""
    return timing_repetitions(job, repetition_s) if study == 1 else _repetitions_of_the_second(job)


def timing_repetitions(job: Job, repetition_s: float) -> int:
    """How often the first study repeats for its timing: 100, or 10 where a signature of SLH-DSA is slow."""
    each = CATALOGUE.get(job.parameter_set)
    slow = each is not None and each.family == "SLH-DSA" and job.operation == "sign" and repetition_s > SLOW_SIGNATURE_S
    return SLOW_TIMING_REPETITIONS if slow else TIMING_REPETITIONS


def _first_study(job: Job, repetition_s: float) -> Procedure:
    steps = (
        Step("warm_up", duration_s=WARM_UP_S),
        Step("idle", duration_s=IDLE_S),
        Step("load", duration_s=LOAD_S),
        Step("timing", repetitions=timing_repetitions(job, repetition_s)),
    )
    return Procedure(1, steps)


def _second_study(job: Job) -> Procedure:
    load = Step("load", repetitions=_repetitions_of_the_second(job))
    return Procedure(2, (Step("idle", duration_s=SETTLE_S), load))


def _repetitions_of_the_second(job: Job) -> int:
    return COUNTED_BY_SET.get(job.parameter_set, COUNTED_REPETITIONS)
