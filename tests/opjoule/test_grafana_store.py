"""`opjoule grafana` and the store that the data source leads to: it changes only where that is asked for."""

import shlex
from pathlib import Path

import pytest

from opjoule.__main__ import main
from tests.opjoule.grafana_calls import opjoule_grafana, without_store
from tests.opjoule.grafana_server import GrafanaServer

URL = "http://influxdb.example:8086"


def _documented(repository: Path, grafana: GrafanaServer, token: Path) -> list[list[str]]:
    """The commands of docs/install.md, on this server and with this token."""
    own = {"http://grafana.example:3000": grafana.url, "grafana.token": str(token), "reader.token": str(token)}
    lines = (repository / "docs/install.md").read_text("utf-8").splitlines()
    words = [shlex.split(line)[1:] for line in lines if line.startswith("opjoule grafana ")]
    return [[own.get(word, word) for word in each] for each in words]


def test_the_commands_of_the_installation_page_work_in_sequence_and_again(
    repository: Path, grafana: GrafanaServer, grafana_token: Path
) -> None:
    commands = _documented(repository, grafana, grafana_token)
    assert [each[1] for each in commands] == ["push", "check"]
    assert [main(each) for each in commands * 2] == [0, 0, 0, 0]
    assert grafana.datasources["opjoule-influxdb"]["url"] == URL


@pytest.mark.parametrize("with_token", [True, False])
def test_a_push_without_the_stores_address_keeps_address_and_bucket(
    grafana: GrafanaServer, grafana_token: Path, with_token: bool
) -> None:
    flags = ["--grafana-influx-url", URL, "--grafana-influx-bucket", "lab"]
    assert without_store(grafana, grafana_token, "push", *flags) == 0
    secret = ["--grafana-influx-token-file", str(grafana_token)] if with_token else []
    assert without_store(grafana, grafana_token, "push", *secret) == 0
    there = grafana.datasources["opjoule-influxdb"]
    assert (there["url"], there["jsonData"]["dbName"]) == (URL, "lab")
    assert without_store(grafana, grafana_token, "check") == 0
    assert any(request.method == "PUT" for request in grafana.requests) == with_token


def test_check_compares_what_is_given(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opjoule_grafana(grafana, grafana_token)
    assert without_store(grafana, grafana_token, "check", "--grafana-influx-bucket", "lab") == 1
    assert capsys.readouterr().err == "data source: bucket is 'opjoule', not 'lab'\n"


@pytest.mark.parametrize("found", [None, {"uid": "opjoule-influxdb", "type": "influxdb", "version": 1}])
def test_a_data_source_without_address_needs_one(
    grafana: GrafanaServer,
    grafana_token: Path,
    capsys: pytest.CaptureFixture[str],
    found: dict[str, object] | None,
) -> None:
    if found is not None:
        grafana.datasources["opjoule-influxdb"] = found
    assert without_store(grafana, grafana_token, "push") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "give --grafana-influx-url" in line
    assert all(request.method == "GET" for request in grafana.requests)
