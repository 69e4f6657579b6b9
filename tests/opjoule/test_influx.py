"""`opjoule influx check` against InfluxDB 1.6 (real), 1.8 (shim before the real one), 2.x and 3 Core.

Of 2.x and 3 Core no server can be had here: `Documented` answers as their documented APIs do (`/health`, `/ping`,
`/api/v2/write`, `/api/v2/buckets`, `/api/v2/dbrps`), and no more than what the check asks is in it.
"""

import argparse
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aggregator.settings import InfluxSettings
from errors import SettingsError
from opjoule import influx
from opjoule.influx import CommandSettings, Finding, check, resend
from opjoule.influx_api import Api, Server
from tests.aggregator.conftest import Lab, lab, make_lab
from tests.aggregator.sinks.conftest import StoreLab, _engine, influxd, make_store_lab, shim, store_lab
from tests.aggregator.sinks.trains import good_result
from tests.aggregator.trains import SECOND, T0
from tests.influxd import Fault, Influxd, Shim

__all__ = ["_engine", "influxd", "lab", "make_lab", "make_store_lab", "shim", "store_lab"]
"""Fixtures of the aggregator's tests."""

DAY_S = 86_400
Reply = tuple[int, dict[str, str], object]
Replies = dict[str, Reply]
V2_HEALTH = {"name": "influxdb", "message": "ready for queries and writes", "status": "pass", "version": "v2.7.12"}
BUCKETS = {"buckets": [{"id": "b1", "name": "opjoule", "retentionRules": []}]}
DBRPS = {
    "content": [
        {"id": "1", "database": "opjoule", "retention_policy": "autogen", "bucketID": "b1", "default": True},
        {"id": "2", "database": "other", "retention_policy": "autogen", "bucketID": "b2", "default": True},
    ]
}
V2: Replies = {
    "/health": (200, {}, V2_HEALTH),
    "/api/v2/write": (400, {}, {"code": "invalid", "message": "writing requires points"}),
    "/api/v2/buckets": (200, {}, BUCKETS),
    "/api/v2/dbrps": (200, {}, DBRPS),
}
"""An InfluxDB 2.7 where all is well, for an all-seeing token."""


class Documented:
    """A server that answers each path with one documented reply, and 404 elsewhere."""

    def __init__(self, replies: Replies) -> None:
        self.replies = replies
        self.tokens: set[str] = set()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.tokens.add(self.headers.get("Authorization", ""))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                nothing: Reply = (404, {}, "404 page not found")
                status, headers, said = owner.replies.get(self.path.partition("?")[0], nothing)
                body = said.encode() if isinstance(said, str) else json.dumps(said).encode()
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def serve() -> Iterator[Callable[[Replies], Documented]]:
    """Starts documented servers; they are stopped at the end."""
    servers: list[Documented] = []

    def start(replies: Replies) -> Documented:
        servers.append(Documented(replies))
        return servers[-1]

    yield start
    for each in servers:
        each.server.shutdown()
        each.server.server_close()


Serve = Callable[[Replies], Documented]


def _settings(url: str, **settings: object) -> CommandSettings:
    return CommandSettings.model_validate({"influx_url": url, "influx_timeout_s": 5} | settings)


def _levels(findings: list[Finding]) -> dict[str, str]:
    return {finding.subject: finding.level for finding in findings}


def _text(findings: list[Finding], subject: str) -> str:
    return next(finding.text for finding in findings if finding.subject == subject)


# --- InfluxDB 2.x, documented ------------------------------------------------------------------------------------


def test_an_influxdb_2_where_all_is_well_gets_five_times_ok(serve: Serve, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t\n")
    server = serve(V2)
    found = check(_settings(server.url, influx_token_file=token), T0, T0 + 400 * DAY_S * SECOND)
    assert _levels(found) == dict.fromkeys(("URL", "token", "bucket", "retention", "InfluxQL"), "ok")
    assert server.tokens == {"Token t"}
    assert str(found[0]).split() == ["ok", "URL", server.url, "is", "InfluxDB", "2.7.12"]


@pytest.mark.parametrize("to", ["{other}", "http://[::1", "//h:99999"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_token_goes_to_no_other_host_than_the_one_that_was_given(
    serve: Serve, tmp_path: Path, status: int, to: str
) -> None:
    token = tmp_path / "token"
    token.write_text("t\n")
    other = serve(V2)
    away: Replies = {path: (status, {"Location": to.format(other=other.url) + path}, "") for path in (*V2, "/ping")}
    found = check(_settings(serve(away).url, influx_token_file=token), None, T0)
    assert other.tokens == set()
    assert f"answers {status}" in _text(found, "token") and "correct --influx-url" in _text(found, "token")


def test_a_server_that_answers_anything_is_no_store(serve: Serve) -> None:
    anything: Replies = dict.fromkeys(V2, (200, {}, {}))
    found = check(_settings(serve(anything).url), None, T0)
    assert _levels(found) == {"URL": "warning", "token": "error"}


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_token_that_may_not_write_ends_the_check_with_who_must_act(serve: Serve, status: int) -> None:
    refusal: Reply = (status, {}, {"code": "unauthorized", "message": "unauthorized access"})
    found = check(_settings(serve(V2 | {"/api/v2/write": refusal}).url), None, T0)
    assert _levels(found) == {"URL": "ok", "token": "error"}
    assert f"answers {status}: unauthorized access; the operator must" in _text(found, "token")


def test_a_write_only_token_cannot_show_retention_and_mapping(serve: Serve) -> None:
    hidden: Replies = {
        "/api/v2/buckets": (200, {}, {"buckets": []}),
        "/api/v2/dbrps": (401, {}, {"code": "unauthorized"}),
    }
    found = check(_settings(serve(V2 | hidden).url), None, T0)
    assert _levels(found) == {"URL": "ok", "token": "ok", "bucket": "unknown", "InfluxQL": "unknown"}
    assert "run this with one that may read" in _text(found, "bucket")


@pytest.mark.parametrize(
    ("days", "oldest_days", "level", "says"),
    [
        (0, 1000, "ok", "for ever"),
        (1000, 900, "ok", "1e+03 days"),
        (800, 900, "error", "the oldest result in the journal is 900 days old"),
        (30, 20, "warning", "less than a year"),
    ],
)
def test_a_retention_shorter_than_the_data_is_an_error_and_one_shorter_than_a_year_a_warning(
    serve: Serve, days: int, oldest_days: int, level: str, says: str
) -> None:
    rules = [{"type": "expire", "everySeconds": days * DAY_S}]
    buckets = {"buckets": [{"id": "b1", "name": "opjoule", "retentionRules": rules}]}
    server = serve(V2 | {"/api/v2/buckets": (200, {}, buckets)})
    found = check(_settings(server.url), T0, T0 + oldest_days * DAY_S * SECOND)
    assert _levels(found)["retention"] == level and says in _text(found, "retention")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "no database opjoule for the panels"),
        ([DBRPS["content"][0] | {"bucketID": "old"}], "database opjoule leads to another bucket"),
    ],
)
def test_a_mapping_that_is_missing_or_wrong_is_an_error_with_the_command(
    serve: Serve, content: list[dict[str, object]], says: str
) -> None:
    found = check(_settings(serve(V2 | {"/api/v2/dbrps": (200, {}, {"content": content})}).url), None, T0)
    assert _levels(found)["InfluxQL"] == "error"
    assert says in _text(found, "InfluxQL")
    assert "influx v1 dbrp create --db opjoule --rp autogen --default --bucket-id b1" in _text(found, "InfluxQL")


# --- InfluxDB 3 Core and others, documented ----------------------------------------------------------------------


def test_influxdb_3_core_is_known_by_its_ping_and_read_by_its_name(serve: Serve) -> None:
    core: Replies = {
        "/health": (200, {}, "OK"),
        "/ping": (200, {"X-Influxdb-Version": "3.4.0"}, {"version": "3.4.0", "revision": "x"}),
        "/api/v2/write": (400, {}, {"error": "no lines"}),
    }
    found = check(_settings(serve(core).url), None, T0)
    assert _levels(found) == {"URL": "ok", "token": "ok", "retention": "unknown", "InfluxQL": "ok"}
    assert "InfluxDB 3.4.0" in _text(found, "URL")


def test_what_does_not_say_that_it_is_influxdb_is_a_store_for_writing_only(serve: Serve) -> None:
    other: Replies = {"/health": (200, {}, "OK"), "/ping": (204, {}, ""), "/api/v2/write": (204, {}, "")}
    found = check(_settings(serve(other).url), None, T0)
    assert _levels(found) == {"URL": "warning", "token": "ok", "retention": "unknown", "InfluxQL": "warning"}
    assert "VictoriaMetrics" in _text(found, "URL")


def test_nothing_that_answers_is_one_line(serve: Serve) -> None:
    server = serve({})
    server.server.shutdown()
    server.server.server_close()
    (finding,) = check(_settings(server.url), None, T0)
    assert finding.level == "error"
    assert "the operator must start it or correct --influx-url" in finding.text and "\n" not in finding.text


def test_what_speaks_no_http_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with server.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-x\r\n")

        threading.Thread(target=greet, daemon=True).start()
        (finding,) = check(_settings(f"http://127.0.0.1:{server.getsockname()[1]}"), None, T0)
    assert finding.level == "error"
    assert "no HTTP" in finding.text and "correct --influx-url" in finding.text and "\n" not in finding.text


@pytest.mark.parametrize(("said", "version"), [("v2.7.5", (2, 7, 5)), ("2.0.0-rc.1", (2, 0, 0)), ("1.8", (1, 8))])
def test_versions_are_read_with_and_without_a_v(serve: Serve, said: str, version: tuple[int, ...]) -> None:
    server = serve({"/health": (200, {}, V2_HEALTH | {"version": said})})
    assert Api(server.url, "", 5).server() == Server("InfluxDB", version)


# --- the real engine ---------------------------------------------------------------------------------------------


@pytest.mark.influxd
def test_an_influxdb_that_is_too_old_is_an_error(influxd: Influxd) -> None:
    (finding,) = check(_settings(influxd.url), None, T0)
    assert finding.level == "error" and "InfluxDB 1.6" in finding.text and "1.8 or later" in finding.text


@pytest.mark.influxd
def test_an_influxdb_1_8_tells_its_retention_by_influxql(influxd: Influxd, shim: Shim) -> None:
    influxd.create("short", "30d")
    whole = check(_settings(shim.url), T0, T0)
    assert _levels(whole) == dict.fromkeys(("URL", "token", "bucket", "retention", "InfluxQL"), "ok")
    short = check(_settings(shim.url, influx_bucket="short/autogen"), T0, T0 + 60 * DAY_S * SECOND)
    assert _levels(short)["retention"] == "error"
    assert "30 days and the oldest result in the journal is 60 days old" in _text(short, "retention")
    missing = check(_settings(shim.url, influx_bucket="none"), T0, T0)
    assert _levels(missing) == {"URL": "ok", "token": "error"} and "make bucket none" in _text(missing, "token")


@pytest.mark.influxd
def test_the_check_writes_nothing(influxd: Influxd, shim: Shim) -> None:
    check(_settings(shim.url), None, T0)
    assert influxd.query("SHOW MEASUREMENTS") == []


@pytest.mark.influxd
def test_a_server_with_a_fault_is_an_error(shim: Shim) -> None:
    shim.fault = Fault(503)
    found = check(_settings(shim.url), None, T0)
    assert _levels(found) == {"URL": "ok", "token": "error"}


# --- the command -------------------------------------------------------------------------------------------------


def _run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    influx.add_arguments(parser)
    return influx.run(parser.parse_args(arguments))


def test_the_exit_status_says_whether_somebody_must_act(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(dict(V2))
    monkeypatch.setenv("OPJOULE_INFLUX_URL", server.url)
    assert _run("check", "--state-dir", str(tmp_path)) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    server.replies.pop("/api/v2/write")
    assert _run("check", "--state-dir", str(tmp_path)) == 1
    assert "error" in capsys.readouterr().out


def test_a_check_without_an_address_says_what_must_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPJOULE_INFLUX_URL", raising=False)
    with pytest.raises(SettingsError, match=r"--influx-url .OPJOULE_INFLUX_URL. must be given"):
        _run("check", "--state-dir", str(tmp_path))
    with pytest.raises(SettingsError, match="must begin with http"):
        _run("check", "--influx-url", "influx:8086", "--state-dir", str(tmp_path))


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://h:99999",
        "http://h:0",
        "http://h:port",
        "http://",
        "http://:8086",
        "http://a..b",
        "http://h h",
        "http://h?x=1",
        "http://h#x",
    ],
)
def test_an_address_that_no_server_can_have_is_said_in_one_line(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="--influx-url") as said:
        _run("check", "--influx-url", url, "--state-dir", str(tmp_path))
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("url", ["http://[::1]:8086", "https://hub.local", "http://10.0.0.1:1/influx"])
def test_an_address_that_a_server_can_have_is_taken(url: str) -> None:
    assert _settings(f"{url}/").influx_url == url


def test_the_age_of_the_data_comes_from_the_journal(
    serve: Serve, lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good_result(lab)
    monkeypatch.setattr(time, "time_ns", lambda: T0 + 2 * DAY_S * SECOND)
    assert lab.journal.results.oldest_ns() == T0
    rules = [{"type": "expire", "everySeconds": DAY_S}]
    server = serve(
        V2 | {"/api/v2/buckets": (200, {}, {"buckets": [BUCKETS["buckets"][0] | {"retentionRules": rules}]})}
    )
    assert _run("check", "--influx-url", server.url, "--journal", str(lab.settings.journal_path)) == 1
    assert "points are kept 1 days and the oldest result in the journal is 2 days old" in capsys.readouterr().out


def test_resend_has_every_result_sent_again(store_lab: StoreLab) -> None:
    good_result(store_lab)
    once = store_lab.lines("energy")
    with pytest.raises(SettingsError, match="in use by process"):
        resend(store_lab.settings.journal_path)
    store_lab.kill()
    assert "sends the last revisions" in resend(store_lab.settings.journal_path)
    store_lab.start()
    assert store_lab.lines("energy") == once * 2


def test_resend_without_a_journal_makes_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no journal"):
        resend(tmp_path / "journal.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_the_command_has_the_settings_of_the_aggregator() -> None:
    assert set(InfluxSettings.model_fields) < set(CommandSettings.model_fields)
