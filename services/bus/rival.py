"""Notices another process with our service and instance at the same broker: they would take each other's session.

The later of the two ends. What a killed predecessor left on the status topic keeps nobody out.
"""

import secrets
import time
from collections.abc import Callable

from pydantic import ValidationError

from bus.address import BrokerAddress
from bus.interface import Received
from bus.mqtt import MqttBus
from errors import SettingsError
from schemas import ServiceStatus, parse_topic, topic_filter
from schemas.status import Service

STORED_S = 0.3
"""Within this time after its connection the sentry gets the status that the broker has stored."""
PATIENCE_S = 15.0
"""Who is online says so every 10 s: silence for so long means that a stored `online` is a dead one's."""
_POLL_S = 0.05


class Sentry:
    """Listens to the status topic of our name, on a connection of its own, which takes nobody's session.

    For services that tell their status all the time. `site` may be `+`.
    """

    def __init__(self, address: BrokerAddress, site: str, service: Service, instance: str, started_ns: int) -> None:
        self._what, self._started_ns = f"{service} {instance}", started_ns
        self._bus = MqttBus(address, f"sentry-{secrets.token_hex(8)}", retain_as_published=False, quiet=True)
        self._bus.subscribe([topic_filter("status", site, service=service, instance=instance)])
        self._since_s: float | None = None
        self._stored_alive = False
        self._alone = False

    def wait_until_alone(self, connect_s: float, stopping: Callable[[], bool]) -> bool:
        """Look around before entering. False where the broker does not answer in this time, or when stopping.

        Raises SettingsError where another one is there.
        """
        self._bus.connect(0.0)
        end_s = time.monotonic() + connect_s
        while not self.alone():
            if stopping() or (self._since_s is None and time.monotonic() > end_s):
                return False
            time.sleep(_POLL_S)
        return True

    def alone(self) -> bool:
        """Whether we have looked long enough to enter. Raises SettingsError when another one shows, also later."""
        for received in self._bus.receive(0.0):
            self._hear(received)
        if not self._alone:
            now_s = time.monotonic()
            if not self._bus.connected or self._since_s is None:
                self._since_s = now_s if self._bus.connected else None
            elif now_s - self._since_s >= (PATIENCE_S if self._stored_alive else STORED_S):
                self._alone = True
        return self._alone

    @property
    def last_error(self) -> str:
        """Why there is no connection; empty when all is well."""
        return self._bus.last_error

    def close(self) -> None:
        """Look no more."""
        self._bus.disconnect()

    def _hear(self, received: Received) -> None:
        status = _status(received)
        if status is None or status.started_ns == self._started_ns:
            return
        if received.retained or status.state == "offline":
            self._stored_alive = status.state != "offline"
        elif not self._alone or status.started_ns < self._started_ns:
            raise _another(self._what)


class Rival:
    """For a service that leaves the broker again and again: what stands on its status topic when it is back.

    Another one's status after our own was told while we live. One alone may be what a broker that was killed kept of a
    predecessor; the second that differs is proof. What came before our own was told is a predecessor's as well: a
    broker that keeps our session may deliver it again. One that only waits must say how often it lost its connection:
    that makes its words differ when we take its session.

    `heard_own`: our own status came back. `found`: there is another one, and we are the later.
    """

    def __init__(self, service: Service, instance: str, started_ns: int) -> None:
        self._what, self._started_ns = f"{service} {instance}", started_ns
        self.heard_own = False
        self.found = False
        self._stale: set[bytes] = set()
        self._first: bytes | None = None

    def hear(self, received: Received) -> None:
        """A message that came; others than statuses of our name are no matter. Raises SettingsError on proof."""
        status = _status(received)
        if status is None or f"{status.service} {status.instance}" != self._what:
            return
        if status.started_ns == self._started_ns:
            self.heard_own = True
        elif not self.heard_own:
            self._stale.add(received.payload)
        elif status.state != "offline" and status.started_ns < self._started_ns and received.payload not in self._stale:
            self._first = self._first or received.payload
            if received.payload != self._first:
                self.found = True
                raise _another(self._what)


def _status(received: Received) -> ServiceStatus | None:
    address = parse_topic(received.topic)
    if address is None or address.kind != "status":
        return None
    try:
        return ServiceStatus.model_validate_json(received.payload)
    except ValidationError:
        return None


def _another(what: str) -> SettingsError:
    return SettingsError(f"another {what} is connected to this broker; stop one, or give them different names")
