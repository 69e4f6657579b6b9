"""The store at the other end of `/api/v2/write`; the only module that knows influxdb_client.

Its batching mode is not used: it loses points at exit and when the server is down. A write is one request, gzipped,
with a time-out, and its answer is classified; whether and when to try again is the sender's business.
"""

import math
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from json import JSONDecodeError, loads
from time import time

from influxdb_client import InfluxDBClient, WritePrecision
from influxdb_client import Point as ClientPoint
from influxdb_client.rest import ApiException
from influxdb_client.service.write_service import WriteService
from urllib3.exceptions import HTTPError

from aggregator.settings import InfluxSettings
from aggregator.sinks.points import Field, Point
from aggregator.sinks.sender import Answer
from errors import ContractError

REASON_CHARACTERS = 300
LONGEST_WAIT_S = 3600.0
_OPERATOR = {
    401: "the operator must give a valid token (--influx-token-file)",
    403: "the operator must give a token that may write to bucket {bucket} (--influx-token-file)",
    404: "the operator must make bucket {bucket} in organisation {org}, or correct --influx-bucket, -org or -url",
}
STORED = 204
"""The one answer of all InfluxDB to a write that they have taken; other servers say 200 to anything."""
NO_POLICY = "retention policy not found"
_BAD_LINES = (400, 413, 422)


def line(point: Point) -> str:
    """A point as line protocol, times in ns. Raises ContractError where it has no field or one that is not finite."""
    made = ClientPoint(point.measurement)
    for tag, text in sorted(point.tags.items()):
        made.tag(tag, text)
    for name, value in sorted(point.fields.items()):
        made.field(name, _usable(point.measurement, name, value))
    made.time(point.t_ns, WritePrecision.NS)
    made_line: str = made.to_line_protocol()
    if not made_line:
        raise ContractError(f"{point.measurement}: a point without fields")
    return made_line


def _usable(measurement: str, name: str, value: Field) -> Field:
    """The value; a string on one line, a number as a float."""
    if isinstance(value, str):
        return " ".join(value.splitlines())
    if not math.isfinite(value):
        raise ContractError(f"{measurement}: {name} is {value}")
    return float(value)


class InfluxStore:
    """One server. Its token is read at once; raises SettingsError where the file is missing or empty."""

    def __init__(self, settings: InfluxSettings) -> None:
        self._org, self._bucket, self._url = settings.influx_org, settings.influx_bucket, settings.influx_url or ""
        self._client = InfluxDBClient(
            url=self._url,
            token=settings.influx_token(),
            org=self._org,
            timeout=round(1000 * settings.influx_timeout_s),
            enable_gzip=True,
        )
        self._service = WriteService(self._client.api_client)

    def close(self) -> None:
        """Give up the connection."""
        self._client.close()

    def write(self, lines: Sequence[str]) -> Answer:
        """Write lines in one request; what the server says to it."""
        try:
            status = self._post("\n".join(lines).encode())
        except ApiException as error:
            return self._answer(error)
        except (HTTPError, OSError, UnicodeError) as error:
            return Answer("later", f"InfluxDB at {self._url} does not answer: {_short(str(error))}")
        if status != STORED:
            text = (
                f"{self._url} answers {status} to a write and no InfluxDB does; the operator must correct --influx-url"
            )
            return Answer("operator", text)
        return Answer("stored")

    def _post(self, body: bytes) -> int:
        """The status of a write."""
        reply: tuple[object, int, object] = self._service.post_write_with_http_info(
            self._org,
            self._bucket,
            body,
            precision=WritePrecision.NS,
            content_type="text/plain; charset=utf-8",
            urlopen_kw={"redirect": False},  # the token is for this host
        )
        return reply[1]

    def _answer(self, error: ApiException) -> Answer:
        status = int(error.status or 0)
        reason = _reason(error)
        text = f"InfluxDB at {self._url} answers {status}: {reason}"
        if status == 413 or (status in _BAD_LINES and _said(error) is not None):
            return Answer("refused", f"{status}: {reason}")
        if status == 0:  # TLS; the client knows no other cause
            return Answer("operator", f"InfluxDB at {self._url}: {reason}; the operator must see to its certificate")
        if NO_POLICY in reason:  # InfluxDB 1.x, with status 500
            return Answer("operator", f"{text}; {self._policy_missing()}")
        if status == 429 or status >= 500:
            return Answer("later", text, retry_after_s=_retry_after_s(error))
        what = _OPERATOR.get(status, "the operator must correct --influx-url")
        return Answer("operator", f"{text}; {what.format(bucket=self._bucket, org=self._org)}")

    def _policy_missing(self) -> str:
        database, _, policy = self._bucket.partition("/")
        what = f"retention policy {policy}" if policy else "a default retention policy"
        return f"the operator must make {what} in database {database}, or correct --influx-bucket"


def _said(error: ApiException) -> dict[str, object] | None:
    """The JSON of an answer; None where no InfluxDB speaks: a proxy's 400 is not about lines."""
    try:
        said = loads(error.body or "")
    except JSONDecodeError:
        return None
    return said if isinstance(said, dict) else None


def _reason(error: ApiException) -> str:
    """The server's own words: `message` in InfluxDB 2, `error` in 1.8 and 3."""
    said = _said(error) or {}
    return _short(str(said.get("message") or said.get("error") or error.body or error.reason or "no reason given"))


def _short(text: str) -> str:
    return " ".join(text.split())[:REASON_CHARACTERS]


def _retry_after_s(error: ApiException) -> float | None:
    """Seconds, or an HTTP date (RFC 9110, 10.2.3)."""
    given = (error.headers or {}).get("Retry-After")
    if given is None:
        return None
    try:
        wait_s = float(given)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(given).timestamp() - time()
        except ValueError:
            return None
    return min(max(wait_s, 0.0), LONGEST_WAIT_S) if math.isfinite(wait_s) else None
