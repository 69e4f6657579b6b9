"""A fleet with accounts of every role, the deployed broker configuration, and clients with bundles."""

import getpass
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from bus.address import ClosingSocket
from opjoule.fleet.fleet import create, opened
from opjoule.fleet.members import Member
from opjoule.local_broker import mosquitto_program

HOST = "127.0.0.1"
DEADLINE_S = 10.0
QUIET_S = 0.3
"""How long a connection that must not end is watched."""
NOW = datetime.now(UTC).replace(microsecond=0)
MEMBERS = (
    Member(role="runner", site="lab", name="pi4", duts=("pi4",)),
    Member(role="runner", site="lab", name="pi3", duts=("pi3",)),
    Member(role="runner", site="barn", name="pi4", duts=("pi4",)),
    Member(role="meter", site="lab", name="hub", duts=("pi4", "zero")),
    Member(role="aggregator", name="main", home_assistant=True),
    Member(role="aggregator", name="barn", site="barn"),
    Member(role="reader", name="grafana"),
    Member(role="reader", name="home", home_assistant=True),
    Member(role="reader", name="barn", site="barn"),
    Member(role="operator", name="ann"),
)


def make_fleet(folder: Path, members: tuple[Member, ...] = MEMBERS, port: int = 8883) -> Path:
    """A fleet whose bundles are used where they were made."""
    create(folder, (HOST, "localhost"), port, folder / "broker", NOW)
    with opened(folder) as fleet:
        for member in members:
            fleet.add(member, PurePosixPath(folder / "bundles" / member.folder), NOW)
    return folder


def settings_of(fleet: Path, username: str) -> dict[str, str]:
    """The variables of a bundle."""
    text = (fleet / "bundles" / username.replace("/", ".") / "opjoule.env").read_text("utf-8")
    return dict(line.split("=", 1) for line in text.splitlines())


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class Mosquitto:
    """The broker with the deployed configuration; its port and folders are the test's."""

    def __init__(self, folder: Path, conf: Path, secrets: Path, command: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        self._command = command or (mosquitto_program() or "mosquitto",)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        text = conf.read_text("utf-8").replace("listener 8883", f"listener {self.port} {HOST}")
        text = text.replace("/mosquitto/secrets", str(secrets)).replace("/mosquitto/data", str(folder))
        text = text.replace("log_dest stdout", f"log_dest file {self.log_file}")
        (folder / "mosquitto.conf").write_text(f"{text}user {getpass.getuser()}\n")

    @property
    def log_file(self) -> Path:
        """What the broker says."""
        return self._folder / "mosquitto.log"

    def start(self) -> None:
        """Until it listens."""
        command = [*self._command, "-c", str(self._folder / "mosquitto.conf")]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        deadline_s = time.monotonic() + DEADLINE_S
        while not self._answers():
            assert self._process.poll() is None, self.log_file.read_text()
            assert time.monotonic() < deadline_s, "mosquitto does not listen"
            time.sleep(0.02)

    def reload(self) -> None:
        """SIGHUP, and the line in which it says that it has read its files."""
        assert self._process is not None
        seen = self.log_file.read_text().count("Reloading config")
        self._process.send_signal(signal.SIGHUP)
        deadline_s = time.monotonic() + DEADLINE_S
        while self.log_file.read_text().count("Reloading config") == seen:
            assert time.monotonic() < deadline_s, "no reload"
            time.sleep(0.02)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(DEADLINE_S)
            self._process = None

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=1).close()
        except OSError:
            return False
        return True


@contextmanager
def running(folder: Path, conf: Path, secrets: Path, command: tuple[str, ...] = ()) -> Iterator[Mosquitto]:
    """The broker, ended whatever happens."""
    broker = Mosquitto(folder, conf, secrets, command)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


class Device:
    """A bare client that does what it likes, with a bundle's credentials or whatever is given instead."""

    def __init__(self, fleet: Path, member: str, port: int, **other: Any) -> None:
        bundle = fleet / "bundles" / member.replace("/", ".")
        self.heard: list[tuple[str, bytes]] = []
        self.reason = ""
        self._published: dict[int, str] = {}
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=other.get("client_id", f"test {member}"),
            protocol=MQTTProtocolVersion.MQTTv5,
        )
        self._client.connect_timeout = DEADLINE_S
        password = (bundle / "password").read_text().strip()
        if other.get("username", member) is not None:
            self._client.username_pw_set(other.get("username", member), other.get("password", password))
        if other.get("tls", True):
            context: ssl.SSLContext = other.get("context") or context_of(bundle)
            context.sslsocket_class = ClosingSocket
            self._client.tls_set_context(context)
        if "will" in other:
            self._client.will_set(other["will"], b"forged", 1, retain=True)
        self._client.on_connect = self._on_connect
        self._client.on_message = self._on_message
        self._client.on_publish = self._on_publish
        self._subscribed = 0
        self._client.on_subscribe = self._on_subscribe
        self._session_s = other.get("session_s", 0)
        self._port = port

    def connect(self) -> "Device":
        """Raises OSError where the door is shut, AssertionError where the broker says no."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._session_s
        self._client.connect(HOST, self._port, clean_start=not self._session_s, properties=properties)
        assert self._loop(lambda: self.reason != ""), "no answer"
        assert self.reason == "Success", self.reason
        return self

    def subscribe(self, *filters: str) -> None:
        """And wait for the answer."""
        before = self._subscribed
        self._client.subscribe([(each, SubscribeOptions(qos=1)) for each in filters])
        assert self._loop(lambda: self._subscribed > before)

    def publish(self, topic: str, payload: bytes = b"{}", retain: bool = False) -> str:
        """The reason in the broker's answer."""
        info: MQTTMessageInfo = self._client.publish(topic, payload, 1, retain)
        assert self._loop(lambda: info.mid in self._published), f"no answer to a PUBLISH {topic}"
        return self._published[info.mid]

    def hears(self, topic: str, within_s: float = DEADLINE_S) -> bool:
        """Whether something comes on this topic in time."""
        return self._loop(lambda: any(each == topic for each, _ in self.heard), within_s)

    def listen(self, within_s: float) -> list[str]:
        """Topics of what comes in this time."""
        self._loop(lambda: False, within_s)
        return [topic for topic, _ in self.heard]

    def is_in(self) -> bool:
        """Whether the broker keeps the connection."""
        return not self._loop(self._is_out, QUIET_S)

    def is_put_out(self) -> bool:
        """Whether the broker ends the connection in time."""
        return self._loop(self._is_out)

    def _is_out(self) -> bool:
        return self._client.socket() is None or not self._client.is_connected()

    def leave(self) -> None:
        """Cleanly, where there is still a connection; no socket is left open."""
        raw = self._client.socket()
        self._client.disconnect()
        self._loop(lambda: self._client.socket() is None, 1.0)
        if isinstance(raw, socket.socket):
            raw.close()

    def vanish(self) -> None:
        """As by a power cut: the broker sends the last will."""
        raw = self._client.socket()
        assert isinstance(raw, socket.socket)
        raw.shutdown(socket.SHUT_RDWR)
        self._loop(lambda: self._client.socket() is None, 1.0)

    def _loop(self, condition: Any, within_s: float = DEADLINE_S) -> bool:
        deadline_s = time.monotonic() + within_s
        while not condition():
            rc = self._client.loop(0.05)
            if time.monotonic() > deadline_s or rc not in (0, -1):
                return bool(condition())
        return True

    def _on_connect(self, _client: Client, _data: object, _flags: object, reason: object, _properties: object) -> None:
        self.reason = str(reason)

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self.heard.append((message.topic, bytes(message.payload)))

    def _on_publish(self, _client: Client, _data: object, mid: int, reason: object, _properties: object) -> None:
        self._published[mid] = str(reason)

    def _on_subscribe(self, *_: object) -> None:
        self._subscribed += 1


def context_of(bundle: Path) -> ssl.SSLContext:
    """TLS with a bundle's certificate."""
    context = ssl.create_default_context(cafile=bundle / "ca.pem")
    context.load_cert_chain(bundle / "client.pem", bundle / "client.key")
    return context
