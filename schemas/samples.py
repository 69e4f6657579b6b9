"""What a meter says: consecutive samples of PBUS in one message."""

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from schemas.base import Count, DutName, HostClock, Identifier, Message, TimeNs

MeterKind = Literal["measured", "recorded", "simulated"]
TimelineId = Annotated[str, StringConstraints(min_length=1, max_length=64)]
LIMIT = 1000.0
"""No USB supply line has more watts, volts or amperes."""
Samples = Annotated[tuple[Annotated[float, Field(ge=-LIMIT, le=LIMIT)], ...], Field(max_length=100_000)]
AHEAD_NS = 60_000_000_000
"""A watermark may be this far, or two periods, ahead of the last sample."""


class SampleBatch(Message):
    """Consecutive samples of one meter. `start_ns + 1000 * offset_us[i]` is the time of `power_w[i]`.

    `until_ns` is the watermark: no sample before it will come from this meter on this timeline in a later `seq`.
    The counters are totals since the timeline began, so that a lost batch loses no count.
    """

    site: Identifier
    dut: DutName
    meter: Identifier
    meter_model: Annotated[str, Field(max_length=64)]
    meter_kind: MeterKind
    seq: Count
    timeline_id: TimelineId
    host_clock: HostClock | None = None
    start_ns: TimeNs
    until_ns: TimeNs
    period_ns: Annotated[int, Field(gt=0, lt=3_600_000_000_000, description="nominal time between two samples")]
    offset_us: Annotated[tuple[int, ...], Field(max_length=100_000)]
    power_w: Samples
    voltage_v: Samples | None = None
    current_a: Samples | None = None
    energy_counter_j: Annotated[float | None, Field(description="the meter's own counter at the end of the batch")] = (
        None
    )
    counter_resolution_j: Annotated[float | None, Field(gt=0, description="step of the meter's own counter")] = None
    new_values_per_s: Annotated[
        float | None, Field(ge=0, description="values that differ from the one before; held ones are no measurement")
    ] = None
    rejected_frames: Count = 0
    lost_samples: Annotated[Count, Field(description="not received from the meter, or dropped by a full spool")] = 0
    gaps: Annotated[Count, Field(description="places in the stream where samples are lost")] = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        columns = [self.power_w, self.voltage_v, self.current_a]
        if any(column is not None and len(column) != len(self.offset_us) for column in columns):
            raise ValueError("offset_us, power_w, voltage_v and current_a must have the same length")
        if self.offset_us and self.offset_us[0] < 0:
            raise ValueError("offset_us must not be negative")
        if any(b <= a for a, b in pairwise(self.offset_us)):
            raise ValueError("offset_us must be strictly increasing")
        last_ns = self.start_ns + 1000 * self.offset_us[-1] if self.offset_us else self.start_ns
        if not last_ns <= self.until_ns <= last_ns + max(AHEAD_NS, 2 * self.period_ns):
            raise ValueError("until_ns must not be before the last sample, nor far after it")
        return self

    @property
    def stream(self) -> tuple[str, str, str, str]:
        """What `seq` counts in: site, DUT, meter, timeline."""
        return (self.site, self.dut, self.meter, self.timeline_id)
