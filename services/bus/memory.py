"""A broker and its buses in one process, for tests: the semantics of MQTT that services rely on, and fault switches."""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bus.interface import Received
from bus.outbox import Outgoing, elsewhere, encode
from bus.pings import PingAnswerer
from clock import ServiceClock
from schemas import Message, ServiceStatus
from schemas.status import Service
from schemas.topics import Kind


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a subscription covers a topic (MQTT 5, 4.7)."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(want in ("+", level) for want, level in zip(wanted, levels, strict=True))


@dataclass
class _Session:
    """What the broker keeps of a client. `unacknowledged` was delivered, under these tokens."""

    persistent: bool
    filters: list[str] = field(default_factory=list)
    queue: deque[Received] = field(default_factory=deque)
    unacknowledged: dict[int, Received] = field(default_factory=dict)
    online: bool = True
    last_will: Outgoing | None = None
    pings: PingAnswerer | None = None


class MemoryBroker:
    """Routes between `MemoryBus`es. `published` keeps every message that came, for tests to look at.

    `monotonic_ns` stamps arrivals; `on_the_way` is called before a message is delivered, so that time can pass.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.up = True
        self.published: list[Outgoing] = []
        self.monotonic_ns: Callable[[], int] = time.monotonic_ns
        self.on_the_way: Callable[[Outgoing], object] = lambda message: None
        self._sessions: dict[str, _Session] = {}
        self._retained: dict[str, Outgoing] = {}
        self._tokens = itertools.count(1)
        self._lose = 0
        self._double = 0

    def lose_next(self, count: int) -> None:
        """The next publications are accepted and reach nobody, as with a broker that is killed."""
        self._lose = count

    def double_next(self, count: int) -> None:
        """The next publications arrive twice."""
        self._double = count

    def stop(self, *, forget: bool = False) -> None:
        """Every client loses its connection; with `forget` sessions and retained messages are gone as well."""
        with self.changed:
            self.up = False
            for session in self._sessions.values():
                session.online = False
            if forget:
                self._sessions.clear()
                self._retained.clear()

    def start(self) -> None:
        """Clients may connect again."""
        self.up = True

    def attach(self, client_id: str, persistent: bool, last_will: Outgoing | None) -> _Session:
        """The session of a client, resumed or new. What was not acknowledged comes again, first."""
        with self.changed:
            session = self._sessions.get(client_id)
            if session is None or not persistent:
                session = self._sessions[client_id] = _Session(persistent)
            again = [self._delivery(old.topic, old.payload, old.retained) for old in session.unacknowledged.values()]
            session.unacknowledged.clear()
            session.queue.extendleft(reversed(again))
            session.online = True
            session.last_will = last_will
            return session

    def detach(self, session: _Session, *, clean: bool) -> None:
        """A client goes; not cleanly, and its last will goes out."""
        with self.changed:
            was_online, session.online = session.online, False
            if not session.persistent:
                session.queue.clear()
                session.unacknowledged.clear()
                session.filters.clear()
            if was_online and not clean and session.last_will is not None:
                self.route(session.last_will)

    def subscribe(self, session: _Session, filters: Sequence[str]) -> None:
        """Add filters; retained messages that match come at once."""
        with self.changed:
            session.filters.extend(each for each in filters if each not in session.filters)
            for message in self._retained.values():
                if any(matches(each, message.topic) for each in filters):
                    session.queue.append(self._delivery(message.topic, message.payload, True))
            self.changed.notify_all()

    def route(self, message: Outgoing) -> None:
        """Deliver to every session that subscribed, online or persistent."""
        with self.changed:
            self.published.append(message)
            if self._lose:
                self._lose -= 1
                return
            self.on_the_way(message)
            copies = 2 if self._double else 1
            self._double = max(0, self._double - 1)
            if message.retain:
                self._retained.pop(message.topic, None)
                if message.payload:  # an empty one takes it away (MQTT 5, 3.3.1.3)
                    self._retained[message.topic] = message
            for session in self._sessions.values():
                wanted = session.online or (session.persistent and message.qos == 1)
                if wanted and any(matches(each, message.topic) for each in session.filters):
                    for _ in range(copies):
                        session.queue.append(self._delivery(message.topic, message.payload, message.retain))
            self.changed.notify_all()
            for session in [each for each in self._sessions.values() if each.online and each.pings is not None]:
                self._answer(session.pings, message)

    def _answer(self, answerer: PingAnswerer | None, message: Outgoing) -> None:
        if answerer is not None and answerer.topic == message.topic:
            pong = answerer.answer(message.payload, answerer.clock.now_ns())
            if pong is not None:
                self.route(pong)

    def _delivery(self, topic: str, payload: bytes, retained: bool) -> Received:
        return Received(topic, payload, retained, next(self._tokens), self.monotonic_ns())


class MemoryBus:
    """A `Bus` on a `MemoryBroker`. After `drop()` or the broker's `stop()` it is connected again by `connect()`."""

    def __init__(
        self, broker: MemoryBroker, client_id: str, *, persistent: bool = False, manual_ack: bool = False
    ) -> None:
        self._broker = broker
        self._client_id = client_id
        self._persistent = persistent
        self._manual_ack = manual_ack
        self._filters: list[str] = []
        self._status: tuple[Outgoing, Outgoing] | None = None
        self._pings: PingAnswerer | None = None
        self._session: _Session | None = None
        self.lost = 0

    @property
    def connected(self) -> bool:
        """Whether the broker can be spoken to now."""
        return self._session is not None and self._session.online

    def connect(self, timeout_s: float) -> bool:
        """Connect if the broker is up; there is nothing to wait for."""
        if not self._broker.up:
            return False
        if not self.connected:
            will = self._status[1] if self._status else None
            self.lost += self._session is not None
            self._session = self._broker.attach(self._client_id, self._persistent, will)
            self._session.pings = self._pings
            self._broker.subscribe(self._session, self._filters)
            if self._status:
                self._broker.route(self._status[0])
        return True

    def disconnect(self) -> None:
        """Leave cleanly: no last will goes out."""
        self._detach(clean=True)

    def drop(self) -> None:
        """Lose the connection: the last will goes out."""
        self.lost += self.connected
        self._detach(clean=False)

    def subscribe(self, filters: Sequence[str]) -> None:
        """Subscribe, now and after every reconnect."""
        fresh = [each for each in filters if each not in self._filters]
        self._filters += fresh
        if self._session is not None and self.connected:
            self._broker.subscribe(self._session, fresh)

    def publish(self, kind: Kind, site: str, message: Message, expiry_s: int | None = None, /, **levels: str) -> None:
        """Publish once; lost while disconnected."""
        if self.connected:
            self._broker.route(encode(kind, site, message, levels, expiry_s))

    def publish_elsewhere(self, topic: str, payload: bytes) -> None:
        """Publish, retained, on a topic outside of the contract; lost while disconnected."""
        message = elsewhere(topic, payload)
        if self.connected:
            self._broker.route(message)

    def set_status(self, site: str, status: ServiceStatus) -> None:
        """Publish the retained status now and after every reconnect, with an `offline` copy as last will."""
        levels = {"service": status.service, "instance": status.instance}
        offline = status.model_copy(update={"state": "offline", "until_ns": None})
        self._status = encode("status", site, status, levels), encode("status", site, offline, levels)
        if self._session is not None and self.connected:
            self._session.last_will = self._status[1]
            self._broker.route(self._status[0])

    def answer_pings(self, site: str, service: Service, instance: str, clock: ServiceClock) -> None:
        """Answer clock pings to this service, inside the delivery."""
        self._pings = PingAnswerer(site, service, instance, clock)
        if self._session is not None:
            self._session.pings = self._pings

    def receive(self, timeout_s: float, limit: int = 256) -> list[Received]:
        """What came, in order: at least one message or, after the time-out, none; at most `limit`."""
        messages: list[Received] = []
        with self._broker.changed:
            self._broker.changed.wait_for(self._has_mail, timeout_s)
            while len(messages) < limit and self._session is not None and self._has_mail():
                message = self._session.queue.popleft()
                messages.append(message)
                if self._manual_ack:
                    self._session.unacknowledged[message.token] = message
        return messages

    def acknowledge(self, messages: Sequence[Received]) -> None:
        """Acknowledge. Tokens from before a reconnect are ignored: the broker sends the messages again."""
        with self._broker.changed:
            if self._session is not None and self.connected:
                for message in messages:
                    self._session.unacknowledged.pop(message.token, None)

    def flush(self, timeout_s: float) -> bool:
        """Nothing is ever under way."""
        return True

    def _has_mail(self) -> bool:
        return self._session is not None and self._session.online and bool(self._session.queue)

    def _detach(self, *, clean: bool) -> None:
        if self._session is not None:
            self._broker.detach(self._session, clean=clean)
            self._session = None
