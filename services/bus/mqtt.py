"""`MqttBus`: the bus on a real broker (MQTT 5), reconnecting for ever."""

import logging
import queue
import random
import threading
import time
from collections.abc import Sequence

from bus.address import BrokerAddress
from bus.connection import Connection
from bus.interface import Received
from bus.outbox import elsewhere, encode
from bus.pings import PingAnswerer
from bus.shared import Shared, Status, Waker
from clock import ServiceClock
from schemas import Message, ServiceStatus
from schemas.status import Service
from schemas.topics import Kind

__all__ = ["BrokerAddress", "MqttBus", "backoff_s"]

log = logging.getLogger(__name__)

BACKOFF_MIN_S = 0.2
BACKOFF_MAX_S = 30.0
STABLE_S = 5.0
"""A connection that ends sooner counts as a failed attempt: two clients with one name must not chase each other."""
FLUSH_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 6.0
"""More than an attempt to open a connection may take."""


def backoff_s(attempt: int, chance: float) -> float:
    """How long to wait after the failed attempt of this number (from 1); `chance` in [0, 1) is the jitter."""
    ceiling_s = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2.0 ** min(attempt, 10))
    return ceiling_s * (0.5 + 0.5 * chance)


class MqttBus:
    """A `Bus` on a broker. Call `set_status` and `subscribe` before `connect` where possible.

    With `persistent` the broker keeps the session for 7 days; with `manual_ack` a message that was not acknowledged
    comes again after a reconnect, else `receive` acknowledges what it hands out. Without `retain_as_published` only
    what the broker had stored before the subscription counts as retained. A `quiet` one logs neither connections nor
    their ends: the second of a service would say all twice. All methods are for one thread.
    """

    def __init__(
        self,
        address: BrokerAddress,
        client_id: str,
        *,
        persistent: bool = False,
        manual_ack: bool = False,
        retain_as_published: bool = True,
        quiet: bool = False,
    ) -> None:
        self._shared = Shared(address, client_id, persistent, address.tls_context(), retain_as_published, quiet)
        self._manual_ack = manual_ack
        self._link: _Link | None = None
        self._generation = 0

    @property
    def connected(self) -> bool:
        """Whether the broker can be spoken to now."""
        return self._shared.connected.is_set()

    @property
    def last_error(self) -> str:
        """Why there is no connection, or what the broker last refused; empty when all is well."""
        return self._shared.last_error

    @property
    def lost(self) -> int:
        """Connections that ended unasked."""
        return self._shared.lost

    @property
    def dropped(self) -> int:
        """Messages given up while the broker was away, and QoS 0 messages nobody read."""
        return self._shared.outbox.dropped + self._shared.unread_dropped

    def connect(self, timeout_s: float) -> bool:
        """Start connecting (and reconnecting for ever after), wait for the first success. False on time-out."""
        if self._link is None:
            self._link = _Link(self._shared, self._generation)
        return self._shared.connected.wait(timeout_s)

    def disconnect(self) -> None:
        """Leave cleanly: what was published is flushed (bounded), no last will goes out, no reconnecting."""
        if self._link is None:
            return
        if self.connected:
            self.flush(FLUSH_TIMEOUT_S)
        self._generation = self._link.stop()
        self._link = None

    def subscribe(self, filters: Sequence[str]) -> None:
        """Subscribe, now and after every reconnect."""
        self._shared.filters.extend(each for each in filters if each not in self._shared.filters)
        self._wake()

    def publish(self, kind: Kind, site: str, message: Message, expiry_s: int | None = None, /, **levels: str) -> None:
        """Publish once. While disconnected QoS 1 messages wait, at most `bus.outbox.LIMIT` of them."""
        self._shared.outbox.put(encode(kind, site, message, levels, expiry_s))
        self._wake()

    def publish_elsewhere(self, topic: str, payload: bytes) -> None:
        """Publish, retained, on a topic outside of the contract. Raises ValueError for one inside."""
        self._shared.outbox.put(elsewhere(topic, payload))
        self._wake()

    def set_status(self, site: str, status: ServiceStatus) -> None:
        """Publish the retained status now and after every reconnect, with an `offline` copy as last will."""
        levels = {"service": status.service, "instance": status.instance}
        offline = status.model_copy(update={"state": "offline", "until_ns": None})
        present = encode("status", site, status, levels)
        self._shared.status = Status(present, encode("status", site, offline, levels))
        self._shared.outbox.put(present)
        self._wake()

    def answer_pings(self, site: str, service: Service, instance: str, clock: ServiceClock) -> None:
        """Answer clock pings to this service, in the connection's thread."""
        self._shared.pings = PingAnswerer(site, service, instance, clock)
        self.subscribe([self._shared.pings.topic])

    def receive(self, timeout_s: float, limit: int = 256) -> list[Received]:
        """What came, in order: at least one message or, after the time-out, none; at most `limit`."""
        messages: list[Received] = []
        try:
            messages.append(self._shared.inbox.get(timeout=timeout_s))
            while len(messages) < limit:
                messages.append(self._shared.inbox.get_nowait())
        except queue.Empty:
            pass
        if not self._manual_ack:
            self._acknowledge(messages)
        return messages

    def acknowledge(self, messages: Sequence[Received]) -> None:
        """Acknowledge; the order of arrival is kept. Tokens from before a reconnect are ignored."""
        if self._manual_ack:
            self._acknowledge(messages)

    def flush(self, timeout_s: float) -> bool:
        """Wait until the broker has acknowledged all that was published. False on time-out."""
        return self._shared.outbox.wait_until_empty(timeout_s)

    def _acknowledge(self, messages: Sequence[Received]) -> None:
        tokens = [message.token for message in messages if message.token]
        for token in tokens:
            self._shared.acknowledged.put(token)
        if tokens:
            self._wake()

    def _wake(self) -> None:
        if self._link is not None:
            self._link.waker.wake()


class _Link:
    """The thread that makes one connection after the other until it is stopped."""

    def __init__(self, shared: Shared, generation: int) -> None:
        self._shared = shared
        self._generation = generation
        self._stopping = threading.Event()
        self.waker = Waker()
        self._thread = threading.Thread(target=self._run, name=f"mqtt {shared.client_id}", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """End the connection cleanly; the last generation."""
        self._stopping.set()
        self.waker.wake()
        self._thread.join(STOP_TIMEOUT_S)
        self.waker.close()
        return self._generation

    def _run(self) -> None:
        attempt = 0
        while not self._stopping.is_set():
            self._generation += 1
            connection = Connection(self._shared, self._generation)
            start_s = time.monotonic()
            connection.run(self._stopping, self.waker)
            if not connection.failure:
                continue
            self._shared.lost += connection.accepted
            self._report(connection.failure, connection.accepted)
            attempt = 1 if time.monotonic() - start_s > STABLE_S + BACKOFF_MIN_S else attempt + 1
            self._stopping.wait(backoff_s(attempt, random.random()))

    def _report(self, failure: str, accepted: bool) -> None:
        """Keep the reason, and log it once, not per attempt, nor when a runner comes back from its silence."""
        self._shared.last_error = failure
        if not self._shared.quiet and (accepted or failure != self._shared.reported):
            self._shared.reported = failure
            log.warning("broker %s: %s; trying again", self._shared.address, failure)
