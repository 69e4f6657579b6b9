"""Messages, a clock and the shapes of the fixtures, for the tests of the bus."""

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from bus import MqttBus, Received
from schemas import Board, Journaled, OperationEvent, SampleBatch, Segment, SeqRange, ServiceStatus

DEADLINE_S = 15.0


class Make:
    """Messages of DUT pi4 at site lab, told apart by a number."""

    def batch(self, seq: int, samples: int = 3, timeline_id: str = "t1", dut: str = "pi4") -> SampleBatch:
        return SampleBatch(
            site="lab",
            dut=dut,
            meter="m1",
            meter_model="test",
            meter_kind="simulated",
            seq=seq,
            timeline_id=timeline_id,
            start_ns=10**18 + seq * 10**9,
            until_ns=10**18 + (seq + 1) * 10**9,
            period_ns=10**7,
            offset_us=tuple(range(0, 10_000 * samples, 10_000)),
            power_w=tuple(1.0 + 0.001 * i for i in range(samples)),
        )

    def event_id(self, number: int) -> UUID:
        return UUID(int=(7 << 76) | (2 << 62) | number)

    def event(self, number: int) -> OperationEvent:
        return OperationEvent(
            event_id=self.event_id(number),
            site="lab",
            dut="pi4",
            run_id="r1",
            operation="sign",
            parameter_set="ML-DSA-65",
            backend="cli",
            timeline_id="t1",
            segments=(
                Segment(kind="idle", start_ns=10**18 - 10**9, end_ns=10**18),
                Segment(kind="load", start_ns=10**18, end_ns=10**18 + 10**9, repetitions=5),
                Segment(kind="idle", start_ns=10**18 + 10**9, end_ns=10**18 + 2 * 10**9),
            ),
            guard_s=0.1,
            repetitions_verified=5,
            board=Board(model="test", architecture="x86_64", bits=64, openssl="3.5"),
        )

    def receipt(
        self, events: tuple[int, ...] = (), spans: tuple[tuple[int, int], ...] = (), timeline_id: str = "t1"
    ) -> Journaled:
        ranges = tuple(SeqRange(meter="m1", timeline_id=timeline_id, first=a, last=b) for a, b in spans)
        return Journaled(site="lab", dut="pi4", event_ids=tuple(map(self.event_id, events)), ranges=ranges)

    def status(self, state: str = "online", detail: str = "") -> ServiceStatus:
        return ServiceStatus.model_validate(
            {
                "service": "meter",
                "instance": "m1",
                "state": state,
                "version": "0",
                "started_ns": 1,
                "started_time": "1970-01-01T00:00:00Z",
                "duts": ["pi4"],
                "detail": detail,
            }
        )


class Clock:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class MakeBus(Protocol):
    """Connects a bus to the broker under test; it is disconnected after the test."""

    def __call__(
        self, client_id: str, *, persistent: bool = False, manual_ack: bool = False, connect: bool = True
    ) -> MqttBus: ...


class Until(Protocol):
    """Waits for a condition; fails at the deadline."""

    def __call__(self, condition: Callable[[], bool]) -> None: ...


class Collect(Protocol):
    """What a bus receives until there are as many messages; fails at the deadline."""

    def __call__(self, bus: MqttBus, count: int) -> list[Received]: ...
