"""What a runner says: one train of verified operations in one message."""

from itertools import pairwise
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from schemas.base import Count, DutName, HostClock, Identifier, Message, Model, Seconds, TimeNs
from schemas.samples import TimelineId

Operation = Literal[
    "keygen", "encaps", "decaps", "derive", "sign", "verify", "encrypt", "decrypt", "handshake", "null", "sham"
]
Backend = Literal["cli", "lib", "none"]
ParameterSetName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:+-]*$")]
Text = Annotated[str, Field(max_length=256)]
LONGEST_NS = 86_400 * 10**9


def _is_v5_or_v7(event_id: UUID) -> UUID:
    if event_id.version not in (5, 7):
        raise ValueError("an event_id is a UUIDv7, or a UUIDv5 for an imported recording")
    return event_id


Procedure = Annotated[
    Literal["train", "as_published"],
    Field(description="as_published: as a study did it, so that its figures can be reproduced with their faults"),
]
EventId = Annotated[UUID, AfterValidator(_is_v5_or_v7)]


class Segment(Model):
    """A stretch of a train, in ns of its timeline: start included, end excluded."""

    kind: Literal["idle", "load"]
    start_ns: TimeNs
    end_ns: TimeNs
    repetitions: Annotated[int, Field(ge=0, le=10**9, description="verified repetitions in a load segment")] = 0

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if self.end_ns <= self.start_ns:
            raise ValueError("a segment must end after it starts")
        if self.kind == "idle" and self.repetitions:
            raise ValueError("an idle segment has no repetitions")
        if self.repetitions > (self.end_ns - self.start_ns) // 10:
            raise ValueError("more repetitions than one in 10 ns cannot have happened")
        return self

    @property
    def duration_s(self) -> float:
        """Length in s."""
        return (self.end_ns - self.start_ns) / 1e9

    def contains(self, t_ns: int) -> bool:
        """Whether the time lies in the segment, its end excluded."""
        return self.start_ns <= t_ns < self.end_ns


class TimeStatistics(Model):
    """Time per repetition in a train, in s."""

    count: Count
    mean_s: Seconds
    sd_s: Seconds | None = None
    min_s: Seconds | None = None
    median_s: Seconds | None = None
    p95_s: Seconds | None = None
    max_s: Seconds | None = None
    trimmed_mean_s: Annotated[Seconds | None, Field(description="mean without the lowest and highest 10 %")] = None


class Board(Model):
    """The board and its OpenSSL, frozen into the event."""

    model: Text
    architecture: Text
    bits: Annotated[Literal[32, 64] | None, Field(description="null where an imported study does not say")]
    openssl: Text


class Disturbance(Model):
    """What may have disturbed a train: read before its first and after its last segment."""

    load_average: tuple[float, float] | None = None
    temperature_c: tuple[float, float] | None = None
    frequency_hz: tuple[float, float] | None = None
    throttled: bool | None = None
    busy: Annotated[bool | None, Field(description="the load of others stayed above the threshold")] = None
    governor: Annotated[Text | None, Field(description="CPU frequency governor in the train")] = None


class Handshake(Model):
    """What one full TLS 1.3 handshake took, by end; sizes are those of the TCP payload."""

    group: ParameterSetName
    certificate: ParameterSetName
    client_bytes: Annotated[Count, Field(description="sent by the client")]
    server_bytes: Annotated[Count, Field(description="sent by the server")]
    client_cpu_s: Annotated[Seconds, Field(description="mean CPU time of the client per handshake")]
    server_cpu_s: Annotated[Seconds, Field(description="mean CPU time of the server per handshake")]
    segments: Annotated[
        dict[Annotated[str, Field(pattern=r"^\d{2,5}$")], Count],
        Field(description="TCP segments with payload, both ends together, by maximum segment size in bytes"),
    ] = Field(default_factory=dict)


class OperationEvent(Message):
    """One train: idle and load segments in turn, beginning and ending with idle.

    An imported recording has one idle and one load segment, no guard, and the seconds per repetition of the run in
    which its time was taken (`separate_timing_s`).
    """

    event_id: EventId
    site: Identifier
    dut: DutName
    run_id: Text
    origin: Literal["runner", "import"] = "runner"
    operation: Operation
    parameter_set: ParameterSetName
    variant: Annotated[str, Field(max_length=128)] = ""
    procedure: Procedure = "train"
    null_variant: Annotated[
        str, Field(max_length=128, description="variant of the null train that has all but the cryptography")
    ] = ""
    backend: Backend
    processes_per_repetition: Annotated[int, Field(ge=0, le=1000)] = 0
    timeline_id: TimelineId
    host_clock: HostClock | None = None
    segments: Annotated[tuple[Segment, ...], Field(min_length=1, max_length=100_000)]
    guard_s: Annotated[float, Field(ge=0, le=60, description="cut from idle segments at their edges")]
    seed: Annotated[int | None, Field(ge=0, description="what the lengths of the segments were drawn from")] = None
    repetitions_verified: Count
    repetitions_failed: Count = 0
    first_error: Annotated[str | None, Field(max_length=1000)] = None
    separate_timing_s: Annotated[float | None, Field(gt=0)] = None
    time_per_repetition: TimeStatistics | None = None
    output_bytes: dict[str, Count] = Field(default_factory=dict, description="sizes seen, by kind of output")
    size_unknown: bool = False
    peak_memory_bytes: Count | None = None
    cpu_time_s: Seconds | None = None
    handshake: Handshake | None = None
    disturbance: Disturbance = Disturbance()
    board: Board

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not any(segment.kind == "load" for segment in self.segments):
            raise ValueError("a train needs a load segment")
        if any(b.start_ns < a.end_ns for a, b in pairwise(self.segments)):
            raise ValueError("segments must be in order and must not overlap")
        if self.end_ns - self.start_ns > LONGEST_NS:
            raise ValueError("a train is no longer than a day")
        if sum(segment.repetitions for segment in self.segments) != self.repetitions_verified:
            raise ValueError("repetitions_verified must be the sum over the load segments")
        if self.operation == "sham" and self.repetitions_verified:
            raise ValueError("a sham train has no repetitions")
        if self.origin == "runner" and self.procedure == "train" and not self._alternates():
            raise ValueError("idle and load segments take turns without a break, beginning and ending with idle")
        return self

    def _alternates(self) -> bool:
        kinds = [segment.kind for segment in self.segments]
        touching = all(a.end_ns == b.start_ns for a, b in pairwise(self.segments))
        return touching and len(kinds) % 2 == 1 and set(kinds[::2]) == {"idle"} and set(kinds[1::2]) == {"load"}

    @property
    def start_ns(self) -> int:
        """Start of the first segment."""
        return self.segments[0].start_ns

    @property
    def end_ns(self) -> int:
        """End of the last segment."""
        return self.segments[-1].end_ns
