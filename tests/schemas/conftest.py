"""One good example of every message of the contract."""

from typing import Any
from uuid import UUID

import pytest

from schemas import (
    Board,
    BudgetPart,
    ClockPing,
    ClockPong,
    ClockState,
    Command,
    Comparison,
    DeviceDescription,
    EnergyResult,
    HostClock,
    Journaled,
    Message,
    OperationEvent,
    PooledEnergy,
    Quantity,
    Rejected,
    SampleBatch,
    Segment,
    SeqRange,
    ServiceStatus,
    Skipped,
    TimeStatistics,
)

T0 = 1_790_000_000_123_456_789
SECOND = 1_000_000_000
EVENT_ID = UUID("01920000-0000-7000-8000-000000000001")
BOARD = Board(model="Raspberry Pi 4", architecture="aarch64", bits=64, openssl="3.5.7")
HOST = HostClock(boot_id="b", wall_minus_monotonic_ns=T0)
ENERGY = Quantity(value=0.0345, u=0.001, dof=9, u95=0.0023)
RAN: dict[str, Any] = {"operation": "sign", "parameter_set": "ML-DSA-65", "backend": "cli", "variant": ""}


def _sample_batch() -> SampleBatch:
    return SampleBatch(
        site="lab",
        dut="pi4",
        meter="fnb58-1",
        meter_model="FNB58",
        meter_kind="measured",
        seq=7,
        timeline_id="t1",
        host_clock=HOST,
        start_ns=T0,
        until_ns=T0 + SECOND,
        period_ns=10_000_000,
        offset_us=(0, 10_000, 20_001),
        power_w=(2.5, 2.75, -0.001),
        voltage_v=(5.1, 5.1, 5.0),
        energy_counter_j=12.5,
    )


def _operation_event() -> OperationEvent:
    return OperationEvent(
        event_id=EVENT_ID,
        site="lab",
        dut="pi4",
        run_id="r1",
        **RAN,
        processes_per_repetition=1,
        timeline_id="t2",
        segments=(
            Segment(kind="idle", start_ns=T0, end_ns=T0 + SECOND),
            Segment(kind="load", start_ns=T0 + SECOND, end_ns=T0 + 2 * SECOND, repetitions=40),
            Segment(kind="idle", start_ns=T0 + 2 * SECOND, end_ns=T0 + 3 * SECOND),
        ),
        guard_s=0.12,
        seed=2**63,
        repetitions_verified=40,
        output_bytes={"signature": 3309},
        board=BOARD,
    )


def _energy_result() -> EnergyResult:
    return EnergyResult(
        event_id=EVENT_ID,
        revision=1,
        site="lab",
        dut="pi4",
        run_id="r1",
        origin="runner",
        algorithm="ML-DSA",
        category=3,
        **RAN,
        processes_per_repetition=1,
        board=BOARD,
        meter="fnb58-1",
        meter_model="FNB58",
        meter_kind="measured",
        simulated=False,
        start_ns=T0,
        end_ns=T0 + 3 * SECOND,
        start_time="2026-09-21T14:13:20.123456789Z",
        end_time="2026-09-21T14:13:23.123456789Z",
        quality="degraded",
        flags=("gap",),
        reason="one gap of 0.2 s",
        repetitions=40,
        repetitions_failed=0,
        load_segments=1,
        load_segments_used=1,
        guard_s=0.12,
        load_s=1.0,
        time_per_repetition=TimeStatistics(count=40, mean_s=0.025),
        net_j_per_op=ENERGY,
        budget=(BudgetPart(name="scatter", u=0.001, dof=9, source="segments"),),
        clock=ClockState(method="same_host", offset_ns=-5, bound_s=0.0),
        software="0.1.0",
    )


def _device() -> DeviceDescription:
    return DeviceDescription(
        site="lab",
        dut="pi4",
        model="Raspberry Pi 4",
        architecture="aarch64",
        bits=64,
        cpu="Cortex-A72",
        cores=4,
        memory_bytes=4 * 2**30,
        operating_system="Debian 13",
        kernel="6.12",
        python="3.13.5",
        openssl="3.5.7",
        openssl_program="/usr/bin/openssl",
        opjoule="0.1.0",
        backends=("cli",),
        parameter_sets=("ML-DSA-65",),
        skipped=(Skipped(operation="encaps", parameter_set="ML-KEM-768", reason="not in this OpenSSL"),),
    )


def _pooled() -> PooledEnergy:
    return PooledEnergy(
        site="lab", dut="pi4", **RAN, net_j_per_op=ENERGY, between_trains_j=0.0, trains=10, simulated=False, last_ns=T0
    )


def _comparison() -> Comparison:
    return Comparison(
        site="lab",
        numerator="ML-DSA-65 sign",
        denominator="ECDSA-P-256 sign",
        ratio=1.2,
        low=1.1,
        high=1.3,
        verdict="higher",
        simulated=False,
        last_ns=T0,
    )


def _status() -> ServiceStatus:
    return ServiceStatus(
        service="meter",
        instance="bench",
        state="online",
        version="0.1.0",
        started_ns=T0,
        started_time="2026-09-21T14:13:20.123456789Z",
        duts=("pi4",),
        health={"samples_per_s": 100.0},
    )


@pytest.fixture(scope="session")
def examples() -> dict[type[Message], Message]:
    """A valid message of each kind, with more than its required fields."""
    messages: list[Message] = [
        _sample_batch(),
        _operation_event(),
        _energy_result(),
        _device(),
        _pooled(),
        _comparison(),
        _status(),
        Journaled(
            site="lab",
            dut="pi4",
            event_ids=(EVENT_ID,),
            ranges=(SeqRange(meter="fnb58-1", timeline_id="t1", first=0, last=7),),
        ),
        Command(command_id="c1", action="train", operation="sign", parameter_set="ML-DSA-65"),
        ClockPing(ping_id="p1", t1_ns=T0),
        ClockPong(ping_id="p1", timeline_id="t2", t1_ns=T0, t2_ns=T0 + 5, t3_ns=T0 + 6),
        Rejected(topic="opjoule/v1/lab/pi4/samples", reason="not JSON", payload_head="{", payload_bytes=1),
    ]
    return {type(message): message for message in messages}
