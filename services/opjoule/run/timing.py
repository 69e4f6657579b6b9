"""Times one prepared job on this machine: so many repetitions, verified, and nothing in between."""

import gc
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from errors import SettingsError
from runner.around import check_error, limit_s
from runner.job import Job
from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.operations import Work
from runner.procedures import Study, counted_repetitions
from runner.timing import time_statistics, times_of
from runner.train import Repeat, trial_s
from schemas import TimeStatistics

USUAL, WHEN_SLOW = 100, 10
"""Repetitions in the first published study: 10 where one took longer than `SLOW_S`.

(It took 10 for the SLH-DSA signatures of its two slowest boards, 1.03 s to 95.5 s each, and 100 for all else.)
"""
SLOW_S = 1.0
Between = Callable[[int, int], None]
"""Told how many repetitions are done, of how many; called outside the timed stretches."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What the repetitions took, in wall-clock ns since 1970 from start to stop; `first_error` is of those failed."""

    start_ns: int
    stop_ns: int
    times: TimeStatistics | None
    failed: int
    first_error: str


def usual_repetitions(median_s: float) -> int:
    """How many repetitions of an operation that takes so long, unless the user says."""
    return WHEN_SLOW if median_s > SLOW_S else USUAL


def repetitions_here(study: Study | None, job: Job, median_s: float) -> int:
    """The same, or as many as a study took where its campaign is run as published."""
    return usual_repetitions(median_s) if study is None else counted_repetitions(study, job, median_s)


def time_work(work: Work, repetitions: Callable[[float], int], between: Between) -> Timed:
    """A short trial, then as many repetitions as `repetitions` says of its median in s, then the check.

    When the check fails, none counts as verified. Raises SettingsError for work without repetitions (sham).
    """
    if work.begin is None:
        raise SettingsError("there is nothing to time")
    with _no_collection():
        median_s, _ = trial_s(work.begin(PREPARATION_LIMIT_S), time.monotonic_ns)
        count = repetitions(median_s)
        timed = _repeat(work.begin(limit_s(median_s)), count, between)
    error = check_error(work)
    return timed if error is None else Timed(timed.start_ns, timed.stop_ns, None, count, timed.first_error or error)


def _repeat(repeat: Repeat, count: int, between: Between) -> Timed:
    durations_ns = array("q")
    first_error = ""
    start_ns = time.time_ns()
    for number in range(count):
        before_ns = time.monotonic_ns()
        repetition = repeat()
        after_ns = time.monotonic_ns()
        if repetition.error is None:
            durations_ns.append(after_ns - before_ns)
        else:
            first_error = first_error or repetition.error
        between(number + 1, count)
    return Timed(
        start_ns, time.time_ns(), time_statistics(times_of(durations_ns)), count - len(durations_ns), first_error
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
