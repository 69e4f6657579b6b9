"""Where a runner's times lie on a meter's timeline, and how sure that is. Pure.

Two services on one host read one monotonic clock, so their timelines differ by exactly the difference of their
constants. Streams of different hosts need the clock exchange (DESIGN.md 3); until it has told their offset they stay
`assumed`, and no energy is published from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas import ClockState, HostClock, Segment

SAME_HOST_BOUND_S = 0.001
"""Between a reading of the clock and the event that it stamps, on a host that is not overloaded."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The identity of a timeline, and its tie to a host where there is one."""

    timeline_id: str
    host_clock: HostClock | None


def place(event: Timeline, meter: Timeline) -> ClockState:
    """The offset to add to the event's times to have them on the meter's timeline."""
    if event.timeline_id == meter.timeline_id:
        return ClockState(method="same_timeline", offset_ns=0, bound_s=0.0)
    a, b = event.host_clock, meter.host_clock
    if a is not None and b is not None and a.boot_id == b.boot_id:
        offset_ns = b.wall_minus_monotonic_ns - a.wall_minus_monotonic_ns
        return ClockState(method="same_host", offset_ns=offset_ns, bound_s=SAME_HOST_BOUND_S)
    return ClockState(method="assumed", offset_ns=0, bound_s=None)


def shifted(segments: Sequence[Segment], offset_ns: int) -> tuple[Segment, ...]:
    """The segments on another timeline."""
    if offset_ns == 0:
        return tuple(segments)
    return tuple(
        segment.model_copy(update={"start_ns": segment.start_ns + offset_ns, "end_ns": segment.end_ns + offset_ns})
        for segment in segments
    )
