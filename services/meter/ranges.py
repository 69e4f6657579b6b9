"""What a meter can measure: a reading outside is none. Pure."""

from dataclasses import dataclass

from schemas.samples import LIMIT

Range = tuple[float, float]
"""From and to, both included."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Of one kind of meter, in V, A and W."""

    voltage_v: Range
    current_a: Range
    power_w: Range

    def allow(self, power_w: float, voltage_v: float | None, current_a: float | None) -> bool:
        """Whether the meter can have measured this; what it does not measure is None."""
        return (
            _within(power_w, self.power_w)
            and (voltage_v is None or _within(voltage_v, self.voltage_v))
            and (current_a is None or _within(current_a, self.current_a))
        )


USB_METER = Ranges(voltage_v=(0.0, 30.0), current_a=(0.0, 7.0), power_w=(-0.1, 250.0))
"""A stale frame of an FNB58 really said 188.7 V and 170.4 A. Power: a little more than voltage times current can be,
and a little below zero for an offset of the meter."""
SENSOR = Ranges(voltage_v=(-LIMIT, LIMIT), current_a=(-LIMIT, LIMIT), power_w=(-LIMIT, LIMIT))
"""Of a board's own sensor the shunt decides, which nobody knows: only what no message may hold is refused. Currents
flow both ways, and the noise around none is as often below zero."""


def _within(value: float, limits: Range) -> bool:
    return limits[0] <= value <= limits[1]
