"""InfluxDB 2.x by its HTTP API: set up once, then tokens that may do one thing each.

The `influxdb` image's own init variables act on an empty volume only, and their token may do everything: here that one
stays in the set-up's own volume.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from errors import SettingsError

TIMEOUT_S = 10.0
ADMIN = "opjoule"
DESCRIPTIONS = {"write": "opjoule aggregator: writes", "read": "opjoule Grafana: reads"}


@dataclass(frozen=True)
class Store:
    """One server, and what is wanted of it."""

    url: str
    org: str
    bucket: str
    admin_token: str
    admin_password: str

    def call(self, method: str, path: str, token: str = "", body: object = None) -> tuple[int, dict[str, Any]]:
        """Status and answer. Raises SettingsError where there is no InfluxDB."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Token {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url.rstrip('/')}{path}", data, headers, method=method)
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, _parsed(answer.read())
        except HTTPError as error:
            with error:
                return error.code, _parsed(error.read())
        except (URLError, OSError) as error:
            raise SettingsError(f"InfluxDB at {self.url} does not answer: {error}") from None

    def must(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """The answer to a call that an administrator makes. Raises SettingsError where it fails."""
        status, answer = self.call(method, path, self.admin_token, body)
        if not 200 <= status < 300:
            said = answer.get("message") or answer.get("code") or "no reason given"
            raise SettingsError(f"InfluxDB at {self.url} answers {status} to {method} {path.partition('?')[0]}: {said}")
        return answer


def make_tokens(
    store: Store, files: Mapping[str, Path], write: Callable[[Path, bytes], None], renew: bool
) -> Iterator[str]:
    """Everything that is wanted, made where it is missing; lines that say what was made. Raises SettingsError."""
    yield from _set_up(store)
    org = _the(store, "orgs", {"org": store.org}, "organisation", store.org)
    bucket = _the(store, "buckets", {"name": store.bucket, "orgID": org}, "bucket", store.bucket)
    for action, file in files.items():
        token = file.read_text("utf-8").strip() if file.is_file() else ""
        if token and not renew and store.call("GET", "/api/v2/buckets?limit=1", token)[0] == 200:
            continue
        stale = list(_ids_of(store, org, DESCRIPTIONS[action]))
        write(file, _new_token(store, action, org, bucket).encode())
        for each in stale:
            store.must("DELETE", f"/api/v2/authorizations/{each}")
        yield f"new token: {DESCRIPTIONS[action]}; restart its user if it runs"


def _set_up(store: Store) -> Iterator[str]:
    """Organisation, bucket and administrator of a server that has none yet; the bucket keeps everything for ever."""
    if store.call("GET", "/api/v2/setup")[1].get("allowed"):
        wanted = {
            "username": ADMIN,
            "password": store.admin_password,
            "org": store.org,
            "bucket": store.bucket,
            "retentionPeriodSeconds": 0,
            "token": store.admin_token,
        }
        store.must("POST", "/api/v2/setup", wanted)
        yield f"set up InfluxDB: organisation {store.org}, bucket {store.bucket}"
    elif store.call("GET", "/api/v2/buckets?limit=1", store.admin_token)[0] == 401:
        raise SettingsError(
            f"InfluxDB at {store.url} was set up by someone else: put its administrator's token into the volume "
            "`influxdb-admin` as influxdb_admin_token, or remove the volume `influxdb-data` with all that is in it"
        )


def _the(store: Store, kind: str, query: Mapping[str, str], what: str, name: str) -> str:
    """The id of the one organisation or bucket of that name."""
    status, answer = store.call("GET", f"/api/v2/{kind}?{urlencode(query)}", store.admin_token)
    found = answer.get(kind) or []
    if status == 404 or not found:
        raise SettingsError(f"InfluxDB at {store.url} has no {what} {name!r}: make it there, or correct its name")
    if status != 200:
        raise SettingsError(f"InfluxDB at {store.url} answers {status} when asked for {what} {name!r}")
    return str(found[0]["id"])


def _ids_of(store: Store, org: str, description: str) -> Iterator[str]:
    """Tokens made before under this name."""
    answer = store.must("GET", f"/api/v2/authorizations?{urlencode({'orgID': org})}")
    for each in answer.get("authorizations") or []:
        if each.get("description") == description:
            yield str(each["id"])


def _new_token(store: Store, action: str, org: str, bucket: str) -> str:
    resource = {"type": "buckets", "id": bucket, "orgID": org}
    wanted = {
        "description": DESCRIPTIONS[action],
        "orgID": org,
        "permissions": [{"action": action, "resource": resource}],
    }
    return str(store.must("POST", "/api/v2/authorizations", wanted)["token"])


def _parsed(content: bytes) -> dict[str, Any]:
    """A JSON object; empty for anything else, such as a proxy's page."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
