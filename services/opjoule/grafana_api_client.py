"""The only door to Grafana's HTTP API: grafana-api's connection, with paths of our own. Replaceable in this one file.

grafana-api is archived. Of it only the connection (address, authorisation, time-out) is used: its methods quote no
names, know no `dashboardUID` and use numeric ids, which Grafana 13 switches off. Every path here goes by uid.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from grafana_api.grafana_api import GrafanaClientError, GrafanaException  # type: ignore[import-untyped]
from grafana_api.grafana_face import GrafanaFace  # type: ignore[import-untyped]

from errors import SettingsError
from opjoule.grafana_push import RefusedError, UnreachableError

Auth = str | tuple[str, str]
"""A service account's token, or user and password."""
TIMEOUT_S = 10.0

_WHO_ACTS = {
    401: "Grafana does not know this {what}: the operator must give a valid one",
    403: "this {what} may not do that: the operator must give it the role Editor (Admin for the data source)",
}


class GrafanaClient:
    """Requests below `URL/api`. Raises the errors of grafana_push."""

    def __init__(self, url: str, auth: Auth, ca_file: Path | None = None) -> None:
        self._url = url
        self._what = "token" if isinstance(auth, str) else "user and password"
        protocol, host, port, prefix = _parts(url)
        face = GrafanaFace(
            auth,
            host=host,
            port=port,
            url_path_prefix=prefix,
            protocol=protocol,
            verify=str(ca_file) if ca_file else True,
            timeout=TIMEOUT_S,
        )
        self._api = face.api
        self._api.s.max_redirects = 0  # a redirected POST would arrive as a GET

    def get(self, path: str) -> Any:
        """The answer to GET."""
        return self._ask("GET", path)

    def find(self, path: str) -> Any | None:
        """The answer to GET; None where there is no such thing."""
        try:
            return self.get(path)
        except RefusedError as refused:
            if refused.status != 404:
                raise
            return None

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The answer to POST."""
        return self._ask("POST", path, body)

    def put(self, path: str, body: dict[str, Any]) -> Any:
        """The answer to PUT."""
        return self._ask("PUT", path, body)

    def close(self) -> None:
        """Give the connection back."""
        self._api.s.close()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        try:
            return getattr(self._api, method)(path, json=body)
        except GrafanaException as error:
            raise self._refused(error, f"{method} /api{path.partition('?')[0]}") from None
        except requests.exceptions.TooManyRedirects:
            raise UnreachableError(
                f"{self._url} leads elsewhere: give the address at which Grafana itself answers"
            ) from None
        except requests.exceptions.JSONDecodeError:
            raise UnreachableError(
                f"{self._url} answers with no JSON: that is not Grafana, or a proxy before it"
            ) from None
        except TypeError:  # grafana-api looks for a message in an error whose body is no object
            raise UnreachableError(f"{self._url} answers with an error that is not Grafana's") from None
        except (requests.exceptions.SSLError, OSError) as error:  # requests' other errors are OSErrors
            raise UnreachableError(f"no answer from Grafana at {self._url}: {_reason(error)}") from None

    def _refused(self, error: GrafanaException, asked: str) -> SettingsError:
        response = error.response
        message = str(response.get("message", "")) if isinstance(response, dict) else ""
        if not isinstance(error, GrafanaClientError):
            return UnreachableError(
                f"Grafana at {self._url} answers {error.status_code} to {asked}: {message or 'no reason'}"
            )
        who = _WHO_ACTS.get(error.status_code, "").format(what=self._what)
        line = f"{who} ({asked}: {message})" if who else f"Grafana answers {error.status_code} to {asked}: {message}"
        return RefusedError(line, error.status_code, message)


def _parts(url: str) -> tuple[str, str, int | None, str]:
    """Protocol, host, port and path prefix of the address of Grafana. Raises SettingsError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"{url} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{url} is no address of Grafana: http://HOST[:PORT][/PREFIX] or https://...")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError("the address of Grafana holds no user, password or query: give them by their own settings")
    prefix = parts.path.strip("/")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, host, port, f"{prefix}/" if prefix else ""


def _reason(error: OSError) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted (--grafana-ca-file names who signed it)"
    if isinstance(error, requests.exceptions.Timeout):
        return f"nothing within {TIMEOUT_S:g} s"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "it is not there, or went away"
    return str(error)
