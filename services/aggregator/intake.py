"""From bytes on a topic to a message that can be used, or the reason why not. Pure."""

from typing import cast

from pydantic import ValidationError

from errors import ContractError
from schemas import ClockPong, OperationEvent, Rejected, SampleBatch, ServiceStatus, parse_topic
from schemas.status import Service
from schemas.topics import Kind

PAYLOAD_LIMIT_BYTES = 4_000_000
HEAD_BYTES = 1024

Usable = SampleBatch | OperationEvent


def parse(topic: str, payload: bytes, retained: bool) -> Usable:
    """The message. Raises ContractError with one line that says what its sender did wrong."""
    address = parse_topic(topic)
    if address is None or address.kind not in ("samples", "operations"):
        raise ContractError("not a topic that the aggregator reads")
    if retained:
        raise ContractError("samples and operations must not be retained: it would be counted at every reconnect")
    if len(payload) > PAYLOAD_LIMIT_BYTES:
        raise ContractError(f"larger than {PAYLOAD_LIMIT_BYTES} bytes")
    model = SampleBatch if address.kind == "samples" else OperationEvent
    try:
        message = model.model_validate_json(payload)
    except ValidationError as error:
        raise ContractError(one_line(error)) from None
    if (message.site, message.dut) != (address.site, address.dut):
        raise ContractError(
            f"the payload claims {message.site}/{message.dut}, the topic is of {address.site}/{address.dut}"
        )
    return message


def kind_of(topic: str) -> Kind | None:
    """What kind of message a topic is for; None for none of the contract."""
    address = parse_topic(topic)
    return None if address is None else address.kind


def parse_pong(topic: str, payload: bytes, retained: bool) -> tuple[tuple[str, Service, str], ClockPong]:
    """Site, service and instance that answer a clock ping, and the answer. Raises ContractError."""
    address = parse_topic(topic)
    if address is None or address.kind != "pong" or retained:
        raise ContractError("not an answer to a clock ping")
    try:
        pong = ClockPong.model_validate_json(payload)
    except ValidationError as error:
        raise ContractError(one_line(error)) from None
    return (address.site, cast(Service, address.levels["service"]), address.levels["instance"]), pong


def parse_status(topic: str, payload: bytes) -> tuple[str, ServiceStatus]:
    """Site and status of a service. Raises ContractError."""
    address = parse_topic(topic)
    if address is None:
        raise ContractError("not a topic of the contract")
    try:
        status = ServiceStatus.model_validate_json(payload)
    except ValidationError as error:
        raise ContractError(one_line(error)) from None
    if (status.service, status.instance) != (address.levels["service"], address.levels["instance"]):
        raise ContractError(f"the payload claims {status.service}/{status.instance}, the topic is of another")
    return address.site, status


def one_line(error: ValidationError) -> str:
    """The first thing that is wrong, with the field that it is wrong in."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def rejected(topic: str, payload: bytes, reason: str) -> Rejected:
    """What is published of a message that could not be used."""
    head = payload[:HEAD_BYTES].decode("utf-8", errors="replace")[:HEAD_BYTES]
    return Rejected(topic=topic[:1024], reason=reason[:1000], payload_head=head, payload_bytes=len(payload))
