"""Crypto energy: net energy per operation minus that of the matching null train. Pure.

A null train matches when its variant is the one that the event names (`null_variant`: the same processes started and
files read, or the same calls made, without the cryptography) and it ran on the same DUT in the same run, at the same
meter, with the same backend. A simulated one is subtracted only from a simulated train, and one that is degraded only
from a result that has the same flags. Of several the nearest in time counts; of two as near, the earlier. So the last
revision does not depend on the order of arrival.
"""

from collections.abc import Sequence

from aggregator.uncertainty import Standard, combine, quantity
from schemas import EnergyResult

_INDEPENDENT = ("scatter", "clock")


def wanted_null(result: EnergyResult) -> str | None:
    """Variant of the null trains that serve a result, for a null train its own; None where nothing may be subtracted.

    Runners before `null_variant` said how many processes a repetition starts, and nothing of files.
    """
    if result.operation in ("null", "sham"):
        return result.variant if result.operation == "null" else None
    if result.null_variant or result.procedure != "train" or not result.processes_per_repetition:
        return result.null_variant or None
    return f"processes={result.processes_per_repetition}"


def null_key(result: EnergyResult) -> tuple[object, ...]:
    """What a null train and the trains that it serves have in common."""
    meter = (result.meter, result.meter_model, result.simulated)
    return (result.site, result.dut, *meter, result.run_id, result.backend, wanted_null(result))


def nearest_null(result: EnergyResult, nulls: Sequence[EnergyResult]) -> EnergyResult | None:
    """The null train to subtract; None where there is none that can be used."""
    if wanted_null(result) is None:
        return None
    valid = [null for null in nulls if null_key(null) == null_key(result) and _is_usable(null, result)]
    return min(valid, key=lambda null: (abs(null.start_ns - result.start_ns), null.start_ns), default=None)


def _is_usable(null: EnergyResult, result: EnergyResult) -> bool:
    """Good, or doubtful for reasons that the result itself is marked with, so that its own quality says them."""
    return null.quality == "good" or (null.quality == "degraded" and set(null.flags) <= set(result.flags))


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
