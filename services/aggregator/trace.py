"""The power trace of one meter: integral and mean of PBUS over any stretch of time. Pure.

Between neighbouring samples power is taken as linear; at both ends of the data, and at both sides of a gap, a sample
holds for half a period. So a ramp is integrated exactly, and the mean over a whole recording is the mean of its
samples. Nothing is ever taken from inside a gap: the integral comes with the time that it covers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GAP_PERIODS = 2.5
"""Samples further apart than this many periods, nominal or usual, have a gap between them..."""
GAP_MINIMUM_NS = 60_000_000
"""...unless they are closer than this: one lost report of an FNB58 (four samples, 40 ms) is bridged, two are not."""


STUCK_S = 2.0
"""A meter that repeats one value for longer has stopped measuring."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What the trace says of a stretch of time: `covered_s` is how much of it lies between samples."""

    energy_j: float
    covered_s: float
    length_s: float

    @property
    def mean_w(self) -> float:
        """Mean power over the covered time, in W; NaN where nothing is covered."""
        return self.energy_j / self.covered_s if self.covered_s > 0 else float("nan")

    @property
    def missing_s(self) -> float:
        """Time without samples, in s."""
        return self.length_s - self.covered_s


class PowerTrace:
    """Samples in order of time, ready to be integrated. Shapes: `t_ns` (n,), `power_w` (n,)."""

    def __init__(self, t_ns: Integers, power_w: Floats, period_ns: int) -> None:
        if t_ns.shape != power_w.shape or t_ns.ndim != 1:
            raise ValueError("t_ns and power_w must be one-dimensional and of one length")
        if np.any(np.diff(t_ns) <= 0):
            raise ValueError("samples must be in strict order of time")
        self.t_ns = t_ns
        self.power_w = power_w
        self.period_ns = period_ns
        self._origin_ns = int(t_ns[0]) if len(t_ns) else 0
        self._knots()

    def _knots(self) -> None:
        """Cumulative energy and covered time at every sample and at the half-period holds around each run."""
        t_s = (self.t_ns - self._origin_ns) / 1e9
        half_s = self.period_ns / 2e9
        spacing_ns = np.diff(self.t_ns)
        usual_ns = min(self.period_ns, float(np.median(spacing_ns))) if len(spacing_ns) else self.period_ns
        breaks = np.flatnonzero(spacing_ns > max(GAP_PERIODS * usual_ns, GAP_MINIMUM_NS))
        firsts = np.concatenate(([0], breaks + 1)) if len(t_s) else np.empty(0, np.int64)
        lasts = np.concatenate((breaks, [len(t_s) - 1])) if len(t_s) else np.empty(0, np.int64)
        x_s = np.concatenate((t_s, t_s[firsts] - half_s, t_s[lasts] + half_s))
        p_w = np.concatenate((self.power_w, self.power_w[firsts], self.power_w[lasts]))
        order = np.argsort(x_s, kind="stable")
        self._x_s, self._p_w = x_s[order], p_w[order]
        step_s = np.diff(self._x_s)
        closing = np.searchsorted(self._x_s, t_s[lasts] + half_s) if len(t_s) else np.empty(0, np.int64)
        self._open = np.ones(len(step_s), dtype=bool)
        self._open[closing[:-1]] = False
        area_j = np.where(self._open, step_s * (self._p_w[1:] + self._p_w[:-1]) / 2, 0.0)
        self._energy_j = np.concatenate(([0.0], np.cumsum(area_j)))
        self._covered_s = np.concatenate(([0.0], np.cumsum(np.where(self._open, step_s, 0.0))))

    def stretch(self, start_ns: int, end_ns: int) -> Stretch:
        """Integral of PBUS over [start, end), in J, and the time that it covers."""
        length_s = (end_ns - start_ns) / 1e9
        if len(self._x_s) == 0 or end_ns <= start_ns:
            return Stretch(0.0, 0.0, max(length_s, 0.0))
        energy, covered = self._cumulative(np.array([start_ns, end_ns], dtype=np.int64))
        return Stretch(float(energy[1] - energy[0]), float(covered[1] - covered[0]), length_s)

    def _cumulative(self, t_ns: Integers) -> tuple[Floats, Floats]:
        x_s = np.clip((t_ns - self._origin_ns) / 1e9, self._x_s[0], self._x_s[-1])
        i = np.clip(np.searchsorted(self._x_s, x_s, side="right") - 1, 0, len(self._x_s) - 2)
        dx_s = np.where(self._open[i], x_s - self._x_s[i], 0.0)
        width_s = self._x_s[i + 1] - self._x_s[i]
        slope = np.divide(self._p_w[i + 1] - self._p_w[i], width_s, out=np.zeros(len(i)), where=width_s > 0)
        energy: Floats = self._energy_j[i] + dx_s * (self._p_w[i] + slope * dx_s / 2)
        covered: Floats = self._covered_s[i] + dx_s
        return energy, covered

    def samples(self, start_ns: int, end_ns: int) -> Floats:
        """The powers of the samples in [start, end), in W."""
        first, last = np.searchsorted(self.t_ns, [start_ns, end_ns])
        return self.power_w[first:last]

    def new_values(self, start_ns: int, end_ns: int) -> int:
        """How many samples in [start, end) differ from the one before; the first of them counts as new."""
        values = self.samples(start_ns, end_ns)
        return int(np.count_nonzero(np.diff(values))) + min(1, len(values))


def without_stuck(trace: PowerTrace) -> PowerTrace:
    """The trace without runs of one value longer than `STUCK_S`: a meter that froze says nothing more.

    Meters hold values (an FNB58 for 100 ms; 0.38 s was the longest run in 371 recordings), so short runs are normal.
    """
    if len(trace.t_ns) < 2:
        return trace
    firsts = np.flatnonzero(np.concatenate(([True], np.diff(trace.power_w) != 0)))
    lasts = np.concatenate((firsts[1:], [len(trace.t_ns)])) - 1
    long = (trace.t_ns[lasts] - trace.t_ns[firsts]) > STUCK_S * 1e9
    if not long.any():
        return trace
    kept = np.repeat(~long, lasts - firsts + 1)
    return PowerTrace(trace.t_ns[kept], trace.power_w[kept], trace.period_ns)


def concatenate(parts: Iterable[tuple[Integers, Floats]], period_ns: int) -> PowerTrace:
    """A trace from batches in any order; a sample that comes twice counts once."""
    pairs = list(parts)
    if not pairs:
        return PowerTrace(np.empty(0, np.int64), np.empty(0, np.float64), period_ns)
    t_ns, first = np.unique(np.concatenate([t for t, _ in pairs]), return_index=True)
    return PowerTrace(t_ns, np.concatenate([p for _, p in pairs])[first], period_ns)
