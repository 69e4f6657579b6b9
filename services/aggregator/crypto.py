"""Crypto energy: net energy per operation minus that of the matching null train. Pure.

A null train matches when it ran on the same DUT in the same run, at the same meter, with the same backend and process
count; only a good one is subtracted, and a simulated one only from a simulated train. Of several the nearest in time
counts; of two as near, the earlier. So the last revision does not depend on the order in which trains arrived.
"""

from collections.abc import Sequence

from aggregator.uncertainty import Standard, combine, quantity
from schemas import EnergyResult

_INDEPENDENT = ("scatter", "clock")


def null_key(result: EnergyResult) -> tuple[object, ...]:
    """What a null train and the trains that it serves have in common."""
    meter = (result.meter, result.meter_model, result.simulated)
    return (result.site, result.dut, *meter, result.run_id, result.backend, result.processes_per_repetition)


def nearest_null(result: EnergyResult, nulls: Sequence[EnergyResult]) -> EnergyResult | None:
    """The null train to subtract; None where there is none that is good."""
    valid = [null for null in nulls if null.quality == "good" and null_key(null) == null_key(result)]
    return min(valid, key=lambda null: (abs(null.start_ns - result.start_ns), null.start_ns), default=None)


def with_crypto(result: EnergyResult, nulls: Sequence[EnergyResult]) -> EnergyResult:
    """The result with its crypto energy, where it has one. The gain error counts once, on the difference."""
    null = nearest_null(result, nulls)
    if result.operation in ("null", "sham") or result.net_j_per_op is None:
        return result
    if null is None or null.net_j_per_op is None:
        return result.model_copy(update={"crypto_j_per_op": None, "null_event_id": None})
    crypto_j = result.net_j_per_op.value - null.net_j_per_op.value
    parts = [Standard(part.u, part.dof) for each in (result, null) for part in each.budget if part.name in _INDEPENDENT]
    gain = Standard(_relative_gain(result) * abs(crypto_j))
    return result.model_copy(
        update={"crypto_j_per_op": quantity(crypto_j, combine([*parts, gain])), "null_event_id": null.event_id}
    )


def _relative_gain(result: EnergyResult) -> float:
    gain_j = next((part.u for part in result.budget if part.name == "gain"), 0.0)
    net = result.net_j_per_op
    return gain_j / abs(net.value) if net is not None and net.value else 0.0
