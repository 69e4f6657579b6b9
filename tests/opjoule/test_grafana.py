"""`opjoule grafana push|check` against a server that answers as Grafana's documented API does, request by request."""

import base64
from pathlib import Path
from typing import Any

import pytest

from opjoule.__main__ import main
from opjoule.dashboards import DASHBOARDS
from opjoule.grafana_push import OURS, fingerprint
from tests.opjoule.grafana_calls import FIRST_PUSH, SECOND_PUSH, UIDS, opjoule_grafana
from tests.opjoule.grafana_server import GrafanaServer


def test_a_first_push_makes_data_source_folder_and_dashboards(
    grafana: GrafanaServer, grafana_token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "influx"
    secret.write_text("reads-only\n")
    assert opjoule_grafana(grafana, grafana_token, "push", "--grafana-influx-token-file", str(secret)) == 0
    assert {request.authorization for request in grafana.requests} == {"Bearer glsa_test"}
    made = {request.path: request.body for request in grafana.requests if request.method == "POST"}
    assert made["/api/datasources"] == {
        "uid": "opjoule-influxdb",
        "name": "opjoule InfluxDB",
        "type": "influxdb",
        "access": "proxy",
        "url": "http://influxdb:8086",
        "isDefault": False,
        "jsonData": {
            "dbName": "opjoule",
            "httpMode": "GET",
            "version": "InfluxQL",
            "httpHeaderName1": "Authorization",
        },
        "secureJsonData": {"httpHeaderValue1": "Token reads-only"},
    }
    assert made["/api/folders"] == {"uid": "opjoule", "title": "opjoule"}
    saved = [request.body for request in grafana.requests if request.path == "/api/dashboards/db"]
    assert saved == [
        {
            "dashboard": {**dashboard, "id": None},
            "folderUid": "opjoule",
            "overwrite": True,
            "message": f"{OURS} {fingerprint(dashboard)}",
        }
        for dashboard in DASHBOARDS.values()
    ]
    assert grafana.asked() == FIRST_PUSH
    said = capsys.readouterr()
    assert said.err == "" and said.out.splitlines()[:3] == [
        "Grafana: version 12.4.0",
        "data source: made",
        "folder 'opjoule': made",
    ]


@pytest.mark.parametrize("wraps_versions", [True, False])
def test_a_second_push_only_asks(grafana: GrafanaServer, grafana_token: Path, wraps_versions: bool) -> None:
    grafana.wraps_versions = wraps_versions
    assert opjoule_grafana(grafana, grafana_token) == 0
    grafana.asked()
    assert opjoule_grafana(grafana, grafana_token) == 0
    assert grafana.asked() == SECOND_PUSH


def test_user_and_password_are_taken_in_place_of_a_token(grafana: GrafanaServer, grafana_token: Path) -> None:
    flags = ["--grafana-user", "ada", "--grafana-password-file", str(grafana_token)]
    assert main(["grafana", "check", "--grafana-url", grafana.url, *flags]) == 1
    (sent,) = {request.authorization for request in grafana.requests}
    assert sent == f"Basic {base64.b64encode(b'ada:glsa_test').decode()}"


def test_a_grafana_below_a_path_is_asked_below_it(grafana: GrafanaServer, grafana_token: Path) -> None:
    grafana.prefix = "/monitoring/grafana"
    for url in (grafana.url, grafana.url + "/"):
        assert opjoule_grafana(grafana, grafana_token, "push", "--grafana-url", url) == 0
    assert grafana.asked() == FIRST_PUSH + SECOND_PUSH


def test_settings_come_from_the_environment_too(
    grafana: GrafanaServer, grafana_token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPJOULE_GRAFANA_URL", grafana.url)
    monkeypatch.setenv("OPJOULE_GRAFANA_TOKEN_FILE", str(grafana_token))
    monkeypatch.setenv("OPJOULE_GRAFANA_INFLUX_BUCKET", "lab/autogen")
    monkeypatch.setenv("OPJOULE_GRAFANA_INFLUX_URL", "http://hub:8086")
    assert main(["grafana", "push"]) == 0
    assert grafana.datasources["opjoule-influxdb"]["jsonData"]["dbName"] == "lab/autogen"


def test_a_changed_address_changes_the_data_source_and_keeps_its_secret(
    grafana: GrafanaServer, grafana_token: Path
) -> None:
    secret = ["--grafana-influx-token-file", str(grafana_token)]
    opjoule_grafana(grafana, grafana_token, "push", *secret)
    grafana.asked()
    assert opjoule_grafana(grafana, grafana_token, "push", "--grafana-influx-url", "http://hub:8086") == 0
    put = next(request for request in grafana.requests if request.method == "PUT")
    assert put.path == "/api/datasources/uid/opjoule-influxdb"
    assert "secureJsonData" not in put.body and put.body["jsonData"]["httpHeaderName1"] == "Authorization"
    assert (put.body["url"], put.body["version"]) == ("http://hub:8086", 1)


def test_a_provisioned_data_source_is_left_alone_and_compared(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opjoule_grafana(grafana, grafana_token)
    grafana.datasources["opjoule-influxdb"]["readOnly"] = True
    capsys.readouterr()
    assert opjoule_grafana(grafana, grafana_token) == 0
    assert "data source: is provisioned, left alone\n" in capsys.readouterr().out
    assert opjoule_grafana(grafana, grafana_token, "push", "--grafana-influx-url", "http://hub:8086") == 1
    assert "url is 'http://influxdb:8086', not 'http://hub:8086'" in capsys.readouterr().err


def _edit(grafana: GrafanaServer, uid: str, message: str = "moved a panel") -> None:
    last = grafana.dashboards[uid][-1]
    grafana.dashboards[uid].append({**last, "message": message})


def test_a_dashboard_edited_by_hand_is_kept_until_told_otherwise(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opjoule_grafana(grafana, grafana_token)
    _edit(grafana, "opjoule-energy")
    grafana.asked()
    assert opjoule_grafana(grafana, grafana_token) == 1
    assert grafana.asked() == SECOND_PUSH
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dashboard 'Energy per operation': edited by hand, left alone") and "--overwrite" in line
    assert opjoule_grafana(grafana, grafana_token, "push", "--overwrite") == 0
    assert [line for line in grafana.asked() if line.startswith("POST")] == ["POST /api/dashboards/db"]


def test_a_dashboard_of_an_older_opjoule_is_brought_up_to_date(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opjoule_grafana(grafana, grafana_token)
    _edit(grafana, "opjoule-live", f"{OURS} 0123456789abcdef")
    assert opjoule_grafana(grafana, grafana_token, "check") == 1
    assert "of another version of opjoule: run `opjoule grafana push`" in capsys.readouterr().err
    assert opjoule_grafana(grafana, grafana_token) == 0
    assert "dashboard 'Fleet live': brought up to date" in capsys.readouterr().out


@pytest.mark.parametrize("said_before", [True, False])
def test_a_provisioned_dashboard_is_named_and_the_others_go_on(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str], said_before: bool
) -> None:
    if said_before:
        opjoule_grafana(grafana, grafana_token)
    grafana.provisioned.add("opjoule-live")
    capsys.readouterr()
    assert opjoule_grafana(grafana, grafana_token) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "dashboard 'Fleet live': is provisioned from files: change those, Grafana refuses to save it"
    assert len(grafana.dashboards) == len(UIDS) - (not said_before)


def test_a_folder_that_another_push_made_in_between_is_no_error(grafana: GrafanaServer, grafana_token: Path) -> None:
    for status in (409, 412):
        grafana.answers["POST", "/api/folders"] = (status, {"message": "it has been changed by someone else"})
        assert opjoule_grafana(grafana, grafana_token) == 0


def test_check_changes_nothing_and_says_what_is_missing(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opjoule_grafana(grafana, grafana_token, "check") == 1
    assert all(line.startswith("GET ") for line in grafana.asked())
    assert len(capsys.readouterr().err.splitlines()) == 2 + len(UIDS)
    opjoule_grafana(grafana, grafana_token)
    capsys.readouterr()
    assert opjoule_grafana(grafana, grafana_token, "check") == 0
    said = capsys.readouterr()
    assert "InfluxDB through Grafana: datasource is working. 3 measurements found" in said.out
    grafana.provisioned.update(UIDS)
    assert opjoule_grafana(grafana, grafana_token, "check") == 0


@pytest.mark.parametrize(
    ("answer", "status", "line"),
    [
        ((200, {"status": "ERROR", "message": "unauthorized"}), 1, "unauthorized: check URL, bucket and token"),
        ((404, {"message": "no such route"}), 0, "this Grafana has no health check for data sources"),
    ],
)
def test_check_asks_the_data_source_whether_it_reaches_the_store(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str], answer: Any, status: int, line: str
) -> None:
    opjoule_grafana(grafana, grafana_token)
    capsys.readouterr()
    grafana.answers["GET", "/api/datasources/uid/opjoule-influxdb/health"] = answer
    assert opjoule_grafana(grafana, grafana_token, "check") == status
    said = capsys.readouterr()
    assert line in said.err + said.out
