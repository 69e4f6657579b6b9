"""A broker of one's own on 127.0.0.1, for the demo, studies and tests: Debian's mosquitto, else the iotcore wheel."""

import errno
import getpass
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from errors import SettingsError
from opjoule.processes import dies_with_parent

Kind = Literal["mosquitto", "iotcore"]
HOST = "127.0.0.1"
READY_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
POLL_S = 0.02

_IOTCORE = """
import logging, sys
logging.disable(logging.CRITICAL)  # rumqttd logs every packet as an error
from iotcore import IotCoreBroker
IotCoreBroker(config_path=sys.argv[1]).run_forever()
"""


def mosquitto_program() -> str | None:
    """Debian installs it where a user's PATH does not look."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def available(kind: Kind) -> bool:
    """Whether this broker can be started here."""
    return mosquitto_program() is not None if kind == "mosquitto" else importlib.util.find_spec("iotcore") is not None


class LocalBroker:
    """A broker process that dies with this process (Linux), or with the thread that started it.

    Anonymous clients only; `anonymous=False` refuses everyone. Only mosquitto can keep sessions over a restart
    (`persistence`), and only mosquitto lets in a fleet's members (`secrets`, the folder that `opjoule fleet` makes
    for the broker).
    """

    def __init__(
        self,
        directory: Path,
        prefer: Kind | None = None,
        port: int | None = None,
        *,
        persistence: bool = False,
        anonymous: bool = True,
        secrets: Path | None = None,
    ) -> None:
        self._directory = directory
        self._anonymous = anonymous
        self._persistence = persistence
        self._secrets = secrets.absolute() if secrets else None
        self._process: subprocess.Popen[bytes] | None = None
        self.kind: Kind = _choose("mosquitto" if secrets else prefer)
        self.port = _free_port() if port is None else port

    @property
    def url(self) -> str:
        """For `BrokerAddress.parse`."""
        return f"{'mqtts' if self._secrets else 'mqtt'}://{HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        """What the broker prints."""
        return self._directory / "broker.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until it listens. Raises SettingsError."""
        _refuse_port_in_use(self.port)
        try:
            command = self.configuration()
            with self.log_file.open("wb") as log:
                self._process = subprocess.Popen(
                    dies_with_parent(command),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise SettingsError(f"cannot start {self.kind} in {self._directory}: {error.strerror or error}") from None
        try:
            self._wait_until_ready(self._process)
        except BaseException:  # Ctrl-C too: nobody else would end it
            self.kill()
            raise

    def configuration(self) -> list[str]:
        """Write the broker's configuration; the command that starts it, with the file's name last. Raises OSError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        return self._mosquitto() if self.kind == "mosquitto" else self._iotcore()

    def stop(self) -> None:
        """End it; harmless when it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if process.poll() is not None:
                raise SettingsError(f"{self.kind} ended at its start: {self._last_line()}")
            try:
                socket.create_connection((HOST, self.port), timeout=1.0).close()
            except OSError:
                time.sleep(POLL_S)
            else:
                return
        raise SettingsError(f"{self.kind} does not listen on port {self.port} after {READY_TIMEOUT_S:g} s")

    def _last_line(self) -> str:
        lines = self.log_file.read_text("utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")

    def _mosquitto(self) -> list[str]:
        lines = [
            f"listener {self.port} {HOST}",
            *(_secured(self._secrets) if self._secrets else []),
            f"allow_anonymous {'true' if self._anonymous and not self._secrets else 'false'}",
            f"user {getpass.getuser()}",  # a change of user would undo _DIE_WITH_PARENT
            "max_inflight_messages 0",
            "max_queued_messages 1000000000",  # not 0: see deploy/mosquitto/mosquitto.conf
            "set_tcp_nodelay true",
            "log_dest stderr",
            "log_type error",
            "log_type warning",
        ]
        if self._persistence:
            lines += ["persistence true", f"persistence_location {self._directory}/", "autosave_interval 1"]
        file = self._directory / "mosquitto.conf"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        return [mosquitto_program() or "mosquitto", "-c", str(file)]

    def _iotcore(self) -> list[str]:
        lines = [
            "id = 0",
            "[router]",
            "id = 0",
            "max_connections = 1010",
            "max_outgoing_packet_count = 200",
            "max_segment_size = 104857600",
            "max_segment_count = 10",
            "[v5.1]",
            'name = "v5-1"',
            f'listen = "{HOST}:{self.port}"',
            "next_connection_delay_ms = 1",
            "[v5.1.connections]",
            "connection_timeout_ms = 60000",
            "max_payload_size = 16777216",
            "max_inflight_count = 100",
            "dynamic_filters = true",
        ]
        if not self._anonymous:
            lines += ["[v5.1.connections.auth]", f'nobody = "{os.urandom(16).hex()}"']
        file = self._directory / "iotcore.toml"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        return [sys.executable, "-P", "-c", _IOTCORE, str(file)]


def _secured(secrets: Path) -> list[str]:
    """As deploy/mosquitto/mosquitto.conf has it."""
    return [
        f"cafile {secrets}/ca.pem",
        f"certfile {secrets}/server.pem",
        f"keyfile {secrets}/server.key",
        f"crlfile {secrets}/crl.pem",
        "require_certificate true",
        "tls_version tlsv1.2",
        f"password_file {secrets}/passwords",
        f"acl_file {secrets}/acl",
    ]


def _choose(prefer: Kind | None) -> Kind:
    kinds: tuple[Kind, ...] = ("mosquitto", "iotcore") if prefer is None else (prefer,)
    for kind in kinds:
        if available(kind):
            return kind
    if prefer == "iotcore":
        raise SettingsError("the iotcore package is not installed in this Python environment")
    if prefer == "mosquitto":
        raise SettingsError("the program mosquitto is not installed")
    raise SettingsError("no MQTT broker here: install the program mosquitto, or the Python package iotcore")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _refuse_port_in_use(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SettingsError(
                    f"port {port} is in use on {HOST}: stop the other program or choose another port"
                ) from None
            raise SettingsError(f"port {port} cannot be used on {HOST}: {error.strerror}") from None
