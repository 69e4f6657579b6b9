"""What a service needs of a message bus. Callbacks never run service code: the main loop takes what came."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from clock import ServiceClock
from schemas import Message, ServiceStatus
from schemas.status import Service
from schemas.topics import Kind


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it came. `token` is what the bus needs to acknowledge it; its meaning is the bus's own.

    `arrival_ns` is the monotonic clock when the network gave it, before it waited for anybody.
    """

    topic: str
    payload: bytes
    retained: bool
    token: int
    arrival_ns: int = field(default=0, compare=False)


class Bus(Protocol):
    """A connection to a broker, with the QoS and retain flags of `schemas.topics.TOPICS`."""

    @property
    def connected(self) -> bool:
        """Whether the broker can be spoken to now."""
        ...

    @property
    def lost(self) -> int:
        """Connections that ended unasked."""
        ...

    def connect(self, timeout_s: float) -> bool:
        """Start connecting (and reconnecting for ever after), wait for the first success. False on time-out."""
        ...

    def disconnect(self) -> None:
        """Leave cleanly: what was published is flushed (bounded), no last will goes out, no reconnecting."""
        ...

    def subscribe(self, filters: Sequence[str]) -> None:
        """Subscribe, now and after every reconnect (Retain As Published)."""
        ...

    def publish(self, kind: Kind, site: str, message: Message, expiry_s: int | None = None, /, **levels: str) -> None:
        """Publish once. Best effort while disconnected: what must not be lost goes through `SpoolingPublisher`.

        What the broker could not deliver within `expiry_s` it drops (MQTT 5, 3.3.2.3.3).
        """
        ...

    def publish_elsewhere(self, topic: str, payload: bytes) -> None:
        """Publish, retained and with QoS 1, what another program's contract asks for; an empty payload takes it away.

        Raises ValueError for a topic of our own contract.
        """
        ...

    def set_status(self, site: str, status: ServiceStatus) -> None:
        """Publish the retained status now and after every reconnect, with an `offline` copy as last will."""
        ...

    def answer_pings(self, site: str, service: Service, instance: str, clock: ServiceClock) -> None:
        """Answer clock pings to this service, at once and without its help; call it before `connect`."""
        ...

    def receive(self, timeout_s: float, limit: int = 256) -> list[Received]:
        """What came, in order: at least one message or, after the time-out, none; at most `limit`."""
        ...

    def acknowledge(self, messages: Sequence[Received]) -> None:
        """Acknowledge in arrival order. Tokens from before a reconnect are ignored: the broker sends them again."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait until the broker has acknowledged all that was published. False on time-out."""
        ...
