"""The loop that runs a train. Inside it: no network, no log, no write of ours, nothing that grows."""

import gc
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from runner.segments import TrainPlan
from runner.timing import Times, median

TRIAL_REPETITIONS = 5
TRIAL_S = 1.0
TRIAL_LEAST_S = 0.01
"""A trial of fast repetitions goes on for so long: the first few are slower than all later ones."""
MOST_DRAWN = 8_192
"""Durations that a train keeps one by one."""
DRAWN_MARGIN = 2.0
"""Room for repetitions this much faster than the fastest of the trial."""
_NO_DURATION_NS = 2**62


class Repetition(NamedTuple):
    """One execution of an operation: what went wrong, if anything, and the CPU time of its processes."""

    error: str | None
    cpu_time_s: float


Repeat = Callable[[], Repetition]
MonotonicNs = Callable[[], int]
WaitUntil = Callable[[int], None]
RunTrain = Callable[[TrainPlan, int, float], "TrainRecord"]
"""A train that runs elsewhere, e.g. in a process of its own: plan, `every` and the limit of a repetition in s."""


@dataclass(frozen=True, slots=True)
class TrainRecord:
    """What happened. `edges_ns` are readings of the monotonic clock: segment i is from edge i to edge i + 1."""

    plan: TrainPlan
    edges_ns: tuple[int, ...]
    verified: tuple[int, ...]
    times: Times
    failed: int
    first_error: str | None
    cpu_time_s: float


class Tally:
    """What is kept of repetitions, with all its room made and touched before the train."""

    __slots__ = ("count", "cpu_time_s", "drawn", "durations_ns", "every", "failed", "first_error", "least_ns",
                 "most_ns", "squares_ns2", "sum_ns", "to_next")  # fmt: skip

    def __init__(self, every: int) -> None:
        self.every = every
        self.durations_ns = array("q", bytes(8 * MOST_DRAWN))
        self.drawn = self.count = self.sum_ns = self.squares_ns2 = self.most_ns = self.failed = 0
        self.least_ns = _NO_DURATION_NS
        self.to_next = 1
        self.first_error: str | None = None
        self.cpu_time_s = 0.0

    def draw(self, duration_ns: int) -> None:
        """Keep this one by itself, as long as there is room."""
        if self.drawn < MOST_DRAWN:
            self.durations_ns[self.drawn] = duration_ns
            self.drawn += 1

    def fail(self, error: str) -> None:
        """Count a repetition that came to nothing."""
        self.failed += 1
        if self.first_error is None:
            self.first_error = error

    @property
    def times(self) -> Times:
        """All of it, for statistics."""
        least_ns = self.least_ns if self.count else 0
        drawn_ns = tuple(self.durations_ns[: self.drawn])
        return Times(self.count, self.sum_ns, self.squares_ns2, least_ns, self.most_ns, drawn_ns)


def trial_s(repeat: Repeat, monotonic_ns: MonotonicNs) -> tuple[float, float]:
    """Median and least time of a few repetitions, in s, whether they succeed or not."""
    durations_s: list[float] = []
    spent_s = 0.0
    while spent_s < TRIAL_LEAST_S or (len(durations_s) < TRIAL_REPETITIONS and spent_s < TRIAL_S):
        start_ns = monotonic_ns()
        repeat()
        durations_s.append(max(monotonic_ns() - start_ns, 1) / 1e9)
        spent_s += durations_s[-1]
    durations_s.sort()
    return median(durations_s), durations_s[0]


def draw_every(load_ns: int, least_s: float) -> int:
    """So that the durations drawn in load segments of this length fit, were all as short as the shortest of a trial."""
    if least_s <= 0:
        return 1
    return max(1, round(DRAWN_MARGIN * load_ns / 1e9 / least_s / MOST_DRAWN))


def run_train(
    plan: TrainPlan, repeat: Repeat | None, every: int, wait_until: WaitUntil, monotonic_ns: MonotonicNs
) -> TrainRecord:
    """Run the planned segments; without `repeat` (a sham train) load segments sleep as well.

    Of the durations of verified repetitions each `every`-th is kept by itself, `MOST_DRAWN` at most; all are counted.
    """
    tally = Tally(every)
    edges_ns = array("q", bytes(8 * (len(plan.segments) + 1)))
    verified = array("q", bytes(8 * len(plan.segments)))
    with quiet_memory():
        edges_ns[0] = monotonic_ns()
        for index, planned in enumerate(plan.segments):
            end_ns = edges_ns[index] + planned.duration_ns
            if planned.kind == "load" and repeat is not None:
                verified[index] = load(repeat, end_ns, tally, wait_until, monotonic_ns)
            else:
                wait_until(end_ns)
            edges_ns[index + 1] = monotonic_ns()
    return TrainRecord(
        plan=plan,
        edges_ns=tuple(edges_ns),
        verified=tuple(verified),
        times=tally.times,
        failed=tally.failed,
        first_error=tally.first_error,
        cpu_time_s=tally.cpu_time_s,
    )


def load(
    repeat: Repeat, end_ns: int, tally: Tally, wait_until: WaitUntil, monotonic_ns: MonotonicNs, most: int = -1
) -> int:
    """Repeat until a repetition crosses the planned end or is the `most`-th; the number of verified repetitions.

    All is in local variables, since what is done here between two repetitions is measured with them.
    """
    count, sum_ns, squares_ns2, cpu_s = tally.count, tally.sum_ns, tally.squares_ns2, tally.cpu_time_s
    least_ns, most_ns, to_next = tally.least_ns, tally.most_ns, tally.to_next
    after_ns = monotonic_ns()
    while True:
        last_ns = after_ns
        error, cpu_time_s = repeat()
        after_ns = monotonic_ns()
        if error is not None:
            tally.fail(error)
            wait_until(after_ns)  # returns at once; raises where the runner was asked to end
        else:
            duration_ns = after_ns - last_ns
            count += 1
            sum_ns += duration_ns
            squares_ns2 += duration_ns * duration_ns
            cpu_s += cpu_time_s
            least_ns = min(least_ns, duration_ns)
            most_ns = max(most_ns, duration_ns)
            to_next -= 1
            if not to_next:
                to_next = tally.every
                tally.draw(duration_ns)
                wait_until(after_ns)
        most -= 1
        if after_ns >= end_ns or not most:
            break
    verified = count - tally.count
    tally.count, tally.sum_ns, tally.squares_ns2, tally.cpu_time_s = count, sum_ns, squares_ns2, cpu_s
    tally.least_ns, tally.most_ns, tally.to_next = least_ns, most_ns, to_next
    return verified


@contextmanager
def quiet_memory() -> Iterator[None]:
    """No garbage collection, and nothing for it to look at later."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
