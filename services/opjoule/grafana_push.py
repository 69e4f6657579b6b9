"""What is done to a Grafana, step by step, so that doing it again changes nothing. Speaks through a given client."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from errors import SettingsError
from opjoule.dashboards import DASHBOARDS
from opjoule.dashboards.parts import DATASOURCE_UID, FOLDER_TITLE, FOLDER_UID, Json
from opjoule.dashboards.provisioning import influxdb

OURS = "opjoule grafana push"
"""Begins the message of every version of a dashboard that we saved."""
_COMPARED = ("type", "url", "access")
_BUCKET = "opjoule"
"""What a new data source reads where no bucket is given."""


class RefusedError(SettingsError):
    """Grafana answered with an error. `status` is that of HTTP, `message` what it said."""

    def __init__(self, line: str, status: int, message: str) -> None:
        super().__init__(line)
        self.status, self.message = status, message


class UnreachableError(SettingsError):
    """Grafana gave no answer, or none of its own."""


class Client(Protocol):
    """Requests to Grafana's API. Raise RefusedError for an error that Grafana says, UnreachableError for another."""

    def get(self, path: str) -> Any:
        """GET."""

    def find(self, path: str) -> Any | None:
        """GET, None for 404."""

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """POST."""

    def put(self, path: str, body: dict[str, Any]) -> Any:
        """PUT."""


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one thing. `problem`: it is not as it should be, and the text says who must act."""

    what: str
    done: str
    problem: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.done}"


@dataclass(frozen=True, slots=True)
class Store:
    """What the data source is to lead to; of what is not given Grafana keeps the one that it has."""

    url: str | None
    bucket: str | None
    authorization: str = ""

    def wanted(self, found: Mapping[str, Any]) -> Json:
        """The data source as it should be, where `found` is there. Raises SettingsError where neither has a URL."""
        url = self.url or found.get("url")
        if not url:
            raise SettingsError("the data source has no address of InfluxDB yet: give --grafana-influx-url")
        bucket = self.bucket or found.get("jsonData", {}).get("dbName") or _BUCKET
        return influxdb(url, bucket, self.authorization)


def push(client: Client, store: Store, overwrite: bool) -> Iterator[Step]:
    """Data source, folder, dashboards. Each step is yielded when it is done, so that a break shows how far it went."""
    yield from _alive(client)
    yield _put_datasource(client, store)
    yield _put_folder(client)
    for dashboard in DASHBOARDS.values():
        yield _put_dashboard(client, dashboard, overwrite)


def check(client: Client, store: Store) -> Iterator[Step]:
    """Whether everything is there as `push` leaves it, and whether the data source answers. Changes nothing."""
    yield from _alive(client)
    found = _find(client, f"/datasources/uid/{DATASOURCE_UID}")
    if found is None:
        yield Step("data source", "missing: run `opjoule grafana push`", problem=True)
    else:
        differs = _differences(found, store)
        yield Step("data source", differs or "as it should be", problem=bool(differs))
        yield _datasource_health(client)
    folder = _find(client, f"/folders/{FOLDER_UID}")
    yield Step(_folder_name(), "there" if folder else "missing: run `opjoule grafana push`", problem=folder is None)
    for dashboard in DASHBOARDS.values():
        yield _look_at(client, dashboard)


def fingerprint(dashboard: Json) -> str:
    """Names the content of a dashboard."""
    return hashlib.sha256(json.dumps(dashboard, sort_keys=True).encode()).hexdigest()[:16]


def _alive(client: Client) -> Iterator[Step]:
    health = _object(client.get("/health"), "/health")
    database = health.get("database", "unknown")
    if database != "ok":
        raise SettingsError(f"Grafana's own database is {database}: its operator must act")
    yield Step("Grafana", f"version {health.get('version', 'unknown')}")


def _put_datasource(client: Client, store: Store) -> Step:
    path = f"/datasources/uid/{DATASOURCE_UID}"
    found = _find(client, path)
    wanted = store.wanted(found or {})
    if found is None:
        client.post("/datasources", wanted)
        return Step("data source", "made")
    if found.get("readOnly"):
        differs = _differences(found, store)
        return Step("data source", f"is provisioned, left alone{f'; {differs}' if differs else ''}", bool(differs))
    differs = _differences(found, store)
    if not differs and not store.authorization:
        return Step("data source", "unchanged")
    if not store.authorization:  # the header's name must stay beside the secret that Grafana keeps
        wanted["jsonData"] = {**found.get("jsonData", {}), **wanted["jsonData"]}
    client.put(path, {**wanted, **({"version": found["version"]} if "version" in found else {})})
    return Step("data source", "brought up to date")


def _differences(found: Mapping[str, Any], store: Store) -> str:
    """What of the data source is not as it should be; empty where all is."""
    there, should = (
        {key: source.get(key) for key in _COMPARED} | {"bucket": source.get("jsonData", {}).get("dbName")}
        for source in (found, store.wanted(found))
    )
    return ", ".join(f"{key} is {there[key]!r}, not {should[key]!r}" for key in should if there[key] != should[key])


def _datasource_health(client: Client) -> Step:
    answer = _find(client, f"/datasources/uid/{DATASOURCE_UID}/health")
    if answer is None:
        return Step("InfluxDB through Grafana", "this Grafana has no health check for data sources")
    good = answer.get("status") == "OK"
    said = answer.get("message", "")
    return Step("InfluxDB through Grafana", said if good else f"{said}: check URL, bucket and token", problem=not good)


def _put_folder(client: Client) -> Step:
    if _find(client, f"/folders/{FOLDER_UID}") is not None:
        return Step(_folder_name(), "unchanged")
    try:
        client.post("/folders", {"uid": FOLDER_UID, "title": FOLDER_TITLE})
    except RefusedError as refused:
        if refused.status not in (409, 412):  # another push made it in between
            raise
        return Step(_folder_name(), "unchanged")
    return Step(_folder_name(), "made")


def _put_dashboard(client: Client, dashboard: Json, overwrite: bool) -> Step:
    name, mark = _name(dashboard), f"{OURS} {fingerprint(dashboard)}"
    found = _find(client, f"/dashboards/uid/{dashboard['uid']}")
    if found is not None and found.get("meta", {}).get("provisioned"):
        return Step(name, "is provisioned from files: change those, Grafana refuses to save it", problem=True)
    last = _last_message(client, dashboard) if found is not None else ""
    if last == mark:
        return Step(name, "unchanged")
    if found is not None and not last.startswith(OURS) and not overwrite:
        return Step(name, "edited by hand, left alone: save it under another name, or --overwrite", problem=True)
    body = {"dashboard": {**dashboard, "id": None}, "folderUid": FOLDER_UID, "overwrite": True, "message": mark}
    try:
        client.post("/dashboards/db", body)
    except RefusedError as refused:
        if "provisioned" not in refused.message:
            raise
        return Step(name, "is provisioned from files: change those, Grafana refuses to save it", problem=True)
    return Step(name, "made" if found is None else "brought up to date")


def _look_at(client: Client, dashboard: Json) -> Step:
    name = _name(dashboard)
    found = _find(client, f"/dashboards/uid/{dashboard['uid']}")
    if found is None:
        return Step(name, "missing: run `opjoule grafana push`", problem=True)
    if found.get("meta", {}).get("provisioned"):
        return Step(name, "provisioned from files")
    last = _last_message(client, dashboard)
    if last == f"{OURS} {fingerprint(dashboard)}":
        return Step(name, "as it should be")
    what = "of another version of opjoule: run `opjoule grafana push`" if last.startswith(OURS) else "edited by hand"
    return Step(name, what, problem=True)


def _last_message(client: Client, dashboard: Json) -> str:
    """With what message the dashboard was last saved; Grafana 11 and newer wrap the list."""
    answer = client.find(f"/dashboards/uid/{dashboard['uid']}/versions?limit=1")
    versions: Sequence[Mapping[str, Any]] = answer.get("versions", []) if isinstance(answer, dict) else answer or []
    return str(versions[0].get("message", "")) if versions else ""


def _find(client: Client, path: str) -> Mapping[str, Any] | None:
    """The object there, None for 404. Raises UnreachableError for what is no object."""
    answer = client.find(path)
    return None if answer is None else _object(answer, path)


def _object(answer: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(answer, dict):
        raise UnreachableError(f"the answer to GET /api{path} is not Grafana's: JSON, but no object")
    return answer


def _name(dashboard: Json) -> str:
    return f"dashboard {dashboard['title']!r}"


def _folder_name() -> str:
    return f"folder {FOLDER_TITLE!r}"
