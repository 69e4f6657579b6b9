"""What a recording of a FNIRSI meter holds, whatever the form of its file."""

from __future__ import annotations  # array takes no [float] at run time before Python 3.12

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from errors import ContractError

Column: TypeAlias = "array[float]"
RecordingFlag = Literal["truncated", "extra_bytes", "min_max_differs", "time_not_nominal"]

_LONGEST_PERIOD_NS = 3_600_000_000_000
"""`SampleBatch.period_ns` must be below it."""
_LATEST_S = 2**62 / 1e9
"""`TimeNs` cannot hold a later time."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of the recording program: its name in CSV files, ours in SI, and the factor to SI."""

    csv_name: str
    name: str
    si_factor: float


CHANNELS: dict[int, Channel] = {
    0: Channel("Voltage", "voltage_v", 1.0),
    1: Channel("Current", "current_a", 1.0),
    2: Channel("D+", "d_plus_v", 1.0),
    3: Channel("D-", "d_minus_v", 1.0),
    4: Channel("Power", "power_w", 1.0),
    5: Channel("Capacity", "charge_c", 3600.0),
    6: Channel("Energy", "energy_j", 3600.0),
}
"""By type number in .cfn files. Capacity is stored in Ah, energy in Wh."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The columns of a recording, all of one length, at least 1. Flags say what was odd and yet usable."""

    rate_hz: float
    t_s: Column
    power_w: Column
    voltage_v: Column | None
    current_a: Column | None
    energy_j: Column | None
    others: Mapping[str, Column]
    flags: tuple[RecordingFlag, ...]

    @property
    def period_ns(self) -> int:
        """Nominal time between two samples."""
        return round(1e9 / self.rate_hz)

    @property
    def energy_step_j(self) -> float | None:
        """The smallest increase of the energy channel: its resolution is not larger. None where it never increases."""
        energy_j = self.energy_j or ()
        return min((after - before for before, after in pairwise(energy_j) if after > before), default=None)


def rate_is_usable(rate_hz: float) -> bool:
    """Whether the contract can carry a nominal period of 1 / rate."""
    return rate_hz > 0 and 0.5 < 1e9 / rate_hz < _LONGEST_PERIOD_NS - 1


def first_unusable_time(t_s: Column) -> int | None:
    """The first row whose time is not a point on a timeline; None when all are."""
    return next((row for row, t in enumerate(t_s) if not abs(t) < _LATEST_S), None)


def times_are_nominal(t_s: Column, rate_hz: float, tolerance_s: float) -> bool:
    """Whether row i was stored at i / rate, as the recording program does."""
    return all(abs(t - row / rate_hz) <= tolerance_s for row, t in enumerate(t_s))


def to_si(channel: Channel, values: Column) -> Column:
    """A stored column in SI units."""
    return values if channel.si_factor == 1.0 else array("d", (value * channel.si_factor for value in values))


def assemble(rate_hz: float, t_s: Column, columns: Mapping[str, Column], flags: tuple[RecordingFlag, ...]) -> Recording:
    """A recording from columns by name. Raises ContractError where there is no power and nothing to compute it from."""
    voltage_v, current_a = columns.get("voltage_v"), columns.get("current_a")
    power_w = columns.get("power_w")
    if power_w is None:
        if voltage_v is None or current_a is None:
            raise ContractError("no column 'Power', and not both of 'Voltage' and 'Current' to compute it from")
        power_w = array("d", map(_product, voltage_v, current_a))
    named = {"voltage_v", "current_a", "power_w", "energy_j"}
    return Recording(
        rate_hz=rate_hz,
        t_s=t_s,
        power_w=power_w,
        voltage_v=voltage_v,
        current_a=current_a,
        energy_j=columns.get("energy_j"),
        others={name: column for name, column in columns.items() if name not in named},
        flags=flags,
    )


def _product(voltage_v: float, current_a: float) -> float:
    return voltage_v * current_a if math.isfinite(voltage_v) and math.isfinite(current_a) else math.nan
