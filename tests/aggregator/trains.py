"""Trains and traces whose energy is known beforehand, for the aggregator's tests."""

from collections.abc import Callable, Sequence
from typing import Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from aggregator.trace import PowerTrace
from schemas import Board, OperationEvent, SampleBatch, Segment

SECOND = 1_000_000_000
T0 = 1_800_000_000 * SECOND
PERIOD_NS = 10_000_000
BOARD = Board(model="test board", architecture="none", bits=64, openssl="3.5.0")
EVENT_ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def segments(
    loads: int, load_s: float = 0.7, idle_s: float = 0.7, repetitions: int = 100, start_ns: int = T0
) -> tuple[Segment, ...]:
    """Idle and load in turn, beginning and ending with idle."""
    found: list[Segment] = []
    at_ns = start_ns
    for i in range(2 * loads + 1):
        kind: Literal["idle", "load"] = "load" if i % 2 else "idle"
        length_ns = round((load_s if i % 2 else idle_s) * SECOND)
        found.append(
            Segment(kind=kind, start_ns=at_ns, end_ns=at_ns + length_ns, repetitions=repetitions if i % 2 else 0)
        )
        at_ns += length_ns
    return tuple(found)


def event(parts: Sequence[Segment], **changes: object) -> OperationEvent:
    """A train of key generations."""
    fields: dict[str, object] = {
        "event_id": EVENT_ID,
        "site": "lab",
        "dut": "pi4",
        "run_id": "run",
        "operation": "keygen",
        "parameter_set": "ML-KEM-768",
        "backend": "cli",
        "processes_per_repetition": 2,
        "timeline_id": "shared",
        "segments": parts,
        "guard_s": 0.12,
        "repetitions_verified": sum(part.repetitions for part in parts),
        "board": BOARD,
    }
    return OperationEvent.model_validate(fields | changes)


def trace(
    power_w: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    duration_s: float,
    period_ns: int = PERIOD_NS,
    start_ns: int = T0,
) -> PowerTrace:
    """Samples of a power that is a function of the seconds since `start_ns`."""
    t_ns = np.arange(start_ns, start_ns + round(duration_s * SECOND) + 1, period_ns, dtype=np.int64)
    return PowerTrace(t_ns, power_w((t_ns - start_ns) / 1e9), period_ns)


def steps(
    parts: Sequence[Segment], idle_w: float, load_w: float
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Power that is `load_w` in load segments and `idle_w` elsewhere."""

    def power_w(t_s: NDArray[np.float64]) -> NDArray[np.float64]:
        t_ns = parts[0].start_ns + np.round(t_s * 1e9).astype(np.int64)
        loaded = np.zeros(len(t_ns), dtype=bool)
        for part in parts:
            if part.kind == "load":
                loaded |= (t_ns >= part.start_ns) & (t_ns < part.end_ns)
        return np.where(loaded, load_w, idle_w)

    return power_w


def batches(
    source: PowerTrace, size: int = 100, meter: str = "m1", timeline_id: str = "shared", **changes: object
) -> list[SampleBatch]:
    """The samples of a trace as a meter would send them."""
    found = []
    for seq, first in enumerate(range(0, len(source.t_ns), size)):
        t_ns = source.t_ns[first : first + size]
        fields: dict[str, object] = {
            "site": "lab",
            "dut": "pi4",
            "meter": meter,
            "meter_model": "simulated",
            "meter_kind": "simulated",
            "seq": seq,
            "timeline_id": timeline_id,
            "start_ns": int(t_ns[0]),
            "until_ns": int(t_ns[-1]) + 1,
            "period_ns": source.period_ns,
            "offset_us": [int(t - t_ns[0]) // 1000 for t in t_ns],
            "power_w": source.power_w[first : first + size].tolist(),
        }
        found.append(SampleBatch.model_validate(fields | changes))
    return found
