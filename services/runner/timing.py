"""Time statistics of the verified repetitions of a train. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schemas import TimeStatistics

TRIMMED_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of verified repetitions, in ns: exact sums over all `count` of them, and those that were drawn."""

    count: int = 0
    sum_ns: int = 0
    squares_ns2: int = 0
    least_ns: int = 0
    most_ns: int = 0
    drawn_ns: Sequence[int] = ()


def times_of(durations_ns: Sequence[int]) -> Times:
    """Of durations that are all at hand."""
    if not durations_ns:
        return Times()
    squares_ns2 = sum(each * each for each in durations_ns)
    return Times(
        len(durations_ns), sum(durations_ns), squares_ns2, min(durations_ns), max(durations_ns), tuple(durations_ns)
    )


def time_statistics(times: Times) -> TimeStatistics | None:
    """Statistics in s; None without any repetition.

    Count, mean, standard deviation (that of a sample), least and most are of all repetitions. Median, 95th percentile
    (nearest rank) and trimmed mean (without the lowest and the highest tenth, rounded down) are of those drawn: all of
    them, or each n-th where there were more than the runner has room for.
    """
    if not times.count or not times.drawn_ns:
        return None
    ordered_s = sorted(duration_ns / 1e9 for duration_ns in times.drawn_ns)
    cut = int(len(ordered_s) * TRIMMED_SHARE)
    kept_s = ordered_s[cut : len(ordered_s) - cut]
    return TimeStatistics(
        count=times.count,
        mean_s=times.sum_ns / times.count / 1e9,
        sd_s=_sd_s(times),
        min_s=times.least_ns / 1e9,
        median_s=median(ordered_s),
        p95_s=ordered_s[math.ceil(0.95 * len(ordered_s)) - 1],
        max_s=times.most_ns / 1e9,
        trimmed_mean_s=math.fsum(kept_s) / len(kept_s),
    )


def _sd_s(times: Times) -> float | None:
    """From integers, so that nothing cancels."""
    if times.count < 2:
        return None
    spread = times.count * times.squares_ns2 - times.sum_ns**2
    return math.sqrt(spread / (times.count * (times.count - 1))) / 1e9


def median(ordered: Sequence[float]) -> float:
    """The median of values in ascending order, at least one."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
