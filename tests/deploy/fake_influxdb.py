"""The part of InfluxDB 2's HTTP API that the set-up and the aggregator use, as its reference describes it."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.deploy.fleets import HOST

ORG, BUCKET = "opjoule", "opjoule"


class Influx(ThreadingHTTPServer):
    """The part of InfluxDB 2's API that the set-up uses, as its reference describes it; tokens are checked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Answers)
        self.admin = ""
        self.password = ""
        self.authorizations: dict[str, dict[str, Any]] = {}
        self.written: list[tuple[str, str]] = []
        self.made = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{HOST}:{self.server_address[1]}"

    def tokens(self) -> dict[str, str]:
        """What each service's token may do: description and action."""
        return {
            each["description"]: "".join(part["action"] for part in each["permissions"])
            for each in self.authorizations.values()
        }

    def may(self, token: str, action: str) -> bool:
        """Whether a token may do this to the bucket."""
        granted = [each["permissions"] for each in self.authorizations.values() if each["token"] == token]
        return any(part["action"] == action and part["resource"]["id"] == "b1" for each in granted for part in each)


class _Answers(BaseHTTPRequestHandler):
    server: Influx
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(where.query).items()}
        if where.path == "/api/v2/setup":
            self._answer(200, {"allowed": not self.server.admin})
        elif not self._known():
            self._answer(401, {"code": "unauthorized", "message": "unauthorized access"})
        elif where.path == "/api/v2/buckets":
            hit = query.get("name", BUCKET) == BUCKET
            self._answer(200, {"buckets": [{"id": "b1", "name": BUCKET}] if hit else []})
        elif where.path == "/api/v2/orgs":
            hit = query.get("org", ORG) == ORG
            self._answer(200, {"orgs": [{"id": "o1", "name": ORG}]}) if hit else self._answer(
                404, {"code": "not found"}
            )
        else:
            self._answer(200, {"authorizations": list(self.server.authorizations.values())})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        if path == "/api/v2/setup" and not self.server.admin:
            wanted = json.loads(body)
            assert (wanted["org"], wanted["bucket"], wanted["retentionPeriodSeconds"]) == (ORG, BUCKET, 0)
            assert 8 <= len(wanted["password"]) <= 72, "InfluxDB's limits"
            self.server.admin, self.server.password = wanted["token"], wanted["password"]
            self._answer(201, {})
        elif path == "/api/v2/authorizations" and self._token() == self.server.admin:
            self.server.made += 1
            made = {**json.loads(body), "id": f"a{self.server.made}", "token": f"token-{self.server.made}"}
            self.server.authorizations[made["id"]] = made
            self._answer(201, made)
        elif path == "/api/v2/write" and self.server.may(self._token(), "write"):
            self.server.written.append((self._token(), self.path))
            self._answer(204, None)
        else:
            self._answer(401, {"code": "unauthorized", "message": "unauthorized access"})

    def do_DELETE(self) -> None:
        assert self._token() == self.server.admin
        del self.server.authorizations[self.path.rpartition("/")[2]]
        self._answer(204, None)

    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Token ")

    def _known(self) -> bool:
        return self._token() in {self.server.admin, *(each["token"] for each in self.server.authorizations.values())}

    def _answer(self, status: int, body: object) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return
