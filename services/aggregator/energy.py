"""From a power trace and the segments of a train to joules (DESIGN.md 4). Pure; README.md has a worked example.

For every load segment k between two idle segments:

    b_k  = mean of the two mean powers of the guarded idle segments before and after it
    E_k  = integral of P from start_k - g to end_k + g, minus b_k (T_k + 2 g)
    d_k  = mean power of the load segment without g at both ends, minus b_k

A load segment whose samples, or whose idle neighbours' samples, are not all there is left out whole, energy and
repetitions together. No energy is ever clipped, no sample ever made up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from aggregator.trace import PowerTrace
from aggregator.uncertainty import Standard, combine, of_mean, of_scatter
from schemas import Segment

Floats = NDArray[np.float64]
IDLE_COVERAGE = 0.9
"""An idle segment must be covered by samples to this fraction to give a baseline."""
LEAST_SAMPLES = 2
"""A load or guarded idle segment with fewer samples says nothing. (A TC66C has ten a second: README.md, decisions.)"""
SETTLING_SAMPLES = 5
"""Fewer samples after a guard do not show whether power still moves."""
LONG_SEGMENT_S = 5.0
FEW_SEGMENTS = 5
"""Below this many load segments the scatter between them is no longer trusted alone."""
LONG_TRAIN_SEGMENTS = 8
LONG_TRAIN_FACTOR = 4 / 3
SETTLED = 0.997


@dataclass(frozen=True, slots=True)
class Load:
    """One load segment that counts. Energies in J, powers in W, times in s."""

    segment: Segment
    before: int | None
    after: int | None
    length_s: float
    baseline_w: float
    gross_j: float
    net_j: float
    plateau_j: float | None

    @property
    def idle_indices(self) -> tuple[int, ...]:
        """Which segments of the train gave the baseline."""
        return tuple(i for i in (self.before, self.after) if i is not None)


@dataclass(frozen=True, slots=True)
class TrainEnergy:
    """Energy of the load segments that count, and what was left out."""

    loads: tuple[Load, ...]
    dropped: int
    no_baseline: bool

    @property
    def load_s(self) -> float:
        """Length of the load segments, in s."""
        return sum(load.length_s for load in self.loads)

    @property
    def net_j(self) -> float:
        """E_net: every joule above idle, starting and stopping included."""
        return sum(load.net_j for load in self.loads)

    @property
    def gross_j(self) -> float:
        """Integral of PBUS over the load segments."""
        return sum(load.gross_j for load in self.loads)

    @property
    def baseline_w(self) -> float:
        """Idle power, weighted by the load segments that it is taken from."""
        return sum(load.baseline_w * load.length_s for load in self.loads) / self.load_s

    @property
    def repetitions(self) -> int:
        """Verified repetitions in the load segments that count."""
        return sum(load.segment.repetitions for load in self.loads)

    @property
    def single_baseline(self) -> bool:
        """Whether a load segment had an idle segment on one side only."""
        return any(len(load.idle_indices) == 1 for load in self.loads)


def measure(trace: PowerTrace, segments: Sequence[Segment], guard_ns: int) -> TrainEnergy:
    """Energy of each load segment. Segments and trace are on one timeline."""
    idle_w = {i: _idle_power_w(trace, s, guard_ns) for i, s in enumerate(segments) if s.kind == "idle"}
    loads: list[Load] = []
    dropped, missing_baselines = 0, 0
    for i, segment in enumerate(segments):
        if segment.kind != "load":
            continue
        neighbours = [j for j in (i - 1, i + 1) if j in idle_w]
        load = _load(trace, segments, i, guard_ns, idle_w) if neighbours else None
        missing_baselines += not neighbours
        if load is None:
            dropped += 1
        else:
            loads.append(load)
    return TrainEnergy(tuple(loads), dropped, missing_baselines > 0)


def _load(
    trace: PowerTrace, segments: Sequence[Segment], i: int, guard_ns: int, idle_w: dict[int, float | None]
) -> Load | None:
    """Load segment i; None where samples are missing."""
    segment = segments[i]
    powers = {j: idle_w[j] for j in (i - 1, i + 1) if j in idle_w}
    known = [power for power in powers.values() if power is not None]
    widened = trace.stretch(segment.start_ns - guard_ns, segment.end_ns + guard_ns)
    gross = trace.stretch(segment.start_ns, segment.end_ns)
    few = len(trace.samples(segment.start_ns, segment.end_ns)) < LEAST_SAMPLES
    if few or len(known) < len(powers) or widened.missing_s > 0.5e-9 * trace.period_ns:
        return None
    baseline_w = sum(known) / len(known)
    return Load(
        segment=segment,
        before=i - 1 if i - 1 in powers else None,
        after=i + 1 if i + 1 in powers else None,
        length_s=segment.duration_s,
        baseline_w=baseline_w,
        gross_j=gross.energy_j,
        net_j=widened.energy_j - baseline_w * widened.length_s,
        plateau_j=_plateau_j(trace, segment, guard_ns, baseline_w),
    )


def _plateau_j(trace: PowerTrace, segment: Segment, guard_ns: int, baseline_w: float) -> float | None:
    """d_k T_k; None for a segment that is all guard."""
    inner = trace.stretch(segment.start_ns + guard_ns, segment.end_ns - guard_ns)
    return (inner.mean_w - baseline_w) * segment.duration_s if inner.covered_s > 0 else None


def guarded(segment: Segment, guard_ns: int) -> tuple[int, int]:
    """What the guard leaves of an idle segment: start and end in ns."""
    return segment.start_ns + guard_ns, segment.end_ns - guard_ns


def _idle_power_w(trace: PowerTrace, segment: Segment, guard_ns: int) -> float | None:
    """Mean power of a guarded idle segment; None where too little of it is covered."""
    few = len(trace.samples(*guarded(segment, guard_ns))) < LEAST_SAMPLES
    stretch = trace.stretch(*guarded(segment, guard_ns))
    if few or stretch.covered_s < IDLE_COVERAGE * stretch.length_s:
        return None
    return stretch.mean_w


def scatter(trace: PowerTrace, segments: Sequence[Segment], guard_ns: int, energy: TrainEnergy) -> Standard | None:
    """Uncertainty of E_net, in J, from the data alone; None where there are too few samples to tell.

    Five and more load segments: from their scatter. Fewer than eight long ones: the larger of that, widened by 4/3,
    and the one from batch means inside the segments. Fewer than five: the same, whatever their length.
    """
    k = len(energy.loads)
    lengths_s = np.array([load.length_s for load in energy.loads])
    between = of_scatter(np.array([load.net_j for load in energy.loads]), lengths_s) if k >= 2 else None
    long = k < LONG_TRAIN_SEGMENTS and float(lengths_s.max()) >= LONG_SEGMENT_S
    if between is not None and k >= FEW_SEGMENTS and not long:
        return between
    inside = _inside(trace, segments, guard_ns, energy)
    widened = between.scaled(LONG_TRAIN_FACTOR) if between is not None else None
    candidates = [each for each in (inside, widened) if each is not None]
    return max(candidates, key=lambda each: each.u, default=None)


def _inside(trace: PowerTrace, segments: Sequence[Segment], guard_ns: int, energy: TrainEnergy) -> Standard | None:
    """Uncertainty of E_net, in J, from batch means inside its load and idle segments."""
    parts: list[Standard] = []
    idle_weight_s: dict[int, float] = {}
    for load in energy.loads:
        mean = of_mean(trace.samples(load.segment.start_ns, load.segment.end_ns))
        if mean is None:
            return None
        parts.append(mean.scaled(load.length_s))
        for j in load.idle_indices:
            idle_weight_s[j] = idle_weight_s.get(j, 0.0) + load.length_s / len(load.idle_indices)
    for j, weight_s in idle_weight_s.items():
        mean = of_mean(trace.samples(*guarded(segments[j], guard_ns)))
        if mean is None:
            return None
        parts.append(mean.scaled(weight_s))
    return combine(parts)


def transient(energy: TrainEnergy) -> tuple[float, float, Standard] | None:
    """E_plateau, E_net - E_plateau and its uncertainty from the paired differences, in J; None below two segments."""
    pairs = [(load.net_j, load.plateau_j) for load in energy.loads if load.plateau_j is not None]
    if len(pairs) < max(2, len(energy.loads)):
        return None
    net_j, plateau_j = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    difference_j = net_j - plateau_j
    k = len(difference_j)
    u_j = float(np.sqrt(k * difference_j.var(ddof=1)))
    return float(plateau_j.sum()), float(difference_j.sum()), Standard(u_j, k - 1)


def unsettled(trace: PowerTrace, segments: Sequence[Segment], guard_ns: int) -> bool:
    """Whether power still moves towards its new level when the guard after an edge ends.

    Over all edges: the mean power of one more guard length (at most half of what the guards leave) minus that of the
    rest of the segment, with its sign turned after rising edges. Told from noise by Student's t, one-sided, at 0.3 %.
    """
    excess_w = [
        each for before, after in pairwise(segments) if (each := _excess_w(trace, before, after, guard_ns)) is not None
    ]
    if len(excess_w) < FEW_SEGMENTS:
        return False
    values = np.array(excess_w)
    k = len(values)
    return bool(values.mean() > float(stdtrit(k - 1, SETTLED)) * values.std(ddof=1) / np.sqrt(k))


def _excess_w(trace: PowerTrace, before: Segment, after: Segment, guard_ns: int) -> float | None:
    """What the beginning of a segment still has of the level before it, in W; None where it is too short to tell."""
    start_ns, end_ns = guarded(after, guard_ns)
    middle_ns = start_ns + min(guard_ns, (end_ns - start_ns) // 2)
    early, late = trace.samples(start_ns, middle_ns), trace.samples(middle_ns, end_ns)
    if before.kind == after.kind or min(len(early), len(late)) < SETTLING_SAMPLES:
        return None
    excess_w = float(early.mean() - late.mean())
    return excess_w if after.kind == "idle" else -excess_w
