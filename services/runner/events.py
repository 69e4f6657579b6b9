"""A train becomes an operation event. Does no I/O and reads no clock."""

from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from clock import ServiceClock
from runner.job import Job
from runner.operations.work import Usage
from runner.timing import Times, time_statistics
from runner.train import TrainRecord
from schemas import Board, Disturbance, Handshake, OperationEvent, Segment
from schemas.operations import Backend, Procedure

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
    """A train with all that was found around it. `check_error` says what the check after it found wrong.

    `timing` are the times of a study's separate timing run, where it had one.
    """

    job: Job
    record: TrainRecord
    seed: int
    variant: str
    processes: int
    output_bytes: dict[str, int]
    check_error: str | None
    usage: Usage
    disturbance: Disturbance
    null_variant: str = ""
    size_unknown: bool = False
    handshake: Handshake | None = None
    procedure: Procedure = "train"
    timing: Times | None = None


def backend_of(job: Job) -> Backend:
    """What runs the operation: nothing in a sham train."""
    return "none" if job.operation == "sham" else job.backend


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
        procedure=measured.procedure,
        null_variant=measured.null_variant,
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
        separate_timing_s=_mean_s(measured.timing) if sound else None,
        time_per_repetition=time_statistics(measured.timing or record.times) if sound else None,
        output_bytes=measured.output_bytes,
        size_unknown=measured.size_unknown,
        peak_memory_bytes=measured.usage.peak_memory_bytes,
        cpu_time_s=_cpu_time_s(measured, verified),
        handshake=measured.handshake,
        disturbance=measured.disturbance,
        board=identity.board,
    )


def _mean_s(times: Times | None) -> float | None:
    return times.sum_ns / times.count / 1e9 if times is not None and times.count else None


def _cpu_time_s(measured: Measured, verified: int) -> float | None:
    """Per repetition: that of the spawned processes, else what was measured outside the train."""
    if measured.processes and verified:
        return measured.record.cpu_time_s / verified
    return measured.usage.cpu_time_s


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
