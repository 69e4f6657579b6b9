"""What goes wrong with a Grafana is one line that says who must act, and nothing that was done is lost."""

import socket
from pathlib import Path

import pytest

from opjoule.__main__ import main
from tests.opjoule.grafana_calls import FIRST_PUSH, UIDS, opjoule_grafana
from tests.opjoule.grafana_server import GrafanaServer


@pytest.mark.parametrize(
    ("path", "status", "line"),
    [
        ("/api/datasources/uid/opjoule-influxdb", 401, "Grafana does not know this token: the operator must give a"),
        (
            "/api/datasources/uid/opjoule-influxdb",
            403,
            "this token may not do that: the operator must give it the role",
        ),
        ("/api/folders/opjoule", 403, "GET /api/folders/opjoule: what the server says"),
        ("/api/dashboards/uid/opjoule-live", 400, "Grafana answers 400 to GET /api/dashboards/uid/opjoule-live: what"),
        ("/api/dashboards/uid/opjoule-live", 502, "answers 502 to GET /api/dashboards/uid/opjoule-live: what"),
    ],
)
def test_what_grafana_refuses_is_one_line_that_says_who_must_act(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str], path: str, status: int, line: str
) -> None:
    grafana.answers["GET", path] = (status, {"message": "what the server says"})
    assert opjoule_grafana(grafana, grafana_token) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("opjoule grafana: ") and line in said


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ((200, {"Content-Type": "text/html"}, b"<html>Log in</html>"), "answers with no JSON: that is not Grafana"),
        (
            (502, {"Content-Type": "text/html"}, b"<html>Bad gateway</html>"),
            "answers 502 to GET /api/health: no reason",
        ),
        (
            (302, {"Location": "https://grafana.test/"}, b""),
            "leads elsewhere: give the address at which Grafana itself",
        ),
        ((404, {"Content-Type": "application/json"}, b"null"), "answers with an error that is not Grafana's"),
        ((200, {}, b""), "answers with no JSON"),
        ((200, {}, b"[]"), "the answer to GET /api/health is not Grafana's"),
        ((200, {}, b"null"), "the answer to GET /api/health is not Grafana's"),
        ((200, {}, b'{"database": "failing", "version": "12"}'), "Grafana's own database is failing"),
    ],
)
def test_an_answer_that_is_not_grafanas_is_one_line(
    grafana: GrafanaServer,
    grafana_token: Path,
    capsys: pytest.CaptureFixture[str],
    raw: tuple[int, dict[str, str], bytes],
    line: str,
) -> None:
    grafana.raw = raw
    assert opjoule_grafana(grafana, grafana_token) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert line in said
    assert len(grafana.requests) == 1


@pytest.mark.parametrize("path", ["/api/datasources/uid/opjoule-influxdb", "/api/dashboards/uid/opjoule-live"])
def test_a_list_in_place_of_an_object_is_one_line_too(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    grafana.answers["GET", path] = (200, [])
    assert opjoule_grafana(grafana, grafana_token) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"the answer to GET {path} is not Grafana's" in said


@pytest.mark.parametrize("requests", range(1, len(FIRST_PUSH)))
def test_a_grafana_that_goes_away_in_mid_push_is_finished_by_the_next_push(
    grafana: GrafanaServer, grafana_token: Path, capsys: pytest.CaptureFixture[str], requests: int
) -> None:
    grafana.goes_away_after = requests
    assert opjoule_grafana(grafana, grafana_token) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert "it is not there, or went away; the steps above are done and stay: run `opjoule grafana push` again" in line
    done = [step for step in said.out.splitlines() if step.endswith(": made")]
    grafana.goes_away_after = None
    assert opjoule_grafana(grafana, grafana_token) == 0
    again = [step for step in capsys.readouterr().out.splitlines() if step.endswith(": made")]
    assert len(done) + len(again) == 2 + len(UIDS)
    assert all(len(saved) == 1 for saved in grafana.dashboards.values())


def test_a_grafana_that_is_not_there_is_one_line(grafana_token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        assert main(["grafana", "push", "--grafana-url", url, "--grafana-token-file", str(grafana_token)]) == 2
    assert (
        capsys.readouterr().err == f"opjoule grafana: no answer from Grafana at {url}: it is not there, or went away\n"
    )


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ([], "give either --grafana-token-file, or --grafana-user and --grafana-password-file"),
        (["--grafana-user", "ada"], "give either --grafana-token-file, or"),
        (["--grafana-token-file", "TOKEN", "--grafana-user", "ada"], "give either --grafana-token-file, or"),
        (["--grafana-token-file", "none"], "Grafana token file none cannot be read: No such file or directory"),
        (["--grafana-token-file", "EMPTY"], "is empty"),
        (["--grafana-token-file", "ODD"], "holds characters that no header can carry"),
        (["--grafana-token-file", "TOKEN", "--grafana-url", "grafana:3000"], "is no address of Grafana"),
        (["--grafana-token-file", "TOKEN", "--grafana-url", "http://h:port"], "is no address: "),
        (["--grafana-token-file", "TOKEN", "--grafana-url", "http://ada:pw@h"], "holds no user, password or query"),
    ],
)
def test_a_wrong_setting_is_one_line(
    grafana_token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], line: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "odd").write_text("tökén\n")
    files = {"TOKEN": grafana_token, "EMPTY": tmp_path / "empty", "ODD": tmp_path / "odd"}
    assert main(["grafana", "push", *(str(files.get(flag, flag)) for flag in flags)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert line in said
