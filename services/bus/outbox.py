"""What was published and not yet acknowledged by the broker: kept over a reconnect, bounded."""

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from schemas import ROOT, TOPICS, Message, topic
from schemas.topics import Kind

log = logging.getLogger(__name__)

LIMIT = 10_000
"""Messages kept while the broker is away: some 20 MB of results or sample batches."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message as it goes to the broker."""

    topic: str
    payload: bytes
    qos: Literal[0, 1]
    retain: bool
    expiry_s: int | None = None


def encode(kind: Kind, site: str, message: Message, levels: Mapping[str, str], expiry_s: int | None = None) -> Outgoing:
    """A message with the topic, QoS and retain flag of the contract."""
    spec = TOPICS[kind]
    return Outgoing(topic(kind, site, **levels), message.model_dump_json().encode(), spec.qos, spec.retain, expiry_s)


def elsewhere(topic: str, payload: bytes) -> Outgoing:
    """A retained message on a topic outside of the contract. Raises ValueError for one inside, or no topic at all."""
    if topic.partition("/")[0] == ROOT.partition("/")[0] or not topic or set(topic) & set("+#\0"):
        raise ValueError(f"{topic!r} is no topic of another program")
    return Outgoing(topic, payload, 1, True)


class Outbox:
    """Used by two threads: the service puts, the connection takes. A retained message replaces its predecessor."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._unsent: OrderedDict[str | int, Outgoing] = OrderedDict()
        self._in_flight: dict[int, Outgoing] = {}
        self._open = False
        self.dropped = 0

    def put(self, message: Outgoing) -> None:
        """Queue. With QoS 0 only while connected; beyond the limit the oldest is dropped and counted."""
        with self._changed:
            if message.qos == 0 and not self._open:
                return
            self._append(self._unsent, message)
            if len(self._unsent) > self._limit:
                self._unsent.popitem(last=False)
                self.dropped += 1
                if self.dropped == 1 or self.dropped % self._limit == 0:
                    log.warning("broker away or slow: %d unsent messages dropped so far", self.dropped)

    def open(self, first: Outgoing | None) -> None:
        """A connection is up: `first` goes before all else."""
        with self._changed:
            self._open = True
            if first is not None:
                self._unsent[first.topic] = first
                self._unsent.move_to_end(first.topic, last=False)

    def close(self) -> None:
        """The connection is gone: what it did not get acknowledged is unsent again."""
        with self._changed:
            self._open = False
            again: OrderedDict[str | int, Outgoing] = OrderedDict()
            for message in (*self._in_flight.values(), *self._unsent.values()):
                if message.qos == 1:
                    self._append(again, message)
            self._in_flight.clear()
            self._unsent = again
            self._changed.notify_all()

    def send(self, window: int, publish: Callable[[Outgoing], int | None]) -> None:
        """Publish the oldest until `window` are unacknowledged. `publish` gives the packet id or drops (None)."""
        with self._changed:
            while self._unsent and len(self._in_flight) < window:
                _, message = self._unsent.popitem(last=False)
                packet_id = publish(message)
                if packet_id is not None and message.qos == 1:
                    self._in_flight[packet_id] = message
            self._changed.notify_all()

    def acknowledged(self, packet_id: int) -> Outgoing | None:
        """The broker has it; the message, or None for a packet id of an earlier connection."""
        with self._changed:
            message = self._in_flight.pop(packet_id, None)
            self._changed.notify_all()
            return message

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Whether everything was acknowledged before the time-out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unsent and not self._in_flight, timeout_s)

    def _append(self, queue: OrderedDict[str | int, Outgoing], message: Outgoing) -> None:
        key = message.topic if message.retain else next(self._numbers)
        queue.pop(key, None)
        queue[key] = message
