"""What a source gives: readings of one stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from meter.ranges import USB_METER, Ranges
from schemas import HostClock, MeterKind

FRESH_NS = 2_000_000_000
"""A meter is connected only while its newest sample is younger (DESIGN.md 2)."""
CLOSE_MOST_S = 5.0
"""Closing a source reads no longer than this; a last read may still take a second."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample of PBUS, placed on its timeline. The energy counter is the meter's own, where it has one."""

    t_ns: int
    power_w: float
    voltage_v: float | None = None
    current_a: float | None = None
    energy_counter_j: float | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """What consecutive readings have in common: who measured what, on which timeline, how often."""

    site: str
    dut: str
    meter: str
    meter_model: str
    meter_kind: MeterKind
    timeline_id: str
    host_clock: HostClock | None
    period_ns: int
    counter_resolution_j: float | None = None
    """Step of the meter's own energy counter; None where it has none. A counter that decreases was reset."""
    ranges: Ranges = USB_METER
    """A reading outside is refused; the source of another kind of meter says its own."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What `seq` counts in, as `SampleBatch.stream`."""
        return (self.site, self.dut, self.meter, self.timeline_id)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a source did not give, in totals since it was made; they only grow. Nothing is filled in for it."""

    rejected: Mapping[str, int] = field(default_factory=dict)
    """Frames that were received and not used, by reason, e.g. `bad_crc`, `implausible`, `after_opening`."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Frames that carry no samples and are no error, by type."""
    lost_samples: int = 0
    """Samples that the meter must have taken and nobody received, by the meter's nominal rate."""
    gaps: int = 0
    """Places in the stream where samples are lost."""
    counter_resets: int = 0
    """How often the meter's energy counter was cleared."""

    def plus(self, later: "Counts") -> "Counts":
        """Of two sources of one stream, one after the other."""
        return Counts(
            rejected=_sum(self.rejected, later.rejected),
            ignored=_sum(self.ignored, later.ignored),
            lost_samples=self.lost_samples + later.lost_samples,
            gaps=self.gaps + later.gaps,
            counter_resets=self.counter_resets + later.counter_resets,
        )


@dataclass(frozen=True, slots=True)
class MeterHealth:
    """How a meter is, for the status and for people. None where it is not known or not yet."""

    connected: bool = True
    """Valid samples are flowing. An open device that says nothing is not connected."""
    detail: str = ""
    """What is wrong and who must act, in one line; empty while all is well."""
    node: str | None = None
    """Where the meter is plugged in, e.g. `/dev/hidraw3`; another one after a replug, None while it is not open."""
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    temperature_c: float | None = None
    rate_hz: float | None = None
    """Samples per second as they really come, by the host's clock."""
    new_values_hz: float | None = None
    """Values per second that differ from the one before: what is only held is no measurement."""
    reopened: int = 0
    """How often the meter was opened again."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one read gave, and how the source stood after it. `counts` are totals since the thread was started."""

    stream: Stream
    readings: tuple[Reading, ...]
    counts: Counts
    health: MeterHealth


class Source(Protocol):
    """A meter, or what stands in for one. One thread owns it: no method is called while another runs."""

    @property
    def stream(self) -> Stream:
        """Whose readings these are; fixed for the life of the source."""
        ...

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W since the last call, oldest first; empty after the time-out. None: a recording has ended."""
        ...

    @property
    def counts(self) -> Counts:
        """What it did not give so far."""
        ...

    @property
    def health(self) -> MeterHealth:
        """How it is now."""
        ...

    def close(self) -> None:
        """Stop the meter and give the device back; bounded in time, may be called again."""
        ...


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
