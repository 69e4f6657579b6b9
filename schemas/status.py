"""What services say of themselves, and what the aggregator says of messages."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Count, DutName, Identifier, Message, Model, TimeNs
from schemas.operations import Backend, EventId, Operation, ParameterSetName, Text
from schemas.samples import TimelineId

Service = Literal["meter", "runner", "aggregator"]


class ServiceStatus(Message):
    """Retained, and the last will of the service. A meter is online only while valid samples flow."""

    service: Service
    instance: Identifier
    state: Literal["online", "measuring", "offline"]
    until_ns: Annotated[TimeNs | None, Field(description="until when a runner that is measuring stays silent")] = None
    version: Text
    started_ns: TimeNs
    started_time: Annotated[str, Field(description="started_ns as RFC 3339, UTC")]
    duts: tuple[DutName, ...]
    detail: Annotated[str, Field(max_length=500)] = ""
    health: Annotated[dict[str, float], Field(description="counters by name, unit in the name")] = Field(
        default_factory=dict
    )


class Skipped(Model):
    """An operation that this board cannot run, and why."""

    operation: Operation
    parameter_set: ParameterSetName
    reason: Text


class DeviceDescription(Message):
    """The board and its software, whole."""

    site: Identifier
    dut: DutName
    model: Text
    architecture: Text
    bits: Literal[32, 64]
    cpu: Text
    cores: Annotated[int, Field(ge=1)]
    memory_bytes: Count
    operating_system: Text
    kernel: Text
    python: Text
    openssl: Text
    openssl_program: Text
    opjoule: Text
    backends: tuple[Backend, ...]
    parameter_sets: tuple[ParameterSetName, ...]
    skipped: tuple[Skipped, ...] = ()


class SeqRange(Model):
    """Batches first to last (both included) of one meter and timeline."""

    meter: Identifier
    timeline_id: TimelineId
    first: Count
    last: Count


class Journaled(Message):
    """A receipt: what is safely in the aggregator's journal. A publisher forgets nothing that is not named here."""

    site: Identifier
    dut: DutName
    event_ids: tuple[EventId, ...] = ()
    ranges: tuple[SeqRange, ...] = ()


class Rejected(Message):
    """A message that could not be used. It was acknowledged and changed nothing."""

    topic: Annotated[str, Field(max_length=1024)]
    reason: Annotated[str, Field(max_length=1000)]
    payload_head: Annotated[str, Field(max_length=1024, description="the first kilobyte, undecodable bytes replaced")]
    payload_bytes: Count


class ClockPing(Message):
    """The aggregator asks a publisher for its time (RFC 5905: t1)."""

    ping_id: Text
    t1_ns: TimeNs


class ClockPong(Message):
    """The answer: received at t2, sent at t3, on the publisher's timeline."""

    ping_id: Text
    timeline_id: TimelineId
    t1_ns: TimeNs
    t2_ns: TimeNs
    t3_ns: TimeNs


class Command(Message):
    """What an operator asks of a runner; answered in its status."""

    action: Literal["start", "stop", "train"]
    campaign: Text | None = None
    operation: Operation | None = None
    parameter_set: ParameterSetName | None = None
