"""What a source gives: readings of one stream."""

from dataclasses import dataclass
from typing import Protocol

from schemas import HostClock, MeterKind


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

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What `seq` counts in, as `SampleBatch.stream`."""
        return (self.site, self.dut, self.meter, self.timeline_id)


class Source(Protocol):
    """A meter, or what stands in for one."""

    @property
    def stream(self) -> Stream:
        """Whose readings these are; fixed for the life of the source."""
        ...

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W since the last call, oldest first; empty after the time-out. None: a recording has ended."""
        ...
