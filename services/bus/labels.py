"""What the spool knows of a message without its payload."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from schemas import OperationEvent, SampleBatch

Spoolable = OperationEvent | SampleBatch
Stream = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Label:
    """What is known of an entry without its payload. `number` counts arrivals, over restarts."""

    number: int
    kind: Literal["operations", "samples"]
    site: str
    dut: str
    event_id: UUID | None
    meter: str
    timeline_id: str
    seq: int
    samples: int
    size_bytes: int


def label_of(number: int, message: Spoolable, size_bytes: int) -> Label:
    """The label of a message."""
    if isinstance(message, OperationEvent):
        return Label(number, "operations", message.site, message.dut, message.event_id, "", "", 0, 0, size_bytes)
    return Label(
        number, "samples", *message.stream[:2], None, *message.stream[2:], message.seq, len(message.power_w), size_bytes
    )


def stream_of(label: Label) -> Stream:
    """What its `seq` counts in."""
    return (label.site, label.dut, label.meter, label.timeline_id)
