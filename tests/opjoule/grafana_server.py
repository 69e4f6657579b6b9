"""A local server that answers as Grafana's documented HTTP API does, as far as opjoule asks, and keeps every request.

A fake after the documentation of versions 11 to 13, not Grafana itself. Routes with numeric ids are switched off, as in
13: whoever asks one is answered 404 and found among the requests.
"""

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One request: path below the prefix with its query, headers of interest, body."""

    method: str
    path: str
    authorization: str
    body: Any


@dataclass
class GrafanaServer:
    """What it holds, how it misbehaves, what it was asked."""

    prefix: str = ""
    wraps_versions: bool = True
    """Grafana 11 and newer put the list of versions into an object."""
    answers: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    """Answers in place of its own, by method and path without query."""
    raw: tuple[int, dict[str, str], bytes] | None = None
    """An answer to everything, as from a proxy."""
    goes_away_after: int | None = None
    datasources: dict[str, Json] = field(default_factory=dict)
    folders: dict[str, Json] = field(default_factory=dict)
    dashboards: dict[str, list[Json]] = field(default_factory=dict)
    """Saved bodies by uid, oldest first."""
    provisioned: set[str] = field(default_factory=set)
    annotations: list[Json] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Self:
        owner: GrafanaServer = self

        class Handler(_Handler):
            grafana = owner

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Its address, with the prefix."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.prefix}"

    def asked(self) -> list[str]:
        """Method and path of every request, in order; forgets them."""
        found = [f"{each.method} {each.path}" for each in self.requests]
        self.requests.clear()
        return found

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and JSON body."""
        path = request.path.partition("?")[0]
        if (request.method, path) in self.answers:
            return self.answers[request.method, path]
        for (method, pattern), act in _ROUTES.items():
            found = re.fullmatch(pattern, path)
            if found and method == request.method:
                status, answer = act(self, request, *found.groups())
                return status, answer
        return 404, {"message": "Not found"}

    def _health(self, request: Request) -> tuple[int, Any]:
        return 200, {"database": "ok", "version": "12.4.0", "commit": "test"}

    def _datasource(self, request: Request, uid: str) -> tuple[int, Any]:
        return (200, self.datasources[uid]) if uid in self.datasources else (404, {"message": "Data source not found"})

    def _make_datasource(self, request: Request) -> tuple[int, Any]:
        body = {key: value for key, value in request.body.items() if key != "secureJsonData"}
        self.datasources[body["uid"]] = {**body, "id": 1, "version": 1, "readOnly": False}
        return 200, {"id": 1, "message": "Datasource added", "datasource": self.datasources[body["uid"]]}

    def _change_datasource(self, request: Request, uid: str) -> tuple[int, Any]:
        body = {key: value for key, value in request.body.items() if key != "secureJsonData"}
        self.datasources[uid] |= {**body, "version": self.datasources[uid]["version"] + 1}
        return 200, {"message": "Datasource updated"}

    def _datasource_health(self, request: Request, uid: str) -> tuple[int, Any]:
        return 200, {"status": "OK", "message": "datasource is working. 3 measurements found"}

    def _folder(self, request: Request, uid: str) -> tuple[int, Any]:
        return (200, self.folders[uid]) if uid in self.folders else (404, {"message": "folder not found"})

    def _make_folder(self, request: Request) -> tuple[int, Any]:
        self.folders[request.body["uid"]] = request.body
        return 200, {**request.body, "id": 1}

    def _dashboard(self, request: Request, uid: str) -> tuple[int, Any]:
        saved = self.dashboards.get(uid)
        if not saved:
            return 404, {"message": "Dashboard not found"}
        return 200, {"dashboard": saved[-1]["dashboard"], "meta": {"provisioned": uid in self.provisioned}}

    def _versions(self, request: Request, uid: str) -> tuple[int, Any]:
        found = [{"version": n, "message": body["message"]} for n, body in enumerate(self.dashboards[uid], 1)]
        limited = found[::-1][: int(parse_qs(urlsplit(request.path).query)["limit"][0])]
        return 200, {"continueToken": "", "versions": limited} if self.wraps_versions else limited

    def _save(self, request: Request) -> tuple[int, Any]:
        uid = request.body["dashboard"]["uid"]
        if uid in self.provisioned:
            return 400, {"message": "Cannot save provisioned dashboard"}
        self.dashboards.setdefault(uid, []).append(request.body)
        return 200, {"status": "success", "uid": uid, "version": len(self.dashboards[uid])}

    def _found_annotations(self, request: Request) -> tuple[int, Any]:
        tags = set(parse_qs(urlsplit(request.path).query)["tags"])
        return 200, [each for each in self.annotations if tags <= set(each["tags"])]

    def _annotate(self, request: Request) -> tuple[int, Any]:
        self.annotations.append({**request.body, "id": len(self.annotations) + 1})
        return 200, {"message": "Annotation added", "id": len(self.annotations)}


_ROUTES: dict[tuple[str, str], Any] = {
    ("GET", "/api/health"): GrafanaServer._health,
    ("GET", "/api/datasources/uid/([^/]+)"): GrafanaServer._datasource,
    ("GET", "/api/datasources/uid/([^/]+)/health"): GrafanaServer._datasource_health,
    ("POST", "/api/datasources"): GrafanaServer._make_datasource,
    ("PUT", "/api/datasources/uid/([^/]+)"): GrafanaServer._change_datasource,
    ("GET", "/api/folders/([^/]+)"): GrafanaServer._folder,
    ("POST", "/api/folders"): GrafanaServer._make_folder,
    ("GET", "/api/dashboards/uid/([^/]+)"): GrafanaServer._dashboard,
    ("GET", "/api/dashboards/uid/([^/]+)/versions"): GrafanaServer._versions,
    ("POST", "/api/dashboards/db"): GrafanaServer._save,
    ("GET", "/api/annotations"): GrafanaServer._found_annotations,
    ("POST", "/api/annotations"): GrafanaServer._annotate,
}


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: no waiting for a delayed acknowledgement
    grafana: GrafanaServer

    def _serve(self) -> None:
        grafana, length = self.grafana, int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        if grafana.goes_away_after is not None and len(grafana.requests) >= grafana.goes_away_after:
            self.close_connection = True
            self.connection.close()
            return
        if not self.path.startswith(grafana.prefix + "/api"):
            self._reply(404, {"Content-Type": "text/html"}, b"<html>no Grafana here</html>")
            return
        path = self.path.removeprefix(grafana.prefix)
        request = Request(self.command, path, self.headers.get("Authorization", ""), body)
        grafana.requests.append(request)
        if grafana.raw is not None:
            self._reply(*grafana.raw)
            return
        status, answer = grafana.answer(request)
        self._reply(status, {"Content-Type": "application/json"}, json.dumps(answer).encode())

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
