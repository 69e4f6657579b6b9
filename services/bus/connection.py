"""One connection to a broker, from CONNECT to its end. Owned by one thread; the only module that touches paho."""

import logging
import os
import selectors
import socket
import ssl
import threading
import time

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from bus.failures import cannot_reach, closed, refused
from bus.interface import Received
from bus.outbox import Outgoing
from bus.shared import Shared, Waker
from bus.tickets import Tickets

log = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 5.0
LEAVE_TIMEOUT_S = 1.0
KEEPALIVE_S = 20
"""A host that lost its power is reported offline after 1.5 times this (MQTT 5, 3.1.2.10)."""
SESSION_EXPIRY_S = 7 * 86_400
RECEIVE_MAXIMUM = 65_535
WINDOW = 100
"""Published messages that may be unacknowledged at once, if the broker allows as many."""
HEADER_BYTES = 64
"""More than a PUBLISH takes beside topic and payload (of properties only an expiry is sent)."""
PINGS_LIMIT = 64
"""Clock pings that one reading of the socket may bring; more than the aggregator ever sends at once."""
UNREAD_LIMIT = 10_000
"""QoS 0 messages beyond this many unread ones are dropped; QoS 1 is bounded by the receive maximum."""


class Connection:
    """`generation` tells its tokens from those of earlier connections."""

    def __init__(self, shared: Shared, generation: int) -> None:
        self._shared = shared
        self._will = shared.status.last_will if shared.status else None
        self.accepted = False
        self.failure = ""
        self._window = WINDOW
        self._maximum_packet_bytes: int | None = None
        self._subscribed = 0
        self._pending_filters: dict[int | None, list[str]] = {}
        self._received = 0
        self._pings: list[tuple[bytes, int]] = []
        self._tickets = Tickets(generation)
        self._client = self._make_client()

    def run(self, stopping: threading.Event, waker: Waker) -> None:
        """Until the connection fails (`failure` says why), is no longer wanted, or needs another last will."""
        address = self._shared.address
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = RECEIVE_MAXIMUM
        if self._shared.persistent:
            properties.SessionExpiryInterval = SESSION_EXPIRY_S
        try:
            self._client.connect(
                address.host,
                address.port,
                keepalive=KEEPALIVE_S,
                clean_start=not self._shared.persistent,
                properties=properties,
            )
        except OSError as error:
            self.failure = cannot_reach(error, address, time.strftime("%Y-%m-%d"))
            return
        try:
            self._serve(stopping, waker)
            self._leave()
        finally:
            self._shared.connected.clear()
            self._shared.outbox.close()
            if (raw := self._socket()) is not None:
                raw.close()

    def _serve(self, stopping: threading.Event, waker: Waker) -> None:
        raw = self._socket()
        if raw is None:
            self.failure = closed(self.accepted, self._shared.address)
            return
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        deadline_s = time.monotonic() + OPEN_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            selector.register(waker.reader, selectors.EVENT_READ)
            selector.register(raw, selectors.EVENT_READ)
            while not stopping.is_set() and not self._needs_other_will():
                self._send()
                if self._socket() is None or self.failure:
                    break
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._client.want_write() else 0)
                selector.modify(raw, wanted)
                selector.select(timeout=1.0)
                waker.clear()
                self._read_and_write()
                if not self.accepted and time.monotonic() > deadline_s:
                    self.failure = f"no answer within {OPEN_TIMEOUT_S:g} s"
        if not stopping.is_set() and self._socket() is None and not self.failure:
            self.failure = closed(self.accepted, self._shared.address)

    def _read_and_write(self) -> None:
        before = -1
        while self._socket() is not None and (self._received != before or self._buffered()):
            before = self._received
            self._client.loop_read()
        self._answer_pings()
        if self._client.want_write():
            self._client.loop_write()
        self._client.loop_misc()

    def _answer_pings(self) -> None:
        """Outside of paho's callbacks, so that the answer is written the moment it is made."""
        pings, self._pings = self._pings, []
        for payload, arrival_ns in pings:
            answerer = self._shared.pings
            pong = answerer.answer(payload, answerer.clock.at_ns(arrival_ns)) if answerer is not None else None
            if pong is not None and self._socket() is not None:
                self._client.publish(pong.topic, pong.payload, pong.qos, pong.retain)

    def _buffered(self) -> bool:
        raw = self._socket()
        return isinstance(raw, ssl.SSLSocket) and raw.pending() > 0

    def _socket(self) -> socket.socket | None:
        raw = self._client.socket()
        return raw if isinstance(raw, socket.socket) else None

    def _needs_other_will(self) -> bool:
        return self._will is None and self._shared.status is not None

    def _leave(self) -> None:
        raw = self._socket()
        if raw is None or self.failure:
            return
        self._send()
        # paho closes as soon as DISCONNECT is written. The copy stays open until the broker has read it: a reset by
        # unread data could let the last will out.
        with socket.socket(fileno=os.dup(raw.fileno())) as copy:
            copy.settimeout(LEAVE_TIMEOUT_S)
            self._client.disconnect()
            deadline_s = time.monotonic() + LEAVE_TIMEOUT_S
            while self._socket() is not None and time.monotonic() < deadline_s:
                with selectors.DefaultSelector() as selector:
                    selector.register(copy, selectors.EVENT_WRITE)
                    selector.select(timeout=LEAVE_TIMEOUT_S)
                self._client.loop_write()
            _drain(copy, deadline_s)

    def _send(self) -> None:
        if not self.accepted:
            return
        while not self._shared.acknowledged.empty():
            for packet_id in self._tickets.acknowledge(self._shared.acknowledged.get()):
                self._client.ack(packet_id, 1)
        fresh = self._shared.filters[self._subscribed :]
        if fresh:
            self._subscribed += len(fresh)
            options = SubscribeOptions(qos=1, retainAsPublished=self._shared.retain_as_published)
            _, subscription = self._client.subscribe([(each, options) for each in fresh])
            self._pending_filters[subscription] = fresh
        self._shared.outbox.send(self._window, self._publish)

    def _publish(self, message: Outgoing) -> int | None:
        size_bytes = len(message.topic) + len(message.payload) + HEADER_BYTES
        if self._maximum_packet_bytes is not None and size_bytes > self._maximum_packet_bytes:
            self._complain(
                f"message of {size_bytes} bytes on {message.topic} dropped: the broker takes at most "
                f"{self._maximum_packet_bytes} bytes"
            )
            return None
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if message.expiry_s is not None:
            properties.MessageExpiryInterval = message.expiry_s
        return self._client.publish(message.topic, message.payload, message.qos, message.retain, properties).mid

    def _complain(self, text: str) -> None:
        if text != self._shared.last_error:
            self._shared.last_error = text
            log.error("broker %s: %s", self._shared.address, text)

    def _make_client(self) -> Client:
        shared = self._shared
        name = shared.address.client_id(shared.client_id)
        client = Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv5)
        client.connect_timeout = OPEN_TIMEOUT_S
        client.max_inflight_messages_set(0)  # the outbox keeps the window
        client.manual_ack_set(True)
        if shared.address.username is not None:
            client.username_pw_set(shared.address.username, shared.address.password)
        if shared.tls is not None:
            client.tls_set_context(shared.tls)
        if self._will is not None:
            client.will_set(self._will.topic, self._will.payload, self._will.qos, self._will.retain)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        return client

    def _on_connect(
        self, _client: Client, _data: object, _flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self.failure = refused(str(reason))
            return
        self._window = min(WINDOW, getattr(properties, "ReceiveMaximum", WINDOW))
        self._maximum_packet_bytes = getattr(properties, "MaximumPacketSize", None)
        self.accepted = True
        if not self._shared.quiet:
            log.info("connected to %s", self._shared.address)
        self._shared.last_error = self._shared.reported = ""
        self._shared.outbox.open(self._shared.status.present if self._shared.status else None)
        self._shared.connected.set()

    def _on_disconnect(
        self, _client: Client, _data: object, flags: DisconnectFlags, reason: ReasonCode, _properties: object
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self.failure = f"ended the connection: {reason}"

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        arrival_ns = time.monotonic_ns()
        self._received += 1
        topic, inbox, answerer = _topic_of(message), self._shared.inbox, self._shared.pings
        if message.qos == 0 and inbox.qsize() >= UNREAD_LIMIT:
            self._shared.unread_dropped += 1
            return
        token = self._tickets.issue(message.mid) if message.qos else 0
        if answerer is not None and topic == answerer.topic:
            self._note_ping(message, token, arrival_ns)
            return
        inbox.put(Received(topic, bytes(message.payload), bool(message.retain), token, arrival_ns))

    def _note_ping(self, message: MQTTMessage, token: int, arrival_ns: int) -> None:
        """To be answered before anything else is done. (iotcore delivers with the QoS of the subscription.)"""
        if token:
            self._shared.acknowledged.put(token)
        if len(self._pings) < PINGS_LIMIT and not message.retain:
            self._pings.append((bytes(message.payload), arrival_ns))

    def _on_publish(
        self, _client: Client, _data: object, packet_id: int, reason: ReasonCode, _properties: object
    ) -> None:
        message = self._shared.outbox.acknowledged(packet_id)
        if message is not None and reason.is_failure:
            self._complain(f"refuses messages on {message.topic}: {reason}")

    def _on_subscribe(
        self, _client: Client, _data: object, packet_id: int, reasons: list[ReasonCode], _properties: object
    ) -> None:
        for each, reason in zip(self._pending_filters.pop(packet_id, []), reasons, strict=False):
            if reason.is_failure:
                self._complain(f"refuses the subscription to {each}: {reason}")


def _topic_of(message: MQTTMessage) -> str:
    try:
        return message.topic
    except UnicodeDecodeError:
        return ""  # no topic of the contract: refused by whoever reads it


def _drain(copy: socket.socket, deadline_s: float) -> None:
    """Read until the other end closes."""
    try:
        while time.monotonic() < deadline_s and copy.recv(65_536):
            pass
    except OSError:  # time-out or reset: nothing more to wait for
        return
