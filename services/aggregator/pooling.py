"""Trains of one kind pooled into one mean: random effects with the Hartung-Knapp interval. Pure.

The mean's uncertainty comes from how much the trains differ; their own u only says how to weigh them. The gain error of
the meter is common to all trains: it is left out of the weights and added once, on the mean. README.md has an example.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.flags import INFORMATION
from aggregator.uncertainty import Floats, Standard, combine, quantity
from clock import rfc3339
from schemas import Board, EnergyResult, Flag, Operation, PooledEnergy
from schemas.base import Model
from schemas.operations import Backend

LEAST_TRAINS = 2
MOST_TRAINS = 1000
"""The last trains of a pool; those before count no more."""
DRAWN_DOF = 4.0
"""How strongly the variances inside trains are drawn towards their mean; chosen by coverage (README.md)."""
POOLED_FLAGS: frozenset[Flag] = frozenset({*INFORMATION, "few_segments", "gain_unknown"})
"""What a pooled train may be marked with: the mean does not need the scatter inside it, and repeats its flags."""


class PoolKey(Model):
    """What the trains of a pool have in common. Two meters that saw the same trains are two pools."""

    site: str
    dut: str
    backend: Backend
    operation: Operation
    parameter_set: str
    variant: str
    board: Board
    meter: str
    meter_model: str
    simulated: bool


@dataclass(frozen=True, slots=True)
class PooledTrain:
    """One train: its net energy per operation, the u of it that no other train shares, and its relative gain u."""

    event_id: str
    start_ns: int
    net_j: float
    own_j: Standard
    gain_u: float
    flags: tuple[Flag, ...]


@dataclass(frozen=True, slots=True)
class Pooled:
    """A mean with its uncertainty, and the standard deviation between trains beyond their own."""

    mean: float
    standard: Standard
    between: float


def pool_key(result: EnergyResult) -> PoolKey | None:
    """The pool of a result; None for one that is not pooled: without energy, or with a flag that makes it doubtful."""
    if result.net_j_per_op is None or result.meter is None or result.procedure != "train":
        return None
    if not POOLED_FLAGS.issuperset(result.flags):
        return None
    return PoolKey(
        site=result.site,
        dut=result.dut,
        backend=result.backend,
        operation=result.operation,
        parameter_set=result.parameter_set,
        variant=result.variant,
        board=result.board,
        meter=result.meter,
        meter_model=result.meter_model or "",
        simulated=result.simulated,
    )


def pooled_train(result: EnergyResult) -> PooledTrain:
    """What a pool keeps of a result that has a key."""
    net_j = result.net_j_per_op.value if result.net_j_per_op is not None else 0.0
    own_j = combine([Standard(part.u, part.dof) for part in result.budget if part.name != "gain"])
    gain_u_j = sum(part.u for part in result.budget if part.name == "gain")
    gain_u = gain_u_j / abs(net_j) if net_j else 0.0
    return PooledTrain(str(result.event_id), result.start_ns, net_j, own_j, gain_u, result.flags)


def random_effects(values: Sequence[float], own: Sequence[Standard]) -> Pooled:
    """Mean of k >= 2 values with their own uncertainties, and its uncertainty with k - 1 degrees of freedom.

    Between-train variance by DerSimonian and Laird (Controlled Clinical Trials 7, 1986, 177), variance of the mean by
    Hartung and Knapp (Statistics in Medicine 20, 2001, 3875).
    """
    x, inside = np.array(values, dtype=np.float64), _variances(own)
    unit = float(inside.max()) or 1.0
    between = _between(x, inside, unit)
    weights = unit / (inside + between) if inside.min() > 0.0 else np.ones(len(x))
    mean = float(weights @ x / weights.sum())
    variance = float(weights @ (x - mean) ** 2 / ((len(x) - 1) * weights.sum()))
    return Pooled(mean, Standard(math.sqrt(variance), len(x) - 1), math.sqrt(between))


def _variances(own: Sequence[Standard]) -> Floats:
    """Variances inside the trains, each drawn towards their mean as if that were known by `DRAWN_DOF` more.

    A variance from few segments is often far too small by chance, and its train would weigh far too much.
    """
    variances = np.array([each.u**2 for each in own], dtype=np.float64)
    known = np.array([math.inf if each.dof is None else each.dof for each in own])
    share = DRAWN_DOF / (known + DRAWN_DOF)
    return np.asarray(variances + share * (variances.mean() - variances), dtype=np.float64)


def _between(x: Floats, inside: Floats, unit: float) -> float:
    """Variance between trains beyond that inside them, never negative; `unit` keeps the weights near one.

    Where a train says that it knows its figure exactly, all trains weigh the same.
    """
    if inside.min() == 0.0:
        return max(0.0, float(x.var(ddof=1) - inside.mean()))
    weights = unit / inside
    total = float(weights.sum())
    spread = float(weights @ (x - weights @ x / total) ** 2)
    return max(0.0, (spread - (len(x) - 1) * unit) / (total - float(weights @ weights) / total))


def pooled_energy(key: PoolKey, trains: Iterable[PooledTrain]) -> PooledEnergy | None:
    """The message of a pool; None below two trains. The order in which trains are given does not matter."""
    last = sorted(trains, key=lambda train: (train.start_ns, train.event_id))[-MOST_TRAINS:]
    if len(last) < LEAST_TRAINS:
        return None
    found = random_effects([train.net_j for train in last], [train.own_j for train in last])
    gain = Standard(max(train.gain_u for train in last) * abs(found.mean))
    return PooledEnergy(
        site=key.site,
        dut=key.dut,
        operation=key.operation,
        parameter_set=key.parameter_set,
        variant=key.variant,
        backend=key.backend,
        board=key.board,
        meter=key.meter,
        meter_model=key.meter_model or None,
        net_j_per_op=quantity(found.mean, combine([found.standard, gain])),
        between_trains_j=found.between,
        trains=len(last),
        flags=tuple(sorted({flag for train in last for flag in train.flags})),
        simulated=key.simulated,
        last_ns=last[-1].start_ns,
        last_time=rfc3339(last[-1].start_ns),
    )


def pooled_results(results: Iterable[EnergyResult]) -> list[PooledEnergy]:
    """The pools of some results (last revisions), in the order in which their kinds first ran."""
    pools: dict[PoolKey, list[PooledTrain]] = {}
    for result in results:
        if (key := pool_key(result)) is not None:
            pools.setdefault(key, []).append(pooled_train(result))
    return [pooled for key, trains in pools.items() if (pooled := pooled_energy(key, trains)) is not None]
