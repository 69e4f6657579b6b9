"""Time statistics of the verified repetitions of a train. Pure."""

import math
from collections.abc import Sequence

from schemas import TimeStatistics

TRIMMED_SHARE = 0.1


def time_statistics(durations_ns: Sequence[int]) -> TimeStatistics | None:
    """Statistics in s of durations in ns; None without any.

    The 95th percentile is by nearest rank, the standard deviation that of a sample, and the trimmed mean leaves out
    the lowest and the highest tenth (rounded down).
    """
    if not durations_ns:
        return None
    ordered_s = sorted(duration_ns / 1e9 for duration_ns in durations_ns)
    count = len(ordered_s)
    mean_s = math.fsum(ordered_s) / count
    cut = int(count * TRIMMED_SHARE)
    kept_s = ordered_s[cut : count - cut]
    return TimeStatistics(
        count=count,
        mean_s=mean_s,
        sd_s=math.sqrt(math.fsum((each - mean_s) ** 2 for each in ordered_s) / (count - 1)) if count > 1 else None,
        min_s=ordered_s[0],
        median_s=median(ordered_s),
        p95_s=ordered_s[math.ceil(0.95 * count) - 1],
        max_s=ordered_s[-1],
        trimmed_mean_s=math.fsum(kept_s) / len(kept_s),
    )


def median(ordered: Sequence[float]) -> float:
    """The median of values in ascending order, at least one."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
