"""Arrivals modulo a period: the right period lays them closest together, whatever reports are missing. Pure."""

from collections.abc import Sequence
from itertools import pairwise

_STEP_PERIODS = 0.05
"""From one period that is tried to the next, the last arrival moves by so much of it against the first."""
_REACH = 0.025
"""Relatively; further off is another rate, which the spans between reports show."""
_CLOSER = 0.1
"""Closer by so much of a period is no chance: 4 ms in 6 s are 700 ppm."""
_OPEN = 0.85
"""Arrivals that leave more than the rest of the circle empty need no better period."""


def lower_edge(arrivals_ns: Sequence[int], of_ns: int, period_ns: float) -> tuple[float, float]:
    """When the report that came at `of_ns` arrives without delay, and the largest delay of all, in ns.

    Arrivals modulo the period lie on a circle, and the edge follows its widest empty arc, whatever reports are missing.
    """
    phases = sorted({(each - of_ns) % period_ns for each in arrivals_ns})
    arcs = [(b - a, b % period_ns) for a, b in pairwise([*phases, phases[0] + period_ns])]
    widest_ns, phase_ns = max(arcs)
    return of_ns + (phase_ns - period_ns if phase_ns > period_ns / 8 else phase_ns), period_ns - widest_ns


def spread(arrivals_ns: Sequence[int], period_ns: float) -> float:
    """How far arrivals lie apart modulo a period, as a part of it: least for the right one, whatever is missing."""
    return lower_edge(arrivals_ns, arrivals_ns[0], period_ns)[1] / period_ns


def closest_period(arrivals_ns: Sequence[int], about_ns: float) -> float:
    """The period near the given one modulo which the arrivals lie closest together."""
    periods = max(1.0, (arrivals_ns[-1] - arrivals_ns[0]) / about_ns)
    step = _STEP_PERIODS / periods
    most = round(_REACH / step)
    tried = (about_ns * (1 + number * step) for number in range(-most, most + 1))
    return min(tried, key=lambda period_ns: spread(arrivals_ns, period_ns))


def better_period(arrivals_ns: Sequence[int], period_ns: float) -> float | None:
    """A period near the given one that is clearly better, for both halves of the arrivals: a shift is no other rate."""
    whole = spread(arrivals_ns, period_ns)
    if whole < _OPEN:
        return None
    better_ns = closest_period(arrivals_ns, period_ns)
    if spread(arrivals_ns, better_ns) > whole - _CLOSER:
        return None
    middle = len(arrivals_ns) // 2
    halves = (arrivals_ns[:middle], arrivals_ns[middle:])
    gain = sum(spread(half, period_ns) - spread(half, better_ns) for half in halves)
    return better_ns if gain > 0 else None
