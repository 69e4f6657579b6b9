"""The lower envelope of arrival times against report index: when a report arrives that nothing delays. Pure.

Reports arrive late, never early, so the least delayed of each block of reports says most. A line through these minima
is steadier than the hull below all arrivals when delays are bell-shaped. For delays with a sharp lower edge the minima
exceed it by an exponentially distributed amount, whose mean is its standard deviation: so much is taken off.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from meter.folding import better_period, closest_period, lower_edge, spread

BLOCK_REPORTS = 50
_BLOCKS = 150
"""Five minutes at 25 reports/s: temperature bends a quartz clock by less than a ms in that time."""
_DRIFT = 200e-6
"""Standard deviation of the rate error of a meter's clock that is assumed before anything is known."""
_COARSE_DRIFT = 0.01
"""The same for a rate that was taken from a few arrivals."""
_FOLDED_DRIFT = 500e-6
"""The same for one that laid some hundred arrivals closest together."""
_FOLDED_REPORTS = 150
_SPAN_REPORTS = 4
"""The median of spans of so many periods withstands jitter."""
_WHOLE = 0.12
"""A span of four periods that has lost one report is longer by a quarter than the single periods."""
_FEWEST_SPANS = 20
_CHANGED = 0.01
"""A rate less off than this, relatively, is learnt from the minima; one more off is another rate."""
_ROUNDS = 2
_LATE_DEVIATIONS = 0.7
"""A minimum above the line by more counts less: 10 to 20 s after the start that takes the p99 from 1.6 to 1.25 ms."""
_SHIFT_DEVIATIONS = 6.0
_SHIFT_PERIODS = (0.15, 0.4)
_FIRST_SHIFT_PERIODS = (0.3, 0.4)
"""A least delay that is off by so many deviations says that the line no longer holds; by this part of a period at the
least and at the most. Before the noise is known bell-shaped jitter of 5 ms moves the first minima by 10 ms."""


@dataclass(frozen=True, slots=True)
class _Least:
    """The least delayed report of a block."""

    index: int
    arrival_ns: int


@dataclass(frozen=True, slots=True)
class _Rate:
    """A report period as it is typical of some arrivals, and how far it can be off (4 standard deviations)."""

    period_ns: float
    bound_ns: float

    def is_another_than(self, period_ns: float, changed: float = _CHANGED) -> bool:
        """Or one that cannot be told from it."""
        return abs(self.period_ns - period_ns) > max(self.bound_ns, changed * period_ns)

    def fits_better(self, arrivals_ns: Sequence[int], period_ns: float) -> bool:
        """Whether the arrivals lie closer together modulo this period than modulo the given one."""
        return spread(arrivals_ns, self.period_ns) < spread(arrivals_ns, period_ns)


def _agreed(rates: Sequence[_Rate], period_ns: float) -> _Rate | None:
    """Another rate than the given one, of the last two blocks, else None. One alone may be a host that slept."""
    newest = rates[-1]
    if len(rates) < 2 or not all(each.is_another_than(period_ns) for each in rates):
        return None
    return None if newest.is_another_than(rates[0].period_ns) else newest


def _is_no_loss(arrivals_ns: Sequence[int], period_ns: float, usual_ns: float) -> bool:
    """Whether a rate is a rate: spans that lost reports have stretched lie closer together modulo the usual period."""
    folded = [spread(arrivals_ns, closest_period(arrivals_ns, each)) for each in (period_ns, usual_ns)]
    return folded[0] < folded[1]


class Envelope:
    """The line `at(index)`, in ns from wherever arrivals are counted, and its slope, the real report period."""

    def __init__(self, nominal_ns: int, arrivals_ns: Sequence[int], known_ns: float | None = None) -> None:
        """From the first arrivals, which need not be complete, and the report period: nominal, and known from before.

        Another one is noticed if it is an eighth of the nominal one at the least and eight times it at the most:
        reports that come in next to no time are a backlog.
        """
        self._drift = _DRIFT
        self._nominal_ns = self._slope_ns = known_ns or float(nominal_ns)
        self._limits_ns = (nominal_ns / 8, nominal_ns * 8)
        rate = self._rate(arrivals_ns)
        if rate is not None and rate.is_another_than(self._slope_ns) and rate.fits_better(arrivals_ns, self._slope_ns):
            self._nominal_ns = self._slope_ns = rate.period_ns
            self._drift = _COARSE_DRIFT
        self._origin_ns, delay_ns = lower_edge(arrivals_ns, arrivals_ns[0], self._slope_ns)
        self._noise_ns = max(delay_ns / len(arrivals_ns), 1.0)  # 1 ns: what the clock resolves
        self._least: deque[_Least] = deque(maxlen=_BLOCKS)
        self._block: list[tuple[int, int]] = []
        self._rates: deque[_Rate] = deque(maxlen=2)
        self._recent: deque[int] = deque(maxlen=_FOLDED_REPORTS)

    @property
    def period_ns(self) -> float:
        """One report, as measured."""
        return self._slope_ns

    def at(self, index: int) -> float:
        """When the report of this index arrives without delay."""
        return self._origin_ns + index * self._slope_ns

    def slot(self, arrival_ns: int) -> int:
        """The index that an arrival has if it is late by less than a period (7/8; 1/8 is left for the line's error)."""
        return math.floor((arrival_ns - self._origin_ns) / self._slope_ns + 0.125)

    def add(self, index: int, arrival_ns: int) -> None:
        """Learn from a placed report."""
        self._block.append((index, arrival_ns))
        self._recent.append(arrival_ns)
        if len(self._block) < BLOCK_REPORTS:
            return
        block, self._block = self._block, []
        if self._has_another_rate([arrival_ns for _, arrival_ns in block], index) or self._is_off(index):
            return
        in_time = [each for each in block if self._delay_ns(each) < 0.875 * self._slope_ns]
        if in_time:  # else a backlog, which knows nothing of the envelope
            self._learn(min(in_time, key=self._delay_ns))

    def _has_another_rate(self, arrivals_ns: Sequence[int], last_index: int) -> bool:
        """Whether the meter sends at another rate than the line has: the line then begins anew."""
        rate = self._rate(arrivals_ns)
        if rate is None:
            return False
        self._rates.append(rate)
        agreed = _agreed(self._rates, self._slope_ns)
        if agreed is None or not _is_no_loss(arrivals_ns, agreed.period_ns, self._slope_ns):
            return False
        self._begin_anew(agreed.period_ns, _COARSE_DRIFT, arrivals_ns[-4 * _SPAN_REPORTS :], last_index)
        return True

    def _is_off(self, last_index: int) -> bool:
        """Whether the rate is so far off that the slots of reports would soon be wrong: the line then begins anew."""
        better_ns = better_period(list(self._recent), self._slope_ns)
        if better_ns is None:
            return False
        self._begin_anew(better_ns, _FOLDED_DRIFT, list(self._recent), last_index)
        return True

    def _begin_anew(self, period_ns: float, drift: float, arrivals_ns: Sequence[int], last_index: int) -> None:
        self._nominal_ns = self._slope_ns = period_ns
        self._drift = drift
        self._rates.clear()
        self._least.clear()
        edge_ns, _ = lower_edge(arrivals_ns, arrivals_ns[-1], period_ns)
        self._origin_ns = edge_ns - last_index * period_ns

    def _rate(self, arrivals_ns: Sequence[int]) -> _Rate | None:
        """None where too few arrivals say nothing, or what they say is none."""
        spans = [b - a for a, b in zip(arrivals_ns, arrivals_ns[_SPAN_REPORTS:], strict=False)]
        if len(spans) < _FEWEST_SPANS:
            return None
        middle = median(spans)
        deviation = 1.48 * median(abs(span - middle) for span in spans)  # 1.48: of a normal distribution
        period_ns, independent = middle / _SPAN_REPORTS, len(spans) / _SPAN_REPORTS
        single_ns = median(b - a for a, b in pairwise(arrivals_ns))
        whole = abs(single_ns - period_ns) < _WHOLE * period_ns  # else most spans have lost a report
        if not whole or not self._limits_ns[0] < period_ns < self._limits_ns[1]:
            return None
        return _Rate(period_ns, 4 * deviation / _SPAN_REPORTS / math.sqrt(independent))

    def _learn(self, least: tuple[int, int]) -> None:
        if abs(self._delay_ns(least) - self._noise_ns) > self._most_shift_ns():
            self._nominal_ns = self._slope_ns
            self._least.clear()  # the line no longer holds: only the newest block does
        self._least.append(_Least(*least))
        self._fit()

    def _most_shift_ns(self) -> float:
        least, most = _SHIFT_PERIODS if len(self._least) >= 3 else _FIRST_SHIFT_PERIODS
        return min(max(_SHIFT_DEVIATIONS * self._noise_ns, least * self._slope_ns), most * self._slope_ns)

    def _delay_ns(self, report: tuple[int, int]) -> float:
        index, arrival_ns = report
        return arrival_ns - self.at(index)

    def _fit(self) -> None:
        """The line through the minima of blocks, its slope drawn to the nominal one as far as that is known."""
        indexes = [each.index for each in self._least]
        delays_ns = [each.arrival_ns - each.index * self._nominal_ns for each in self._least]
        weights = [1.0] * len(indexes)
        line = _line(indexes, delays_ns, weights)
        for _ in range(_ROUNDS if len(indexes) >= 3 else 0):
            _, weights = _judged(indexes, delays_ns, weights, line)
            line = _line(indexes, delays_ns, weights)
        if len(indexes) >= 3:
            self._noise_ns, _ = _judged(indexes, delays_ns, weights, line)
        prior = (self._noise_ns / (self._drift * self._nominal_ns)) ** 2
        drift_ns = line.covariance / (line.spread + prior)
        self._slope_ns = self._nominal_ns + drift_ns
        self._origin_ns = line.mean_ns - drift_ns * line.middle - self._noise_ns


@dataclass(frozen=True, slots=True)
class _Line:
    """Weighted sums of least squares: of delay in ns on index."""

    middle: float
    mean_ns: float
    spread: float
    covariance: float


def _line(indexes: Sequence[int], delays_ns: Sequence[float], weights: Sequence[float]) -> _Line:
    total = sum(weights)
    middle = sum(weight * index for weight, index in zip(weights, indexes, strict=True)) / total
    mean_ns = sum(weight * delay for weight, delay in zip(weights, delays_ns, strict=True)) / total
    spread = covariance = 0.0
    for index, delay_ns, weight in zip(indexes, delays_ns, weights, strict=True):
        spread += weight * (index - middle) ** 2
        covariance += weight * (index - middle) * (delay_ns - mean_ns)
    return _Line(middle, mean_ns, spread, covariance)


def _judged(
    indexes: Sequence[int], delays_ns: Sequence[float], weights: Sequence[float], line: _Line
) -> tuple[float, list[float]]:
    """The standard deviation of the minima about a line, in ns, and new weights: a block whose least delayed report was
    late itself says little. The deviation is 1 ns at least, what the clock resolves."""
    slope_ns = line.covariance / line.spread
    left_ns = [d - line.mean_ns - slope_ns * (i - line.middle) for i, d in zip(indexes, delays_ns, strict=True)]
    square = sum(weight * each * each for weight, each in zip(weights, left_ns, strict=True)) / sum(weights)
    deviation_ns = max(math.sqrt(square * len(left_ns) / (len(left_ns) - 2)), 1.0)
    late_ns = _LATE_DEVIATIONS * deviation_ns
    return deviation_ns, [1.0 if each < late_ns else (late_ns / each) ** 2 for each in left_ns]
