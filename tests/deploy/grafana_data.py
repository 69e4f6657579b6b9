"""A fleet whose history is known, as points of our own making: what Grafana's queries are run on.

Boards: pi4 (64 bit, measured), zero32 and zero64 (one model with either system, measured), demo (SIMULATED). Each ran
three parameter sets with two builds of OpenSSL, null and sham trains among them. The newest points are traps: energies
of a million joules that a later revision took back. A query that lets one through does not ask for `valid`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from aggregator.clocks import Timeline
from aggregator.crypto import with_crypto
from aggregator.result import MeterView, of_train, without_meter
from aggregator.sinks import points
from aggregator.sinks.points import Point
from schemas import Board, EnergyResult, MeterState, OperationEvent, Quantity, ServiceStatus, TimeStatistics
from tests.aggregator.trains import SECOND, event, segments, steps, trace

MINUTE = 60 * SECOND
LOADS = 6
TRAP = 1e6
"""Joules (or watts) that no query may give."""
BOARDS = {
    "pi4": Board(model="Raspberry Pi 4 B", architecture="aarch64", bits=64, openssl="3.5.0"),
    "zero32": Board(model="Raspberry Pi Zero 2 W", architecture="armv7l", bits=32, openssl="3.5.0"),
    "zero64": Board(model="Raspberry Pi Zero 2 W", architecture="aarch64", bits=64, openssl="3.5.0"),
    "demo": Board(model="this machine (test)", architecture="x86_64", bits=64, openssl="3.5.0"),
}
STEP_W = {"pi4": 2.0, "zero32": 0.5, "zero64": 0.4, "demo": 3.0}
SETS = {"ML-KEM-768": 1.0, "ML-DSA-65": 1.5, "X25519": 0.7}
BUILDS = {"3.5.0": 1.0, "3.5.7": 1.2}
"""Versions of OpenSSL, and how much more power each draws."""
SHAMS = 12
BIASED = "zero32"
"""Its sham trains are not zero."""
GONE = "gone"
"""A board, its meter and its runner: last seen two hours before."""


def fleet(now_ns: int) -> list[Point]:
    """All points up to `now_ns`."""
    made: list[Point] = []
    for number, dut in enumerate(BOARDS):
        made += [points.operation_energy(result) for result in _results(dut, now_ns - 50 * MINUTE, 1000 * number)]
    made += [points.operation_energy(_timed_only(now_ns - 30 * MINUTE))]
    made += list(_power(now_ns))
    made += list(_health(now_ns))
    made += [_comparison(now_ns, "pi4 ML-KEM-768", 1.4, "higher", 0.0), _comparison(now_ns, "demo", 0.9, "lower", 1.0)]
    return made


def _results(dut: str, start_ns: int, number: int) -> Iterator[EnergyResult]:
    """Trains in turn, each with its crypto energy; then the traps."""
    at_ns = start_ns
    ids = map(_uuid, range(number, number + 1000))
    for build, factor in BUILDS.items():
        null = _train(dut, "null", build, 0.1, at_ns, next(ids))
        yield null
        for name, scale in SETS.items():
            at_ns += MINUTE
            good = with_crypto(_train(dut, name, build, STEP_W[dut] * scale * factor, at_ns, next(ids)), [null])
            assert good.quality == "good" and good.crypto_j_per_op is not None, good.reason
            yield good
            yield from _taken_back(good, at_ns + 20 * MINUTE, next(ids))
            yield from _crypto_taken_back(good, at_ns + 10 * MINUTE, next(ids))
    for index in range(SHAMS):
        bias_w = 0.2 if dut == BIASED else 0.0
        sham = _train(dut, "sham", list(BUILDS)[-1], bias_w, at_ns + index * MINUTE, next(ids), index)
        yield sham
    yield from _taken_back(sham, at_ns + 20 * MINUTE, next(ids))
    failed = _train(dut, "ML-KEM-768", next(iter(BUILDS)), STEP_W[dut], at_ns + 21 * MINUTE, next(ids), failed=300)
    assert failed.quality == "invalid"
    yield failed


def _taken_back(good: EnergyResult, start_ns: int, event_id: UUID) -> Iterator[EnergyResult]:
    """Degraded with a monstrous energy, then invalid: the store keeps the fields of the first revision."""
    monster = Quantity(value=TRAP, u=TRAP, u95=TRAP)
    place = {"event_id": event_id, "start_ns": start_ns, "end_ns": start_ns + 10 * SECOND}
    energies = {"net_power_w": monster, "net_j": monster, "gross_j": TRAP}
    if good.operation != "sham":
        energies |= {"net_j_per_op": monster, "crypto_j_per_op": monster}
    yield good.model_copy(update=place | energies | {"quality": "degraded"})
    empty = dict.fromkeys([*energies, "baseline_w", "load_w", "transient_j", "plateau_j"])
    yield good.model_copy(update=place | empty | {"quality": "invalid", "flags": ("gap",), "revision": 2})


def _crypto_taken_back(good: EnergyResult, start_ns: int, event_id: UUID) -> Iterator[EnergyResult]:
    """A good train whose null train became invalid: its crypto energy of before stays in the store."""
    monster = Quantity(value=TRAP, u=TRAP, u95=TRAP)
    place = {"event_id": event_id, "start_ns": start_ns, "end_ns": start_ns + 10 * SECOND}
    yield good.model_copy(update=place | {"crypto_j_per_op": monster})
    yield good.model_copy(update=place | {"crypto_j_per_op": None, "revision": 2})


def _train(
    dut: str, what: str, build: str, step_w: float, start_ns: int, event_id: UUID, seed: int = 0, failed: int = 0
) -> EnergyResult:
    parts = segments(LOADS, repetitions=0 if what == "sham" else 100, start_ns=start_ns)
    train = event(
        parts,
        event_id=event_id,
        dut=dut,
        run_id=f"run-{dut}",
        operation=what if what in ("null", "sham") else "keygen",
        parameter_set="none" if what in ("null", "sham") else what,
        variant="processes=2" if what == "null" else "",
        backend="none" if what == "sham" else "cli",
        repetitions_failed=failed,
        time_per_repetition=TimeStatistics(count=100 * LOADS, mean_s=0.007),
        board=BOARDS[dut].model_copy(update={"openssl": build}),
    )
    power = trace(_noisy(train, step_w, seed), 9.1, start_ns=start_ns)
    shared = Timeline("shared", None)
    if dut == "demo":
        return of_train(train, MeterView(f"m-{dut}", "simulated", "simulated", shared, power), 1, "test")
    return of_train(train, MeterView(f"m-{dut}", "FNB58", "measured", shared, power), 1, "test")


def _noisy(train: OperationEvent, step_w: float, seed: int) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    square, rng = steps(train.segments, 2.0, 2.0 + step_w), np.random.default_rng(seed)
    return lambda t_s: square(t_s) + rng.normal(0, 0.02, len(t_s))


def _timed_only(start_ns: int) -> EnergyResult:
    train = event(segments(LOADS, start_ns=start_ns), event_id=_uuid(9999), dut="laptop", run_id="run-laptop")
    return without_meter(train, 1, "test")


def _power(now_ns: int) -> Iterator[Point]:
    """Five minutes of every meter, one point each second; of the board that is gone two hours earlier."""
    for dut in (*BOARDS, GONE):
        end_ns = now_ns - (120 * MINUTE if dut == GONE else SECOND)
        for second in range(300):
            power_w = np.array([2.0, 2.5, 3.0])
            make = partial(points.power, ("lab", dut, f"m-{dut}"), end_ns - second * SECOND)
            yield make(power_w, np.array([5.1, 5.1, 5.1]), dut == "demo")


def _health(now_ns: int) -> Iterator[Point]:
    counters = {"samples_per_s": 100.0, "lost_samples": 3.0, "rejected_frames": 1.0, "spool_depth": 0.0}
    meter = counters | {"lost_batches": 0.0}
    runner = {"trains": 7.0, "left_out": 1.0, "spool_depth": 2.0}
    queue = {"outbox_depth": 4.0, "dead_letters": 0.0, "outbox_dropped": 0.0}
    aggregator = {"rejected": 2.0, "duplicates": 5.0, "held_trains": 1.0, **queue}
    for minute in range(10):
        t_ns = now_ns - minute * MINUTE - SECOND
        for dut in BOARDS:
            yield _said("meter", f"m-{dut}", "online", meter, t_ns)
            yield from _of_meter(dut, t_ns)
            yield _said("runner", dut, "measuring", runner, t_ns)
        yield _said("aggregator", "main", "online", aggregator | {"lag_s": 3.0}, t_ns)
        yield _said("aggregator", "blocked", "online", aggregator | {"lag_s": 3000.0}, t_ns)
        yield _said("runner", GONE, "online", runner, t_ns - 120 * MINUTE)


def _of_meter(dut: str, t_ns: int) -> list[Point]:
    """What the meter of a board says of itself."""
    meter = MeterState(dut=dut, meter=f"m-{dut}", model="FNB58", connected=True, new_values_per_s=40.0, gaps=2)
    status = ServiceStatus(
        service="meter",
        instance=f"m-{dut}",
        state="online",
        version="test",
        started_ns=1,
        started_time="1970-01-01T00:00:00Z",
        duts=(dut,),
        meters=(meter,),
    )
    return points.meter_health("lab", status, t_ns)


def _said(service: str, instance: str, state: str, health: dict[str, float], t_ns: int) -> Point:
    status = ServiceStatus.model_validate(
        {
            "service": service,
            "instance": instance,
            "state": state,
            "version": "test",
            "started_ns": 1,
            "started_time": "1970-01-01T00:00:00Z",
            "duts": (),
            "detail": f"{state}: a test",
            "health": health,
        }
    )
    return points.fleet_health("lab", status, t_ns)


def _comparison(now_ns: int, numerator: str, ratio: float, verdict: str, simulated: float) -> Point:
    """As DESIGN.md 7 has it; the aggregator does not write it yet."""
    tags = {"site": "lab", "numerator": numerator, "denominator": "the same, OpenSSL 3.5.0"}
    fields: dict[str, float | str] = {
        "ratio": ratio,
        "low": ratio - 0.1,
        "high": ratio + 0.1,
        "verdict": verdict,
        "simulated": simulated,
    }
    return Point("comparison", tags, fields, now_ns - MINUTE)


def _uuid(number: int) -> UUID:
    return UUID(f"01890a5d-ac96-774b-bcce-{number:012x}")


def names(found: Sequence[Point], tag: str, measurement: str = "operation_energy") -> list[str]:
    """Values of a tag."""
    return sorted({point.tags[tag] for point in found if point.measurement == measurement})
