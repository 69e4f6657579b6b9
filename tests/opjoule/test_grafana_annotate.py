"""`opjoule grafana annotate`: campaigns and trains of the journal, each once."""

import re
from pathlib import Path
from uuid import UUID

import pytest

from aggregator.clocks import Timeline
from aggregator.journal import Journal
from aggregator.result import MeterView, of_train
from opjoule.__main__ import main
from opjoule.grafana_annotations import of_run
from schemas import EnergyResult
from tests.aggregator.trains import SECOND, T0, event, segments, steps, trace
from tests.opjoule.grafana_server import GrafanaServer

RUN = "run 1 & more?"


def _result(number: int, run_id: str = RUN, meter: str = "m1", simulated: bool = True) -> EnergyResult:
    start_ns = T0 + number * 60 * SECOND
    parts = segments(6, start_ns=start_ns)
    train = event(parts, event_id=UUID(f"01890a5d-ac96-774b-bcce-{number:012x}"), run_id=run_id)
    power = trace(steps(parts, 2.0, 5.0), 9.1, start_ns=start_ns)
    model = "simulated" if simulated else "FNB58"
    view = MeterView(meter, model, "simulated" if simulated else "measured", Timeline("shared", None), power)
    return of_train(train, view, 1, "test")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal.sqlite"
    made = Journal(path)
    made.results.store([_result(1), _result(1, meter="m2"), _result(2), _result(3, "run-2", simulated=False)])
    made.close()
    return path


def _annotate(server: GrafanaServer, journal: Path, *flags: str) -> int:
    token = journal.with_name("token")
    token.write_text("glsa_test")
    words = ["grafana", "annotate", "--grafana-url", server.url, "--grafana-token-file", str(token)]
    return main([*words, "--journal", str(journal), *flags])


def test_every_campaign_becomes_one_annotation_of_the_organisation(grafana: GrafanaServer, journal: Path) -> None:
    assert _annotate(grafana, journal) == 0
    first, second = (request.body for request in grafana.requests if request.method == "POST")
    assert first == {
        "time": (T0 + 60 * SECOND) // 1_000_000,
        "timeEnd": _result(2).end_ns // 1_000_000,
        "text": f"run {RUN}: 2 trains on pi4, SIMULATED",
        "tags": ["opjoule", "campaign", f"run:{RUN}", "SIMULATED", "pi4", f"op:lab/{RUN}"],
    }
    assert "SIMULATED" not in second["text"] and second["tags"][-1] == "op:lab/run-2"
    assert grafana.asked() == [
        "GET /api/annotations?type=annotation&tags=run%3Arun%201%20%26%20more%3F&limit=10000",
        "POST /api/annotations",
        "GET /api/annotations?type=annotation&tags=run%3Arun-2&limit=10000",
        "POST /api/annotations",
    ]


def test_annotating_again_makes_nothing_twice_and_trains_are_added(
    grafana: GrafanaServer, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _annotate(grafana, journal)
    assert _annotate(grafana, journal) == 0
    assert len(grafana.annotations) == 2
    assert _annotate(grafana, journal, "--trains", "--run", RUN) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"run {RUN} at lab: 2 annotations made, 1 there"
    train = grafana.annotations[-1]
    assert re.fullmatch(r"keygen ML-KEM-768 · 2[\d.]+ ± [\d.]+ mJ · good SIMULATED", train["text"])
    assert {"opjoule", "train", "pi4", "SIMULATED"} <= set(train["tags"])


def test_a_grafana_that_goes_away_in_between_is_finished_by_the_next_call(
    grafana: GrafanaServer, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grafana.goes_away_after = 3
    assert _annotate(grafana, journal) == 2
    assert "run `opjoule grafana annotate` again" in capsys.readouterr().err
    grafana.goes_away_after = None
    assert _annotate(grafana, journal) == 0
    assert len(grafana.annotations) == 2


def test_a_missing_journal_is_one_line(
    grafana: GrafanaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _annotate(grafana, tmp_path / "none.sqlite") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "none.sqlite" in line and grafana.requests == []


def test_two_meters_on_one_train_make_one_annotation_of_it() -> None:
    made = of_run([_result(1), _result(1, meter="m2")], trains=True)
    assert len(made) == 2
    assert len({each.key for each in made}) == 2
