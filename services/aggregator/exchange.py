"""Clock exchanges: from four timestamps each to the offset of a timeline at any time, with a bound that holds. Pure.

With the publisher's clock = the aggregator's + theta, a ping sent at t1 and received at t2 cannot have travelled back
in time, nor the pong sent at t3 and received at t4 (RFC 5905 has the four):

    theta(t2) <= t2 - t1        theta(t3) >= t3 - t4        the gap between both is the delay, whatever its asymmetry

Between exchanges theta moves no faster than the clocks drift. So every exchange cuts away what is not possible: a
delayed one cuts off little and does no harm, the least delayed ones decide. What is left at a time is [low, high]; its
middle is the offset and half its width the bound. README.md has the decisions and where the drifts come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

Rates = tuple[float, float]
"""Slowest and fastest drift of an offset, in s per s."""

CRYSTALS = 100e-6
"""Two crystals of +-50 ppm each, the usual tolerance of small boards: assumed where nothing better is known."""
SLEWED = 600e-6
"""The same while NTP corrects one of the clocks: Linux slews by 500 ppm at most (adjtimex(2))."""
WANDER = 10e-6
"""How far the drift may leave its mean within minutes, by temperature: assumed."""
BUCKET_NS = 20 * 10**9
"""Of the exchanges of so long a time the least delayed one says how fast the offset drifts."""
MOST_BUCKETS = 32
"""Longer ones where there would be more: a train may take a day."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One ping and its pong: t1 and t4 on the aggregator's clock, t2 and t3 on the publisher's timeline, in ns."""

    t1_ns: int
    t2_ns: int
    t3_ns: int
    t4_ns: int

    @property
    def delay_ns(self) -> int:
        """How long both were on the way, together."""
        return (self.t4_ns - self.t1_ns) - (self.t3_ns - self.t2_ns)

    @property
    def high_ns(self) -> int:
        """The offset at t2 was no more."""
        return self.t2_ns - self.t1_ns

    @property
    def low_ns(self) -> int:
        """The offset at t3 was no less."""
        return self.t3_ns - self.t4_ns


@dataclass(frozen=True, slots=True)
class ClockFit:
    """What the exchanges of one timeline leave possible. `rates` is None where they contradict each other."""

    exchanges: tuple[Exchange, ...]
    rates: Rates | None

    @property
    def drift(self) -> float:
        """The middle of what is possible, in s per s; 0 where nothing is known."""
        return sum(self.rates) / 2 if self.rates is not None else 0.0

    def offset_at(self, t_ns: int) -> tuple[int, float] | None:
        """Publisher's minus aggregator's clock at a time of the publisher, in ns, and its largest error in s."""
        if self.rates is None or not self.exchanges:
            return None
        slow, fast = self.rates
        high_ns = min(each.high_ns + _most(t_ns - each.t2_ns, slow, fast) for each in self.exchanges)
        low_ns = max(each.low_ns - _most(each.t3_ns - t_ns, slow, fast) for each in self.exchanges)
        if low_ns > high_ns:
            return None
        return (low_ns + high_ns) // 2, (high_ns - low_ns + 1) / 2e9

    def asked_at(self, asker_ns: int) -> int:
        """The publisher's time at a time of the aggregator. Only for fits that have offsets."""
        t_ns = asker_ns + (self.exchanges[-1].high_ns if self.exchanges else 0)
        for _ in range(2):  # offsets differ by less than 0.1 % of the step: the second one changes nothing that matters
            found = self.offset_at(t_ns)
            t_ns = asker_ns + found[0] if found is not None else t_ns
        return t_ns


def fit(exchanges: Sequence[Exchange]) -> ClockFit:
    """Drift from the least delayed exchanges; where they contradict it, wider drifts; where those too, no offset."""
    best: dict[int, Exchange] = {}
    times_ns = [each.t2_ns for each in exchanges]
    bucket_ns = max(BUCKET_NS, (max(times_ns) - min(times_ns)) // MOST_BUCKETS) if times_ns else BUCKET_NS
    for each in exchanges:
        bucket = each.t2_ns // bucket_ns
        if bucket not in best or each.delay_ns < best[bucket].delay_ns:
            best[bucket] = each
    chosen = sorted(best.values(), key=lambda each: each.t2_ns)
    tries = (_drift(chosen), (-CRYSTALS, CRYSTALS), (-SLEWED, SLEWED))
    rates = next((each for each in tries if each is not None and _agree(chosen, each)), None)
    return ClockFit(tuple(exchanges), rates)


def _most(duration_ns: int, slow: float, fast: float) -> int:
    """The most that the offset can grow by in a time, which may be negative."""
    return round(duration_ns * (fast if duration_ns >= 0 else slow))


def _drift(chosen: Sequence[Exchange]) -> Rates | None:
    """Rates that the mean drift of every pair allows, wander included; None where that is nothing."""
    slowest, fastest = -CRYSTALS, CRYSTALS
    for one, other in combinations(chosen, 2):
        if other.t2_ns > one.t3_ns:
            slowest = max(slowest, (other.low_ns - one.high_ns) / (other.t3_ns - one.t2_ns) - WANDER)
            fastest = min(fastest, (other.high_ns - one.low_ns) / (other.t2_ns - one.t3_ns) + WANDER)
    if slowest > fastest:
        return None
    return max(-CRYSTALS, slowest - WANDER), min(CRYSTALS, fastest + WANDER)


def _agree(chosen: Sequence[Exchange], rates: Rates) -> bool:
    """Whether some course of the offset within these rates fits all exchanges."""
    return all(low.low_ns <= high.high_ns + _most(low.t3_ns - high.t2_ns, *rates) for low in chosen for high in chosen)
