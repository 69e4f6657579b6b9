"""What servers that have `/api/v2/write` say of themselves: InfluxDB 1.8, 2.x and 3 Core, by their documented APIs."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
)

_DURATION = re.compile(r"(\d+)([wdhms])")
_UNIT_S = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class Server:
    """What answers at a URL. `version` is as far as it tells."""

    name: Literal["InfluxDB", "other"]
    version: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, or a database's retention policy; `retention_s` is 0 where points are kept for ever."""

    key: str
    retention_s: float


@dataclass(frozen=True, slots=True)
class Dbrp:
    """A database and retention policy of InfluxQL that lead to a bucket of InfluxDB 2."""

    database: str
    policy: str
    bucket: str


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: str

    @property
    def said(self) -> Any:
        """Its JSON; an empty object where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}


class Api:
    """Reads, never writes. Every method raises OSError where nothing answers."""

    def __init__(self, url: str, token: str, timeout_s: float) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._headers = {"Authorization": f"Token {token}"} if token else {}
        self._opener = _opener()

    def server(self) -> Server:
        """What answers: `/health` in 1.8 and 2.x, `/ping` in all."""
        said = self._get("/health").said
        if isinstance(said, dict) and said.get("name") == "influxdb" and said.get("version"):
            return Server("InfluxDB", _version(str(said["version"])))
        ping = self._get("/ping")
        body = ping.said if isinstance(ping.said, dict) else {}
        version = ping.headers.get("x-influxdb-version") or str(body.get("version", ""))
        return Server("InfluxDB", _version(version)) if _version(version) else Server("other")

    def bucket(self, org: str, name: str) -> Bucket | None:
        """A bucket of InfluxDB 2; None where it is not there or the token may not see it."""
        reply = self._get("/api/v2/buckets", org=org, name=name)
        for each in reply.said.get("buckets", ()) if reply.status == 200 else ():
            if each.get("name") == name:
                seconds = [rule.get("everySeconds", 0) for rule in each.get("retentionRules", ())]
                return Bucket(str(each.get("id", "")), float(max(seconds, default=0)))
        return None

    def database(self, name: str) -> Bucket | None:
        """The policy of a database of InfluxDB 1.8 that is written to; None where it cannot be seen."""
        database, _, policy = name.partition("/")
        reply = self._get("/query", q=f'SHOW RETENTION POLICIES ON "{database}"')
        for result in reply.said.get("results", ()) if reply.status == 200 else ():
            for series in result.get("series", ()):
                rows = [dict(zip(series["columns"], row, strict=True)) for row in series.get("values", ())]
                for row in rows:
                    if row["name"] == policy or (not policy and row["default"]):
                        return Bucket(str(row["name"]), _seconds(str(row["duration"])))
        return None

    def mappings(self, org: str) -> list[Dbrp] | None:
        """Databases that InfluxQL sees in InfluxDB 2; None where the token may not see them."""
        reply = self._get("/api/v2/dbrps", org=org)
        if reply.status != 200 or "content" not in reply.said:
            return None
        return [
            Dbrp(str(each.get("database")), str(each.get("retention_policy")), str(each.get("bucketID")))
            for each in reply.said["content"]
        ]

    def _get(self, path: str, **parameters: str) -> _Reply:
        query = f"?{urlencode(parameters)}" if parameters else ""
        request = Request(f"{self._url}{path}{query}", headers=self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return _Reply(answer.status, _lower(answer.headers), answer.read().decode("utf-8", "replace"))
        except HTTPError as error:
            with error:
                return _Reply(error.code, _lower(error.headers), error.read().decode("utf-8", "replace"))
        except HTTPException as error:
            raise OSError(f"no HTTP: {type(error).__name__}") from None


def _opener() -> OpenerDirector:
    """Neither proxies, as in the client that writes, nor redirects: the token is for the host that was given."""
    opener = OpenerDirector()
    for handler in (HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    return opener


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _version(text: str) -> tuple[int, ...]:
    """`v2.7.5` is (2, 7, 5); empty where it begins with no number."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return tuple(map(int, found[1].split("."))) if found else ()


def _seconds(duration: str) -> float:
    """`168h0m0s` is 604800; `0s` is for ever."""
    return float(sum(int(number) * _UNIT_S[unit] for number, unit in _DURATION.findall(duration)))
