"""Trains become events; what was not verified is in no figure."""

import pytest

from clock import ServiceClock
from runner.events import Identity, Measured, operation_event
from runner.identifiers import uuid7
from runner.job import Job
from runner.operations import Usage
from runner.segments import PlannedSegment, TrainPlan
from runner.timing import times_of
from runner.train import TrainRecord
from schemas import Board, Disturbance, OperationEvent

EDGES_NS = tuple(range(10**9, 4 * 10**9, 10**9))


def _event(check_error: str | None) -> OperationEvent:
    plan = TrainPlan((PlannedSegment("idle", 10**9), PlannedSegment("load", 10**9)), 0.0, 2.0)
    record = TrainRecord(plan, EDGES_NS, (0, 4), times_of([1_000_000] * 4), 1, None, 0.004)
    measured = Measured(
        job=Job("sign", "Ed25519"),
        record=record,
        seed=1,
        variant="message_bytes=19600",
        processes=1,
        output_bytes={},
        check_error=check_error,
        usage=Usage(),
        disturbance=Disturbance(),
        procedure="as_published",
        timing=times_of([2_000_000] * 10),
    )
    board = Board(model="x", architecture="x", bits=64, openssl="3.5.0")
    return operation_event(uuid7(1, bytes(10)), Identity("lab", "pi4", "run", board), measured, ServiceClock())


def test_the_separate_timing_of_a_sound_train_is_in_its_event() -> None:
    event = _event(None)
    assert event.separate_timing_s == pytest.approx(0.002)
    assert (event.repetitions_verified, event.repetitions_failed) == (4, 1)
    assert event.cpu_time_s == pytest.approx(0.001)


def test_a_train_whose_check_failed_has_no_times_and_no_repetition_that_counts() -> None:
    event = _event("the signature does not verify")
    assert (event.separate_timing_s, event.time_per_repetition, event.cpu_time_s) == (None, None, None)
    assert (event.repetitions_verified, event.repetitions_failed) == (0, 5)
    assert [segment.repetitions for segment in event.segments] == [0, 0]
