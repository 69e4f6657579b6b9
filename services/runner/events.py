"""A train becomes an operation event. Does no I/O and reads no clock."""

from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from clock import ServiceClock
from runner.plan import Job
from runner.timing import time_statistics
from runner.train import TrainRecord
from schemas import Board, Disturbance, OperationEvent, Segment
from schemas.operations import Backend

ERROR_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Identity:
    """Who measures, in which run."""

    site: str
    dut: str
    run_id: str
    board: Board


@dataclass(frozen=True, slots=True)
class Measured:
    """A train with all that was found around it. `check_error` says what the check after it found wrong."""

    job: Job
    record: TrainRecord
    seed: int
    variant: str
    processes: int
    output_bytes: dict[str, int]
    check_error: str | None
    peak_memory_bytes: int | None
    disturbance: Disturbance


def backend_of(job: Job) -> Backend:
    """What runs the operation: nothing in a sham train."""
    return "none" if job.operation == "sham" else "cli"


def operation_event(event_id: UUID, identity: Identity, measured: Measured, clock: ServiceClock) -> OperationEvent:
    """The event of a train. When the check failed, no repetition of it counts as verified."""
    record = measured.record
    sound = measured.check_error is None
    verified = sum(record.verified) if sound else 0
    return OperationEvent(
        event_id=event_id,
        site=identity.site,
        dut=identity.dut,
        run_id=identity.run_id,
        operation=measured.job.operation,
        parameter_set=measured.job.parameter_set,
        variant=measured.variant,
        backend=backend_of(measured.job),
        processes_per_repetition=measured.processes,
        timeline_id=clock.timeline_id,
        host_clock=clock.host_clock,
        segments=_segments(record, sound, clock),
        guard_s=record.plan.guard_s,
        seed=measured.seed,
        repetitions_verified=verified,
        repetitions_failed=record.failed + sum(record.verified) - verified,
        first_error=_first_error(record.first_error or measured.check_error),
        time_per_repetition=time_statistics(record.durations_ns) if sound else None,
        output_bytes=measured.output_bytes,
        peak_memory_bytes=measured.peak_memory_bytes,
        cpu_time_s=record.cpu_time_s / verified if verified else None,
        disturbance=measured.disturbance,
        board=identity.board,
    )


def _segments(record: TrainRecord, sound: bool, clock: ServiceClock) -> tuple[Segment, ...]:
    edges_ns = [clock.at_ns(edge_ns) for edge_ns in record.edges_ns]
    return tuple(
        Segment(kind=planned.kind, start_ns=start_ns, end_ns=end_ns, repetitions=repetitions if sound else 0)
        for planned, (start_ns, end_ns), repetitions in zip(
            record.plan.segments, pairwise(edges_ns), record.verified, strict=True
        )
    )


def _first_error(error: str | None) -> str | None:
    return error[:ERROR_LIMIT] if error is not None else None
