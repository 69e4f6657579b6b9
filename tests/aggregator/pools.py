"""Results and trains whose pooled mean is known."""

from collections.abc import Sequence
from uuid import UUID

from aggregator.pooling import PooledTrain, PoolKey, pool_key
from aggregator.uncertainty import Standard
from clock import rfc3339
from schemas import Board, BudgetPart, EnergyResult, Quantity
from tests.aggregator.trains import SECOND, T0


def result(
    number: int, net_j: float = 1.0, u_j: float = 0.1, clock_u_j: float = 0.0, gain_u: float = 0.0, **changes: object
) -> EnergyResult:
    """A good result of the train that begins `number` minutes after T0."""
    start_ns = T0 + 60 * number * SECOND
    budget = (
        BudgetPart(name="scatter", u=u_j, dof=9.0, source="known"),
        BudgetPart(name="clock", u=clock_u_j, source="known"),
        BudgetPart(name="gain", u=gain_u * net_j, source="known"),
    )
    fields: dict[str, object] = {
        "event_id": UUID(f"01890a5d-ac96-774b-bcce-{number:012x}"),
        "revision": 1,
        "site": "lab",
        "dut": "pi4",
        "run_id": "r1",
        "origin": "runner",
        "operation": "sign",
        "parameter_set": "ML-DSA-65",
        "algorithm": "ML-DSA",
        "variant": "message_bytes=19600",
        "backend": "cli",
        "processes_per_repetition": 1,
        "board": Board(model="Raspberry Pi 4", architecture="aarch64", bits=64, openssl="3.5.7"),
        "meter": "m1",
        "meter_model": "FNB58",
        "meter_kind": "measured",
        "simulated": False,
        "start_ns": start_ns,
        "end_ns": start_ns + 30 * SECOND,
        "start_time": rfc3339(start_ns),
        "end_time": rfc3339(start_ns + 30 * SECOND),
        "quality": "good",
        "flags": (),
        "repetitions": 400,
        "repetitions_failed": 0,
        "load_segments": 10,
        "load_segments_used": 10,
        "guard_s": 0.12,
        "load_s": 7.0,
        "time_per_repetition": None,
        "net_j_per_op": Quantity(value=net_j, u=u_j, dof=9.0, u95=2.3 * u_j),
        "budget": budget,
        "software": "test",
    }
    return EnergyResult.model_validate(fields | changes)


def key() -> PoolKey:
    """The pool of these results."""
    found = pool_key(result(0))
    assert found is not None
    return found


def trains(values_j: Sequence[float], u_j: float = 0.001, gain_u: float = 0.0, first: int = 0) -> list[PooledTrain]:
    """Trains of such a pool, in order of time."""
    return [
        PooledTrain(f"train-{first + index:06d}", T0 + (first + index) * SECOND, value_j, Standard(u_j, 20), gain_u, ())
        for index, value_j in enumerate(values_j)
    ]
