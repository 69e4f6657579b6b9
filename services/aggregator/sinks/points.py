"""What goes into a time series store: measurements, tags and fields of DESIGN's table. Pure.

A point is its measurement, tags and time; a store merges the fields of a point that is written again. So tags are only
what the event itself fixes, for ever, and the meter; everything that a revision may change is a field. A figure that a
revision lacks is not written, and an earlier one may stay: every revision writes `valid` and `crypto_valid`, and every
query for an energy asks for them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aggregator.pooling import PoolKey
from schemas import CounterCheck, EnergyResult, MeterState, PooledEnergy, Quantity, ServiceStatus

Field = float | str
SUPERSEDED = "superseded"
"""Quality of a point that stands for no result any more."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point; `t_ns` is Unix time in ns. Numeric fields are floats, all of them finite."""

    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, Field]
    t_ns: int


def operation_energy(result: EnergyResult) -> Point:
    """The point of a result. Without a meter (`meter` none) it has times at most."""
    fields: dict[str, Field] = {
        "valid": 1.0 if result.quality in ("good", "degraded") else 0.0,
        "crypto_valid": 1.0 if result.crypto_j_per_op is not None else 0.0,
        "quality": result.quality,
        "flags": " ".join(result.flags),
        "simulated": 1.0 if result.simulated else 0.0,
        "meter_kind": result.meter_kind or "none",
        "event_id": str(result.event_id),
        "run_id": result.run_id,
        "revision": float(result.revision),
        "repetitions": float(result.repetitions),
        "load_s": result.load_s,
        **_energies(result),
    }
    if result.time_per_repetition is not None:
        fields["s_per_op"] = result.time_per_repetition.mean_s
    if result.clock is not None and result.clock.bound_s is not None:
        fields["clock_bound_s"] = result.clock.bound_s
    return Point("operation_energy", _tags(result), fields, result.start_ns)


def superseded(result: EnergyResult, start_ns: int) -> Point:
    """What must become of a point that the last results have no more: not valid, of a quality that no result has."""
    fields: dict[str, Field] = {"valid": 0.0, "crypto_valid": 0.0, "quality": SUPERSEDED}
    return Point("operation_energy", _tags(result), fields, start_ns)


def pooled_point(key: PoolKey, pooled: PooledEnergy) -> Point:
    """The mean of a pool, at its last train."""
    fields: dict[str, Field] = {
        "valid": 1.0,
        "mean": pooled.net_j_per_op.value,
        "u95": pooled.net_j_per_op.u95,
        "between": pooled.between_trains_j,
        "trains": float(pooled.trains),
        "simulated": 1.0 if pooled.simulated else 0.0,
        "flags": " ".join(pooled.flags),
    }
    return Point("pooled_energy", _pool_tags(key), fields, pooled.last_ns)


def pooled_superseded(key: PoolKey, last_ns: int) -> Point:
    """What must become of a mean whose last train has gone from the pool."""
    return Point("pooled_energy", _pool_tags(key), {"valid": 0.0}, last_ns)


def power(
    meter: tuple[str, str, str],
    second_ns: int,
    power_w: NDArray[np.float64],
    voltage_v: NDArray[np.float64],
    simulated: bool = False,
) -> Point:
    """PBUS of one meter (site, DUT, meter) in the second that begins at `second_ns`; voltages may be NaN."""
    fields: dict[str, Field] = {
        "mean_w": float(power_w.mean()),
        "min_w": float(power_w.min()),
        "max_w": float(power_w.max()),
        "samples": float(len(power_w)),
        "simulated": 1.0 if simulated else 0.0,
    }
    known = voltage_v[~np.isnan(voltage_v)]
    if len(known):
        fields["voltage_v"] = float(known.mean())
    return Point("power", dict(zip(("site", "dut", "meter"), meter, strict=True)), fields, second_ns)


COUNTER_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")
COUNTERS = 64
"""Health counters of one status that become fields."""


def fleet_health(site: str, status: ServiceStatus, now_ns: int) -> Point:
    """What a service said of itself, and when it came: its counters, and whether it is there."""
    tags = {"site": site, "service": status.service, "instance": status.instance}
    counters = {name: value for name, value in sorted(status.health.items()) if COUNTER_NAME.match(name)}
    fields: dict[str, Field] = dict(list(counters.items())[:COUNTERS])
    fields["online"] = 0.0 if status.state == "offline" else 1.0
    fields["measuring"] = 1.0 if status.state == "measuring" else 0.0
    fields["duts"] = float(len(status.duts))
    fields["detail"] = status.detail
    return Point("fleet_health", tags, fields, now_ns)


def meter_health(site: str, status: ServiceStatus, now_ns: int) -> list[Point]:
    """What a meter service said of each of its meters, by DUT and meter; figures that are not known are left out."""
    return [Point("meter_health", _meter_tags(site, meter), _meter_fields(meter), now_ns) for meter in status.meters]


def _meter_tags(site: str, meter: MeterState) -> dict[str, str]:
    return {"site": site, "dut": meter.dut, "meter": meter.meter}


def _meter_fields(meter: MeterState) -> dict[str, Field]:
    figures = {
        "connected": float(meter.connected),
        "samples_per_s": meter.samples_per_s,
        "new_values_per_s": meter.new_values_per_s,
        "temperature_c": meter.temperature_c,
        "rejected": float(sum(meter.rejected.values())),
        "lost_samples": float(meter.lost_samples),
        "gaps": float(meter.gaps),
        "counter_resets": float(meter.counter_resets),
        "reopened": float(meter.reopened),
    }
    known: dict[str, Field] = {name: float(value) for name, value in figures.items() if value is not None}
    return {**known, "model": meter.model, "detail": meter.detail}


def _tags(result: EnergyResult) -> dict[str, str]:
    """What the event fixes, and the meter: two meters on one DUT are two points."""
    tags = {
        "site": result.site,
        "dut": result.dut,
        "meter": result.meter or "none",
        "model": result.board.model,
        "arch": result.board.architecture,
        "bits": str(result.board.bits or "unknown"),
        "algorithm": result.algorithm,
        "parameter_set": result.parameter_set,
        "operation": result.operation,
        "variant": result.variant or "none",
        "backend": result.backend,
        "category": str(result.category or "none"),
        "openssl": result.board.openssl,
    }
    return {name: value or "unknown" for name, value in tags.items()}


def _pool_tags(key: PoolKey) -> dict[str, str]:
    """What the trains of a pool share."""
    tags = {
        "site": key.site,
        "dut": key.dut,
        "meter": key.meter,
        "meter_model": key.meter_model,
        "model": key.board.model,
        "arch": key.board.architecture,
        "bits": str(key.board.bits or "unknown"),
        "parameter_set": key.parameter_set,
        "operation": key.operation,
        "variant": key.variant or "none",
        "backend": key.backend,
        "openssl": key.board.openssl,
    }
    return {name: value or "unknown" for name, value in tags.items()}


def _energies(result: EnergyResult) -> dict[str, float]:
    """Figures by field name, those that there are."""
    net, crypto, power = result.net_j_per_op, result.crypto_j_per_op, result.net_power_w
    figures: dict[str, float | None] = {
        "net_j_per_op": _value(net),
        "u_j_per_op": net.u if net else None,
        "u95_j_per_op": net.u95 if net else None,
        "low_j_per_op": net.value - net.u95 if net else None,
        "high_j_per_op": net.value + net.u95 if net else None,
        "crypto_j_per_op": _value(crypto),
        "crypto_u95_j_per_op": crypto.u95 if crypto else None,
        "net_power_w": _value(power),
        "u95_power_w": power.u95 if power else None,
        "gross_j": result.gross_j,
        "baseline_w": result.baseline_w,
        "load_w": result.load_w,
        "new_values": result.new_values,
        "missing_s": result.missing_s,
        **_counter(result.counter),
    }
    return {name: float(value) for name, value in figures.items() if value is not None}


def _counter(check: CounterCheck | None) -> dict[str, float | None]:
    """The meter's own counter beside the integral, where it has one."""
    if check is None:
        return {}
    counted = {"counter_j": check.counter_j.value, "counter_u_j": check.counter_j.u, "counter_s": check.span_s}
    return {**counted, "counter_integral_j": _value(check.integral_j)}


def _value(quantity: Quantity | None) -> float | None:
    return quantity.value if quantity else None
