"""Every query of every panel, variable, annotation and alert, on a real InfluxQL engine with points of our own."""

import copy
import operator
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from aggregator.sinks.influx import line
from opjoule.dashboards import DASHBOARDS
from opjoule.dashboards.alerts import alert_rules
from opjoule.dashboards.queries import CRYPTO_VALID, VALID
from tests.deploy.grafana_data import BIASED, BOARDS, BUILDS, GONE, SETS, TRAP, fleet
from tests.deploy.grafana_panels import ALL, Json, View, as_text, problems, shown
from tests.influxd import Influxd, Series, influxd_available

pytestmark = [
    pytest.mark.influxd,
    pytest.mark.skipif(not influxd_available(), reason="Debian's influxdb is not installed"),
]
HOUR_MS = 3_600_000
CHOSEN = {
    "site": ["lab"],
    "board_a": ["pi4"],
    "board_b": ["zero64"],
    "model": ["Raspberry Pi Zero 2 W"],
    "openssl_a": ["3.5.0"],
    "openssl_b": ["3.5.7"],
    "set_a": ["ML-KEM-768"],
    "set_b": ["X25519"],
    "operation": ["keygen"],
    "variant": ["none"],
    "backend": ["cli"],
    "power": ["0"],
}
"""Where a dashboard lets one value be chosen; all of the others."""
PANELS = [(name, panel) for name, dashboard in DASHBOARDS.items() for panel in dashboard["panels"]]
RULES = alert_rules()["groups"][0]["rules"]


class Engine:
    """The engine, and what the clock said when it was filled."""

    def __init__(self, influxd: Influxd) -> None:
        self.influxd, self.now_ms = influxd, time.time_ns() // 1_000_000

    def run(self, query: str) -> list[Series]:
        """The series of a query."""
        return self.influxd.query(query)

    def view(self, dashboard: Json, **values: list[str]) -> View:
        """Two hours up to now with every variable at its default, else as chosen."""
        names = [each["name"] for each in dashboard["templating"]["list"]]
        several = {each["name"] for each in dashboard["templating"]["list"] if each["multi"]}
        defaults = {name: [ALL] if name in several else CHOSEN[name] for name in names}
        return View(self.now_ms - 2 * HOUR_MS, self.now_ms, defaults | values)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Influxd(tmp_path_factory.mktemp("influxd")) as influxd:
        influxd.create()
        made = Engine(influxd)
        for point in (points := fleet(made.now_ms * 1_000_000)):
            assert line(point)
        influxd.write("\n".join(line(point) for point in points))
        yield made


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=lambda value: value["title"] if isinstance(value, dict) else "")
def test_every_panel_gets_the_series_columns_and_finite_values_that_it_needs(
    engine: Engine, name: str, panel: Json
) -> None:
    assert problems(panel, engine.view(DASHBOARDS[name]), engine.run, TRAP) == []


@pytest.mark.parametrize("board", BOARDS)
def test_panels_repeated_for_one_board_show_that_board(engine: Engine, board: str) -> None:
    repeated = [(name, panel) for name, panel in PANELS if panel.get("repeat") == "board"]
    assert len(repeated) == 3
    for name, panel in repeated:
        frames = shown(panel, engine.view(DASHBOARDS[name], board=[board]), engine.run)
        named = {column for frame in frames for column in frame.columns} - {"Time", "parameter_set"}
        assert named and all(column.startswith("SIMULATED ") == (board == "demo") for column in named)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_variable_lists_what_the_store_holds_below_each_choice_before_it(engine: Engine, name: str) -> None:
    dashboard = DASHBOARDS[name]
    for values in ({}, {"site": ["lab"]}, {"site": ["lab", "other.site"]}):
        view = engine.view(dashboard, **values)
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found = {row["value"] for row in engine.influxd.rows(view.text(variable["query"]))}
                assert found, variable["name"]
                assert set(CHOSEN.get(variable["name"], ())) <= found


def test_a_site_that_does_not_exist_leaves_the_other_variables_empty(engine: Engine) -> None:
    dashboard = DASHBOARDS["energy"]
    for variable in dashboard["templating"]["list"][1:]:
        if variable["type"] == "query":
            assert engine.run(engine.view(dashboard, site=["l.b"]).text(variable["query"])) == []


@pytest.mark.parametrize("name", ["fleet_live", "energy"])
def test_every_train_is_an_annotation_and_simulated_ones_are_apart(engine: Engine, name: str) -> None:
    ours = [each for each in DASHBOARDS[name]["annotations"]["list"] if each["datasource"]["type"] == "influxdb"]
    assert len(ours) == 2
    for annotation in ours:
        target = annotation["target"]
        (series,) = engine.run(engine.view(DASHBOARDS[name]).text(target["query"]))
        wanted = {target["titleColumn"], target["textColumn"], *target["tagsColumn"].split(",")}
        assert wanted <= set(series.columns)
        simulated = annotation["name"].startswith("SIMULATED")
        kinds = {row["meter kind"] for row in series.rows()}
        assert kinds == ({"simulated"} if simulated else {"measured", "none"})


def _fires(engine: Engine, rule: Json) -> set[tuple[str, ...]]:
    """Labels of the series whose last value crosses the limit."""
    query, _, threshold = rule["data"]
    evaluator = threshold["model"]["conditions"][0]["evaluator"]
    crosses = {"gt": operator.gt, "lt": operator.lt}[evaluator["type"]]
    fired = set()
    for series in engine.run(query["model"]["query"]):
        assert len(series.columns) == 2 and all(row[1] is not None for row in series.values)
        if crosses(series.values[-1][1], evaluator["params"][0]):
            fired.add(tuple(series.tags.values()))
    return fired


@pytest.mark.parametrize(
    ("uid", "fired"),
    [
        ("opjoule-board-silent", {(GONE, "lab")}),
        ("opjoule-meter-silent", {(GONE, f"m-{GONE}", "lab")}),
        ("opjoule-outbox-old", {("blocked", "lab")}),
        ("opjoule-sham-check", {(BIASED, f"m-{BIASED}", "lab")}),
        ("opjoule-energy-changed", {("the same, OpenSSL 3.5.0", "pi4 ML-KEM-768", "lab")}),
    ],
)
def test_an_alert_fires_for_what_is_wrong_and_for_nothing_else(
    engine: Engine, uid: str, fired: set[tuple[str, ...]]
) -> None:
    (rule,) = (each for each in RULES if each["uid"] == uid)
    assert len(engine.run(rule["data"][0]["model"]["query"])) >= len(fired)
    assert _fires(engine, rule) == fired


def test_every_rule_has_a_case_above() -> None:
    assert len(RULES) == 5


def test_the_ratio_of_two_boards_is_that_of_their_energies(engine: Engine) -> None:
    name, panel = next(each for each in PANELS if each[1]["title"].startswith("Board against board"))
    (frame,) = shown(panel, engine.view(DASHBOARDS[name]), engine.run)
    rows = {row["parameter_set"]: row for row in frame.rows()}
    assert set(rows) == set(SETS)
    for row in rows.values():
        assert row["ratio A / B"] == pytest.approx(2.0 / 0.4, rel=0.05)
        assert row["A board"] == "pi4" and row["B board"] == "zero64"
        assert row["A J/op"] > 10 * row["A ± U95"] > 0


def test_32_bit_stands_against_64_bit_of_the_same_model(engine: Engine) -> None:
    name, panel = next(each for each in PANELS if each[1]["title"].startswith("32 bit"))
    (frame,) = shown(panel, engine.view(DASHBOARDS[name]), engine.run)
    assert {(row["A board"], row["B board"]) for row in frame.rows()} == {("zero32", "zero64")}
    assert all(row["ratio A / B"] == pytest.approx(0.5 / 0.4, rel=0.1) for row in frame.rows())


def test_two_builds_stand_side_by_side_on_one_board(engine: Engine) -> None:
    name, panel = next(each for each in PANELS if each[1]["title"].startswith("OpenSSL"))
    (frame,) = shown(panel, engine.view(DASHBOARDS[name]), engine.run)
    assert {(row["A board"], row["A OpenSSL"], row["B OpenSSL"]) for row in frame.rows()} == {("pi4", "3.5.0", "3.5.7")}
    assert all(row["ratio A / B"] == pytest.approx(1 / 1.2, rel=0.05) for row in frame.rows())


def test_crypto_energy_is_net_energy_without_the_null_train(engine: Engine) -> None:
    name, panel = next(each for each in PANELS if each[1]["title"] == "Crypto energy per operation, last train")
    (frame,) = shown(panel, engine.view(DASHBOARDS[name], board=["pi4"]), engine.run)
    crypto_j = {(row["parameter_set"], row["openssl"]): row["last crypto J/op"] for row in frame.rows()}
    assert len(crypto_j) == len(SETS) * len(BUILDS)
    assert crypto_j["ML-KEM-768", "3.5.0"] == pytest.approx((2.0 - 0.1) * 0.7 / 100, rel=0.05)


def _panel(title: str) -> tuple[Json, Json]:
    return next((DASHBOARDS[name], copy.deepcopy(panel)) for name, panel in PANELS if panel["title"] == title)


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=lambda value: value["title"] if isinstance(value, dict) else "")
def test_the_check_of_panels_finds_a_wrong_field_in_any_of_them(engine: Engine, name: str, panel: Json) -> None:
    broken = copy.deepcopy(panel)
    target = broken["targets"][-1]
    target["query"], count = re.subn(r'^(SELECT (?:\w+\()?)"(\w+)"', r'\1"no_such_\2"', target["query"])
    assert count == 1
    assert problems(broken, engine.view(DASHBOARDS[name]), engine.run, TRAP)


_ENERGY_PANELS = [(name, panel) for name, panel in PANELS if VALID in panel["targets"][0]["query"]]


@pytest.mark.parametrize(("name", "panel"), _ENERGY_PANELS, ids=lambda v: v["title"] if isinstance(v, dict) else "")
def test_the_check_of_panels_finds_an_energy_query_without_valid(engine: Engine, name: str, panel: Json) -> None:
    condition = CRYPTO_VALID if CRYPTO_VALID in panel["targets"][0]["query"] else VALID
    broken = copy.deepcopy(panel)
    for target in broken["targets"]:
        assert condition in target["query"]
        target["query"] = target["query"].replace(f"{condition} AND ", "")
    assert any("taken back" in each for each in problems(broken, engine.view(DASHBOARDS[name]), engine.run, TRAP))


def test_the_check_of_panels_finds_a_variable_that_is_not_put_in_and_a_column_that_is_not_there(
    engine: Engine,
) -> None:
    dashboard, panel = _panel("Last results")
    panel["targets"][0]["query"] += " AND $nothing"
    view = engine.view(dashboard)
    with pytest.raises(AssertionError, match="found"):
        problems(panel, view, engine.run, TRAP)
    dashboard, panel = _panel("Last results")
    panel["fieldConfig"]["overrides"].append({"matcher": {"id": "byName", "options": "nope"}, "properties": []})
    assert problems(panel, view, engine.run, TRAP) == ["nothing is named 'nope'"]


def test_the_check_of_panels_finds_bars_that_share_a_label(engine: Engine) -> None:
    dashboard, panel = _panel("$operation on $board: net energy per operation")
    for target in panel["targets"]:
        target["query"] += ', "openssl"'
    assert "two bars have one label" in problems(panel, engine.view(dashboard), engine.run, TRAP)


def test_a_sham_check_needs_enough_sham_trains(engine: Engine) -> None:
    (rule,) = (each for each in RULES if each["uid"] == "opjoule-sham-check")
    query: Any = rule["data"][0]["model"]["query"]
    assert len(engine.run(query)) == 3  # demo is SIMULATED
    assert engine.run(query.replace('"n" >= 10', '"n" >= 13')) == []


def test_a_panel_can_be_read_as_text(engine: Engine) -> None:
    dashboard, panel = _panel("Net energy per operation, last train")
    (frame,) = shown(panel, engine.view(dashboard), engine.run)
    lines = as_text(frame).splitlines()
    assert lines[0].split()[:3] == ["Time", "site", "dut"] and len(lines) == 1 + len(BOARDS) * len(SETS) * len(BUILDS)
