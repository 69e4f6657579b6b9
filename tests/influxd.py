"""A real InfluxQL engine for tests: Debian's influxd 1.6.7, and a shim before it that speaks the v2 write endpoint.

    with Influxd(folder) as influxd, Shim(influxd) as shim:      # skip where `not influxd_available()`
        influxd.create("opjoule")
        ...                                                       # something writes to shim.url, bucket "opjoule"
        rows = influxd.rows("SELECT last(net_j_per_op) FROM operation_energy WHERE valid = 1 GROUP BY dut")

The shim answers as InfluxDB 1.8 documents it: `POST /api/v2/write?bucket=DB[/RP]&precision=..` is the engine's
`/write?db=DB[&rp=RP]`, `/query` and `/ping` are passed on, `/health` says that all is well. `shim.fault` makes it
misbehave, `shim.down()` refuses connections until `shim.up()`.
"""

import gzip
import json
import shutil
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from opjoule.processes import dies_with_parent

HOST = "127.0.0.1"
READY_S = 20.0
DATABASE = "opjoule"
_CONFIGURATION = """
reporting-disabled = true
bind-address = "{host}:{rpc}"
[meta]
dir = "{folder}/meta"
[data]
dir = "{folder}/data"
wal-dir = "{folder}/wal"
query-log-enabled = false
[retention]
check-interval = "1s"
[monitor]
store-enabled = false
[http]
bind-address = "{host}:{http}"
log-enabled = false
[logging]
level = "error"
"""


def influxd_available() -> bool:
    """Whether Debian's influxdb is installed."""
    return shutil.which("influxd") is not None


@dataclass(frozen=True)
class Series:
    """One series of an answer. Times are integers, ns since 1970."""

    name: str
    tags: Mapping[str, str]
    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def rows(self) -> list[dict[str, Any]]:
        """Its rows by column, tags among them."""
        return [{**self.tags, **dict(zip(self.columns, row, strict=True))} for row in self.values]


class Influxd:
    """An influxd process in a folder of its own, on free loopback ports; it dies with this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port, self._rpc_port = _free_ports(2)

    @property
    def url(self) -> str:
        """Of the engine itself: the v1 API only."""
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start (again, on the same data) and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        configuration = self._folder / "influxd.conf"
        configuration.write_text(
            _CONFIGURATION.format(host=HOST, folder=self._folder.absolute(), http=self.port, rpc=self._rpc_port)
        )
        command = [shutil.which("influxd") or "influxd", "run", "-config", str(configuration)]
        with (self._folder / "influxd.log").open("ab") as log:
            self._process = subprocess.Popen(
                dies_with_parent(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline_s = time.monotonic() + READY_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "influxd.log").read_text()[-2000:]
            assert time.monotonic() < deadline_s, "influxd does not answer"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would; harmless when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create(self, database: str = DATABASE, retention: str = "") -> None:
        """A database; `retention` is a duration such as `2w`, empty for ever."""
        self.query(f'CREATE DATABASE "{database}"{f" WITH DURATION {retention}" if retention else ""}', "")

    def write(self, lines: str, database: str = DATABASE) -> None:
        """Line protocol past our own sink; times in ns."""
        status, body = self.request("POST", f"/write?{urlencode({'db': database})}", lines.encode())
        assert status == 204, body

    def query(self, query: str, database: str = DATABASE) -> list[Series]:
        """The series of an InfluxQL answer, of all its statements. An error in it fails the test."""
        status, body = self.request("POST", f"/query?{urlencode({'db': database, 'epoch': 'ns', 'q': query})}")
        answer = json.loads(body)
        errors = [each["error"] for each in (answer, *answer.get("results", ())) if "error" in each]
        assert status == 200 and not errors, f"{query}: {errors}"
        return [_series(each) for result in answer["results"] for each in result.get("series", ())]

    def rows(self, query: str, database: str = DATABASE) -> list[dict[str, Any]]:
        """All rows of an answer, tags of their series among the columns."""
        return [row for series in self.query(query, database) for row in series.rows()]

    def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """One HTTP request to the engine: status and body."""
        connection = HTTPConnection(HOST, self.port, timeout=30)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _answers(self) -> bool:
        try:
            return self.request("GET", "/ping")[0] == 204
        except OSError:
            return False


@dataclass(frozen=True)
class Fault:
    """What the shim answers to writes instead of passing them on.

    `contains`: only where the batch has this text. `delay_s` passes before any answer; status 0: then passed on.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = '{"code":"fault","message":"a fault of the test"}'
    contains: str = ""
    delay_s: float = 0.0


@dataclass(frozen=True)
class Write:
    """A request that came to the write endpoint, and what was answered."""

    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    lines: int
    status: int


class Shim:
    """A loopback server that maps the v2 write endpoint to a running influxd."""

    def __init__(self, influxd: Influxd) -> None:
        self.influxd = influxd
        self.fault = Fault()
        self.writes: deque[Write] = deque(maxlen=10_000)
        """The last requests to write."""
        self.stored_lines = 0
        (self.port,) = _free_ports(1)
        self._server: ThreadingHTTPServer | None = None
        self._connections: list[socket.socket] = []

    @property
    def url(self) -> str:
        """For `--influx-url`."""
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self) -> None:
        """Answer (again, on the same port)."""
        shim = self

        class Handler(_Handler):
            owner = shim

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            allow_reuse_address = True

            def process_request(self, request: Any, client_address: Any) -> None:
                shim._connections.append(request)
                super().process_request(request, client_address)

        self._server = Server((HOST, self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), name="shim", daemon=True).start()

    def down(self) -> None:
        """Refuse connections and end those that there are; harmless when it is down."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            for connection in self._connections:  # those that are kept alive too
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._connections.clear()

    def answer(self, parameters: Mapping[str, str], body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """What a write gets: the fault's answer, else the engine's."""
        fault = self.fault
        hit = fault.contains in body.decode()
        if hit and fault.delay_s:
            time.sleep(fault.delay_s)
        if hit and fault.status:
            return fault.status, fault.headers, fault.body.encode()
        database, _, policy = parameters.get("bucket", "").partition("/")
        wanted = {"db": database, "precision": parameters.get("precision", "ns")} | ({"rp": policy} if policy else {})
        status, answer = self.influxd.request("POST", f"/write?{urlencode(wanted)}", body)
        return status, {}, answer


class _Handler(BaseHTTPRequestHandler):
    """One connection to the shim."""

    protocol_version = "HTTP/1.1"
    owner: Shim

    def do_GET(self) -> None:
        if self.path.startswith("/health"):
            said = {"name": "influxdb", "message": "ready for queries and writes", "status": "pass", "version": "1.8"}
            self._reply(200, {}, json.dumps(said).encode())
        elif self.path.startswith(("/query", "/ping")):
            self._pass_on("GET", b"")
        else:
            self._reply(404, {}, b"404 page not found\n")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address = urlsplit(self.path)
        if address.path == "/query":
            self._pass_on("POST", body)
            return
        if address.path != "/api/v2/write":
            self._reply(404, {}, b"404 page not found\n")
            return
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        parameters = {name: values[-1] for name, values in parse_qs(address.query).items()}
        status, headers, answer = self.owner.answer(parameters, body)
        lines = body.count(b"\n") + 1 if body else 0
        self.owner.writes.append(Write(parameters, dict(self.headers), lines, status))
        self.owner.stored_lines += lines if status == 204 else 0
        self._reply(status, headers, answer)

    def _pass_on(self, method: str, body: bytes) -> None:
        self._reply(*self._engine(method, body))

    def _engine(self, method: str, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        status, answer = self.owner.influxd.request(method, self.path, body)
        return status, {"X-Influxdb-Version": "1.8"}, answer

    def _reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != 204:
                self.wfile.write(body)
        except OSError:  # whoever asked was killed
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _series(raw: Mapping[str, Any]) -> Series:
    values = tuple(tuple(row) for row in raw.get("values", ()))
    return Series(raw.get("name", ""), raw.get("tags", {}), tuple(raw["columns"]), values)


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
