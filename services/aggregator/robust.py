"""Robust figures of the samples of a train, for information. Pure. Never used for energy: power noise is skewed."""

from collections.abc import Sequence

import numpy as np

from aggregator.energy import guarded
from aggregator.trace import Floats, PowerTrace
from schemas import PowerStatistics, Segment


def statistics(trace: PowerTrace, segments: Sequence[Segment], guard_ns: int) -> PowerStatistics | None:
    """Of load and idle segments without guards, in W; None below two samples of either."""
    load = np.concatenate([trace.samples(*guarded(s, guard_ns)) for s in segments if s.kind == "load"])
    idle = np.concatenate([trace.samples(*guarded(s, guard_ns)) for s in segments if s.kind == "idle"])
    if len(load) < 2 or len(idle) < 2:
        return None
    return PowerStatistics(
        load_trimmed_mean_w=_trimmed_mean(load),
        load_median_w=float(np.median(load)),
        load_sd_w=float(load.std(ddof=1)),
        idle_trimmed_mean_w=_trimmed_mean(idle),
        idle_median_w=float(np.median(idle)),
        idle_sd_w=float(idle.std(ddof=1)),
    )


def _trimmed_mean(values: Floats) -> float:
    """Mean without the lowest and highest 10 %."""
    cut = len(values) // 10
    return float(np.sort(values)[cut : len(values) - cut].mean())
