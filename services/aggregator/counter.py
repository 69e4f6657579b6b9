"""The meter's own energy counter beside the integral of its samples, over the same stretch of a train. Pure.

Both count with the same voltage, current and calibration, so the gain error is common and cancels: what differs when
they disagree is what was lost, held or misplaced between the meter and the trace. README.md has a worked example.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from aggregator.trace import PowerTrace
from aggregator.uncertainty import Standard, quantity
from schemas import CounterCheck, Quantity

COVERAGE_FACTOR = 3.0
"""They disagree when they differ by more than this many standard uncertainties of their difference."""
HELD_S = 0.5
"""A value that stands for longer was not held: the power did not change (the longest run in 371 recordings of an FNB58
is 0.38 s)."""


@dataclass(frozen=True, slots=True)
class CounterReading:
    """What the counter said beside one sample, and its step."""

    t_ns: int
    energy_j: float
    resolution_j: float


def compare(
    trace: PowerTrace, readings: Sequence[CounterReading], start_ns: int, end_ns: int, counter_u: float
) -> CounterCheck | None:
    """Counter and integral between the first and the last reading in [start, end]; readings in order of time.

    `counter_u` is how far the counter's own power may be off that of the samples, a relative standard uncertainty.
    None for fewer than two readings, and where the counter was cleared between them.
    """
    inside = [reading for reading in readings if start_ns <= reading.t_ns <= end_ns]
    if len(inside) < 2 or any(after.energy_j < before.energy_j for before, after in pairwise(inside)):
        return None
    first, last = inside[0], inside[-1]
    counted_j = last.energy_j - first.energy_j
    if not math.isfinite(counted_j):
        return None
    u_j = math.hypot(max(first.resolution_j, last.resolution_j) / math.sqrt(6), counter_u * counted_j)
    return CounterCheck(
        span_s=(last.t_ns - first.t_ns) / 1e9,
        counter_j=quantity(counted_j, Standard(u_j)),
        integral_j=_integral(trace, first.t_ns, last.t_ns),
    )


def disagrees(check: CounterCheck | None) -> bool:
    """Whether counter and integral differ by more than chance; False where there is nothing to compare."""
    if check is None or check.integral_j is None:
        return False
    counter, integral = check.counter_j, check.integral_j
    return abs(counter.value - integral.value) > COVERAGE_FACTOR * math.hypot(counter.u, integral.u)


def _integral(trace: PowerTrace, start_ns: int, end_ns: int) -> Quantity | None:
    """Energy by the samples from start to end, both included, in J; None where some are missing.

    Its uncertainty is what the samples do not show. Between them: a value stood for the time L, at most `HELD_S`, until
    the next one came, and may be off by d / sqrt(2), d being the step to that; values are independent. At both ends the
    counter may be a period older or newer than its sample, evenly distributed.
    """
    first, last = np.searchsorted(trace.t_ns, [start_ns, end_ns + 1])
    stretch = trace.stretch(start_ns, end_ns)
    if last - first < 2 or stretch.missing_s > 0.5e-9 * trace.period_ns:
        return None
    t_s, power_w = (trace.t_ns[first:last] - start_ns) / 1e9, trace.power_w[first:last]
    new = np.flatnonzero(np.diff(power_w)) + 1
    stood_s = np.minimum(np.diff(t_s[np.concatenate(([0], new))]), HELD_S)
    between_j2 = float(np.sum((stood_s * np.diff(power_w)[new - 1]) ** 2)) / 2
    ends_j2 = (trace.period_ns / 1e9) ** 2 * float(power_w[0] ** 2 + power_w[-1] ** 2) / 3
    return quantity(stretch.energy_j, Standard(math.sqrt(between_j2 + ends_j2)))
