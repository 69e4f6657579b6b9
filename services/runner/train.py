"""The loop that runs a train. Inside it: no network, no log, no write of ours, nothing that grows."""

import gc
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from runner.segments import TrainPlan
from runner.timing import median

TRIAL_REPETITIONS = 5
TRIAL_S = 1.0


class Repetition(NamedTuple):
    """One execution of an operation: what went wrong, if anything, and the CPU time of its processes."""

    error: str | None
    cpu_time_s: float


Repeat = Callable[[], Repetition]
MonotonicNs = Callable[[], int]
WaitUntil = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class TrainRecord:
    """What happened. `edges_ns` are readings of the monotonic clock: segment i is from edge i to edge i + 1."""

    plan: TrainPlan
    edges_ns: tuple[int, ...]
    verified: tuple[int, ...]
    durations_ns: tuple[int, ...]
    failed: int
    first_error: str | None
    cpu_time_s: float


class _Tally:
    """Room for the times of all repetitions, made before the train."""

    def __init__(self, capacity: int) -> None:
        self.durations_ns = array("q", bytes(8 * capacity))
        self.verified = 0
        self.failed = 0
        self.first_error: str | None = None
        self.cpu_time_s = 0.0

    @property
    def full(self) -> bool:
        return self.verified == len(self.durations_ns)

    def add(self, repetition: Repetition, duration_ns: int) -> None:
        if repetition.error is None:
            self.durations_ns[self.verified] = duration_ns
            self.verified += 1
            self.cpu_time_s += repetition.cpu_time_s
            return
        self.failed += 1
        if self.first_error is None:
            self.first_error = repetition.error


def trial_s(repeat: Repeat, monotonic_ns: MonotonicNs) -> tuple[float, float]:
    """Median and least time of a few repetitions, in s, whether they succeed or not."""
    durations_s: list[float] = []
    while len(durations_s) < TRIAL_REPETITIONS and sum(durations_s) < TRIAL_S:
        start_ns = monotonic_ns()
        repeat()
        durations_s.append((monotonic_ns() - start_ns) / 1e9)
    durations_s.sort()
    return median(durations_s), durations_s[0]


def run_train(
    plan: TrainPlan, repeat: Repeat | None, capacity: int, wait_until: WaitUntil, monotonic_ns: MonotonicNs
) -> TrainRecord:
    """Run the planned segments; without `repeat` (a sham train) load segments sleep as well.

    Room is made for `capacity` verified repetitions; when it is used up, load segments end early.
    """
    tally = _Tally(capacity)
    edges_ns = array("q", bytes(8 * (len(plan.segments) + 1)))
    verified = array("q", bytes(8 * len(plan.segments)))
    with _quiet():
        edges_ns[0] = monotonic_ns()
        for index, planned in enumerate(plan.segments):
            end_ns = edges_ns[index] + planned.duration_ns
            if planned.kind == "load" and repeat is not None:
                verified[index] = _load(repeat, end_ns, tally, monotonic_ns)
            else:
                wait_until(end_ns)
            edges_ns[index + 1] = monotonic_ns()
    return TrainRecord(
        plan=plan,
        edges_ns=tuple(edges_ns),
        verified=tuple(verified),
        durations_ns=tuple(tally.durations_ns[: tally.verified]),
        failed=tally.failed,
        first_error=tally.first_error,
        cpu_time_s=tally.cpu_time_s,
    )


def _load(repeat: Repeat, end_ns: int, tally: _Tally, monotonic_ns: MonotonicNs) -> int:
    """Repeat until a repetition crosses the planned end, at least once; the number of verified repetitions."""
    verified_before = tally.verified
    last_ns = monotonic_ns()
    while not tally.full:
        repetition = repeat()
        after_ns = monotonic_ns()
        tally.add(repetition, after_ns - last_ns)
        last_ns = after_ns
        if after_ns >= end_ns:
            break
    return tally.verified - verified_before


@contextmanager
def _quiet() -> Iterator[None]:
    """No garbage collection, and nothing for it to look at later."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
