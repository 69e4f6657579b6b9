"""What services say of themselves, and what the aggregator says of messages."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from schemas.base import Count, DutName, Identifier, Message, Model, TimeNs
from schemas.operations import Backend, EventId, Operation, ParameterSetName, Text
from schemas.samples import TimelineId

Service = Literal["meter", "runner", "aggregator"]


class AbortedTrain(Model):
    """A train that was cut off (kill, power cut): it has no event and no result."""

    operation: Operation
    parameter_set: ParameterSetName
    variant: Annotated[str, Field(max_length=128)] = ""
    started_ns: TimeNs


class CampaignState(Model):
    """The campaign that a runner is at, or the last one. `trains_planned` is null where it has no end."""

    name: Text
    run_id: Text
    state: Literal["running", "finished", "stopped", "failed"]
    trains_done: Count
    trains_planned: Count | None = None
    left_out: Count = 0
    left_out_reason: Annotated[
        str, Field(max_length=500, description="which train could not be measured last, and why; empty: none")
    ] = ""
    detail: Annotated[str, Field(max_length=500, description="e.g. whether its target was met")] = ""


class CommandAnswer(Model):
    """What became of the last command."""

    command_id: Text
    accepted: bool
    reason: Annotated[str, Field(max_length=1000, description="one line; empty when accepted")] = ""


class MeterState(Model):
    """One meter of a meter service. The counters are totals since the service started; null: not known."""

    dut: DutName
    meter: Identifier
    model: Text
    role: Annotated[Text, Field(description="where it measures, as its operator says")] = ""
    connected: Annotated[bool, Field(description="valid samples are flowing")]
    detail: Annotated[str, Field(max_length=500, description="what is wrong and who must act; empty: nothing")] = ""
    node: Annotated[Text | None, Field(description="where it is plugged in")] = None
    serial: Text | None = None
    firmware: Text | None = None
    temperature_c: Annotated[float | None, Field(description="of the meter")] = None
    samples_per_s: Annotated[float | None, Field(ge=0)] = None
    new_values_per_s: Annotated[float | None, Field(ge=0, description="values that differ from the one before")] = None
    rejected: Annotated[dict[str, int], Field(description="frames and readings refused, by reason")] = Field(
        default_factory=dict
    )
    lost_samples: Annotated[Count, Field(description="not received from the meter, or dropped by a full spool")] = 0
    gaps: Annotated[Count, Field(description="places in the stream where samples are lost")] = 0
    counter_resets: Annotated[Count, Field(description="of the meter's own energy counter")] = 0
    reopened: Count = 0


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
    meters: Annotated[tuple[MeterState, ...], Field(max_length=256, description="of a meter service")] = ()
    campaign: CampaignState | None = None
    answer: CommandAnswer | None = None
    aborted: Annotated[tuple[AbortedTrain, ...], Field(max_length=16, description="the latest, found at start")] = ()


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
    openssl_program: Annotated[str, Field(max_length=4096, description="its path")]
    opjoule: Text
    backends: tuple[Backend, ...]
    parameter_sets: tuple[ParameterSetName, ...]
    added_by_providers: Annotated[
        dict[ParameterSetName, tuple[Operation, ...]],
        Field(description="operations of those parameter_sets that the catalogue does not know"),
    ] = Field(default_factory=dict)
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
    """What an operator asks of a runner; answered in its status under `command_id`.

    `start` names a shipped campaign or carries one whole; `train` asks for one train; `stop` takes effect after the
    train.
    """

    command_id: Annotated[Text, Field(min_length=1, description="chosen by the sender, never used twice")]
    action: Literal["start", "stop", "train"]
    campaign: Annotated[Text | None, Field(description="name of a shipped campaign")] = None
    campaign_toml: Annotated[str | None, Field(max_length=65_536, description="a campaign file's text")] = None
    operation: Operation | None = None
    parameter_set: ParameterSetName | None = None
    backend: Backend | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.action == "start" and (self.campaign is None) == (self.campaign_toml is None):
            raise ValueError("start needs either the name of a campaign or its text")
        if self.action == "train" and self.operation is None:
            raise ValueError("train needs an operation")
        return self
