"""Where a runner's times lie on a meter's timeline, and how sure that is. Pure.

Two services on one host read one monotonic clock, so their timelines differ by exactly the difference of their
constants. Timelines of different hosts are compared by clock exchanges with the aggregator (exchange.py); until these
have told their offset they stay `assumed`, and no energy is published from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.exchange import ClockFit
from schemas import ClockState, HostClock, Segment

SAME_HOST_BOUND_S = 0.001
"""Between a reading of the clock and the event that it stamps, on a host that is not overloaded."""
_UNKNOWN = ClockState(method="assumed", offset_ns=0, bound_s=None)
_QUARTERS = 4
"""A train is compared at its ends and at so many parts: where neither clock was asked the bound is widest inside."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The identity of a timeline, and its tie to a host where there is one."""

    timeline_id: str
    host_clock: HostClock | None


@dataclass(frozen=True, slots=True)
class Placed:
    """How a train lies on a meter's timeline. Not `settled`: exchanges that are expected soon will tell it better."""

    state: ClockState
    settled: bool = True


def place(event: Timeline, meter: Timeline) -> ClockState:
    """The offset to add to the event's times to have them on the meter's timeline, as far as it needs no exchange."""
    if event.timeline_id == meter.timeline_id:
        return ClockState(method="same_timeline", offset_ns=0, bound_s=0.0)
    a, b = event.host_clock, meter.host_clock
    if a is not None and b is not None and a.boot_id == b.boot_id:
        offset_ns = b.wall_minus_monotonic_ns - a.wall_minus_monotonic_ns
        return ClockState(method="same_host", offset_ns=offset_ns, bound_s=SAME_HOST_BOUND_S)
    return _UNKNOWN


def by_exchange(start_ns: int, end_ns: int, runner: ClockFit, meter: ClockFit) -> ClockState:
    """The same for a train on the runner's timeline, through the clock of the aggregator that asked both.

    Drift is what is known of both clocks (0 where nothing is); the bound holds at every part of the train.
    """
    middle_ns = (start_ns + end_ns) // 2
    found = [
        (t_ns - middle_ns, _between(t_ns, runner, meter))
        for t_ns in (start_ns + (end_ns - start_ns) * part // _QUARTERS for part in range(_QUARTERS + 1))
    ]
    known = [(t_ns, *each) for t_ns, each in found if each is not None]
    if len(known) < len(found):
        return _UNKNOWN
    drift_ppm = round((meter.drift - runner.drift) * 1e6, 3)
    lines = [(each_ns - round(drift_ppm * 1e-6 * t_ns), round(each_s * 1e9)) for t_ns, each_ns, each_s in known]
    low_ns, high_ns = min(each - most for each, most in lines), max(each + most for each, most in lines)
    bound_s = (high_ns - low_ns + 1) / 2e9
    return ClockState(method="exchange", offset_ns=(low_ns + high_ns) // 2, drift_ppm=drift_ppm, bound_s=bound_s)


def _between(t_ns: int, runner: ClockFit, meter: ClockFit) -> tuple[int, float] | None:
    """Meter's minus runner's clock at a time of the runner: both against the aggregator, the bounds added."""
    of_runner = runner.offset_at(t_ns)
    if of_runner is None:
        return None
    asker_ns = t_ns - of_runner[0]
    of_meter = meter.offset_at(meter.asked_at(asker_ns))
    if of_meter is None:
        return None
    return of_meter[0] - of_runner[0], of_meter[1] + of_runner[1]


def shifted(segments: Sequence[Segment], clock: ClockState) -> tuple[Segment, ...]:
    """The segments of a train on the meter's timeline."""
    if clock.offset_ns == 0 and clock.drift_ppm == 0.0:
        return tuple(segments)
    middle_ns = (segments[0].start_ns + segments[-1].end_ns) // 2

    def moved(t_ns: int) -> int:
        return t_ns + clock.offset_ns + round((t_ns - middle_ns) * clock.drift_ppm * 1e-6)

    return tuple(
        segment.model_copy(update={"start_ns": moved(segment.start_ns), "end_ns": moved(segment.end_ns)})
        for segment in segments
    )
