"""deploy/grafana is what the Python values say, and every panel keeps the house rules. Each rule is shown to bite."""

import argparse
import copy
import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from errors import SettingsError
from opjoule.dashboards import DASHBOARDS
from opjoule.dashboards.alerts import RULES, alert_rules
from opjoule.dashboards.command import FOLDER, run, stale, write
from opjoule.dashboards.parts import DATASOURCE, DATASOURCE_UID, FOLDER_UID
from opjoule.dashboards.queries import CRYPTO_VALID, REAL_POWER, SHAM, SIMULATED, SIMULATED_POWER, VALID, unit_of

Json = dict[str, Any]
PANELS = [(name, panel) for name, dashboard in DASHBOARDS.items() for panel in dashboard["panels"]]
WANTED_VARIABLES = {"site", "board", "algorithm", "operation", "variant", "quality"}
_COLUMN = re.compile(r'(?:(\w+)\()?"(\w+)"\)? AS "([^"]+)"')
_APART = {
    '"power"': {"site", "dut", "meter"},
    '"operation_energy"': {
        *("site", "dut", "meter", "model", "arch", "bits", "parameter_set", "variant", "backend", "openssl"),
    },
}
"""Tags that an average is grouped by; algorithm and category follow from the set, of operations one is chosen."""
_SHOWS_POWER = re.compile(r'FROM "(power|comparison)"|net_|crypto_|_w"|meter_kind')


def _title(value: object) -> str:
    return str(value["title"]) if isinstance(value, dict) else ""


each_panel = pytest.mark.parametrize(("name", "panel"), PANELS, ids=_title)


def test_the_files_are_what_the_python_values_say() -> None:
    assert stale(FOLDER) == []


def test_a_stale_a_missing_and_a_foreign_file_are_found_and_put_right(tmp_path: Path) -> None:
    assert len(write(tmp_path)) == len(DASHBOARDS) + 3
    edited, lost, foreign = (tmp_path / f"dashboards/{name}.json" for name in ("compare", "energy", "old"))
    edited.write_text(edited.read_text().replace("Compare", "compare", 1))
    lost.unlink()
    foreign.write_text("{}")
    assert stale(tmp_path) == [edited, lost, foreign]
    assert write(tmp_path) == [edited, lost, foreign] and stale(tmp_path) == []


def test_the_command_says_what_is_stale_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = argparse.Namespace(check=True, folder=tmp_path)
    assert run(asked) == 1
    assert "compare.json is stale: run `opjoule dashboards`" in capsys.readouterr().err
    assert run(argparse.Namespace(check=False, folder=tmp_path)) == 0
    assert run(asked) == 0
    with pytest.raises(SettingsError, match="is no folder"):
        run(argparse.Namespace(check=True, folder=tmp_path / "none"))


def test_uids_are_fixed_and_the_schema_is_one_that_grafana_11_to_13_take() -> None:
    uids = [dashboard["uid"] for dashboard in DASHBOARDS.values()]
    assert uids == ["opjoule-live", "opjoule-energy", "opjoule-compare", "opjoule-health"]
    assert all(39 <= dashboard["schemaVersion"] <= 41 for dashboard in DASHBOARDS.values())
    assert all("id" not in dashboard for dashboard in DASHBOARDS.values())


def test_the_variables_that_people_choose_by_are_there() -> None:
    for name, missing in {"fleet_live": set(), "energy": set(), "compare": {"board"}}.items():
        there = {each["name"] for each in DASHBOARDS[name]["templating"]["list"]}
        assert WANTED_VARIABLES - there == missing
        assert all(each["description"] for each in DASHBOARDS[name]["templating"]["list"])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap_and_lie_in_the_grid(name: str) -> None:
    panels = DASHBOARDS[name]["panels"]
    assert [each["id"] for each in panels] == list(range(1, len(panels) + 1))
    places = [each["gridPos"] for each in panels]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 for place in places)
    for a, b in combinations(places, 2):
        assert a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"] or a["y"] + a["h"] <= b["y"]


def faults(panel: Json) -> Iterator[str]:
    """What a panel lacks that every panel must have."""
    if len(panel.get("description", "")) < 40:
        yield "no description"
    if panel["datasource"] != DATASOURCE or any(each["datasource"] != DATASOURCE for each in panel["targets"]):
        yield "another data source"
    if panel["type"] == "timeseries" and panel["fieldConfig"]["defaults"]["custom"].get("spanNulls") is not False:
        yield "gaps are drawn over"
    yield from _unit_faults(panel)
    for target in panel["targets"]:
        yield from query_faults(target["query"])
        yield from _average_faults(target["query"], {each for each in ("dut",) if panel.get("repeat") == "board"})
    yield from _simulated_faults(panel)


def query_faults(query: str) -> Iterator[str]:
    """What a query for an energy lacks."""
    figures = query.partition(" FROM ")[0] if "FROM (" not in query else query
    if re.search(r"net_|crypto_|gross_j|_power_w|u95_", figures) and VALID not in query:
        yield "an energy without valid = 1"
    if "crypto_j" in query and CRYPTO_VALID not in query:
        yield "a crypto energy without crypto_valid = 1"


def _average_faults(query: str, fixed: set[str]) -> Iterator[str]:
    """An average over boards, meters or kinds of power that differ, or over operations that do."""
    figures, _, rest = query.partition(" FROM ")
    tags = next((tags for start, tags in _APART.items() if rest.startswith(start)), set())
    if "mean(" not in figures or not tags:
        return
    if REAL_POWER not in query and SIMULATED_POWER not in query:
        yield "an average over measured and SIMULATED power"
    tags = _APART['"power"'] if SHAM in query else tags
    if missing := tags - fixed - set(re.findall(r'"(\w+)"', query.rpartition("GROUP BY")[2])):
        yield f"an average over every {', '.join(sorted(missing))}"


def _unit_faults(panel: Json) -> Iterator[str]:
    fields = panel["fieldConfig"]
    own = {
        each["matcher"]["options"]: prop["value"]
        for each in fields["overrides"]
        for prop in each["properties"]
        if prop["id"] == "unit"
    }
    default = fields["defaults"].get("unit", "")
    for target in panel["targets"]:
        for function, field, shown in _COLUMN.findall(target["query"]):
            should = "none" if function == "count" else unit_of(field)
            unit = own.get(shown, default)
            if unit != should and not (should == "none" and unit == "short"):
                yield f"{shown} has unit {unit!r}, not {should!r}"


def _simulated_faults(panel: Json) -> Iterator[str]:
    """A figure from simulated power says so: by its series' name, or by a column."""
    queries = [target["query"] for target in panel["targets"]]
    if not any(_SHOWS_POWER.search(query) for query in queries):
        return
    for target in panel["targets"]:
        query, names = target["query"], f"{target.get('alias', '')} {target['query'].partition(' FROM ')[0]}"
        apart = REAL_POWER in query or (SIMULATED_POWER in query and SIMULATED in names)
        if not apart and not _marked_by_column(panel, query):
            yield f"query {target['refId']}: SIMULATED is not told apart"


def _marked_by_column(panel: Json, query: str) -> bool:
    columns = {shown for _, field, shown in _COLUMN.findall(query) if field in ("meter_kind", "simulated")}
    marked = {
        each["matcher"]["options"]
        for each in panel["fieldConfig"]["overrides"]
        for prop in each["properties"]
        if prop["id"] == "mappings" and SIMULATED in json.dumps(prop["value"])
    }
    return bool(columns & marked)


@each_panel
def test_every_panel_has_description_units_valid_energies_and_marks_what_is_simulated(name: str, panel: Json) -> None:
    assert list(faults(panel)) == []


def _broken(title: str, change: str) -> Json:
    """A panel with one text of its JSON replaced."""
    panel = next(copy.deepcopy(panel) for _, panel in PANELS if panel["title"] == title)
    old, new = change.split(" -> ")
    text = json.dumps(panel, ensure_ascii=False)
    assert old in text
    made: Json = json.loads(text.replace(old, new))
    return made


@pytest.mark.parametrize(
    ("title", "change", "fault"),
    [
        ("Power of every board", '"spanNulls": false -> "spanNulls": true', "gaps are drawn over"),
        ("Power of every board", '"unit": "watt" -> "unit": "joule"', "mean has unit 'joule', not 'watt'"),
        ("Power of every board", '"description" -> "text"', "no description"),
        ("Power of every board", "opjoule-influxdb -> other", "another data source"),
        ("Power of every board", "SIMULATED $tag_site -> $tag_site", "query B: SIMULATED is not told apart"),
        (
            "Power of every board",
            r"BY time($__interval), \"site\" -> BY time($__interval)",
            "an average over every site",
        ),
        ("Power of $board", r"\"simulated\" = 0 AND  -> ", "an average over measured and SIMULATED power"),
        (
            "Net energy per operation, all trains in the time range",
            r"\"model\", \"arch\",  -> ",
            "an average over every arch, model",
        ),
        ("Last results", '"value": "joule" -> "value": "watt"', "net J/op has unit 'watt', not 'joule'"),
        ("Last results", r"\"valid\" = 1 AND  -> ", "an energy without valid = 1"),
        ("Last results", '"text": "SIMULATED" -> "text": "x"', "query A: SIMULATED is not told apart"),
        ("Crypto energy per operation, last train", r"\"crypto_valid\" = 1 AND  -> ", "a crypto energy without"),
        ("Verdicts: ratio with 95 % interval", '"text": "SIMULATED" -> "text": "x"', "query A: SIMULATED"),
    ],
)
def test_the_rules_for_panels_find_what_they_are_for(title: str, change: str, fault: str) -> None:
    found = list(faults(_broken(title, change)))
    assert found and found[0].startswith(fault)


def test_titles_that_show_a_variable_name_one_that_there_is() -> None:
    for name, panel in PANELS:
        variables = {each["name"] for each in DASHBOARDS[name]["templating"]["list"]}
        assert set(re.findall(r"\$(\w+)", panel["title"])) <= variables
        assert {panel.get("repeat")} <= variables | {None}


def _yaml(path: str) -> Json:
    read: Json = yaml.safe_load((FOLDER / "provisioning" / path).read_text("utf-8"))
    return read


def test_the_data_source_is_influxql_on_influxdb_2_and_holds_no_secret() -> None:
    (source,) = _yaml("datasources/opjoule.yaml")["datasources"]
    assert (source["uid"], source["type"], source["access"]) == (DATASOURCE_UID, "influxdb", "proxy")
    assert source["jsonData"]["httpHeaderName1"] == "Authorization"
    assert source["jsonData"]["dbName"].startswith("$") and source["url"].startswith("$")
    assert re.fullmatch(r"Token \$__file\{/run/secrets/\w+\}", source["secureJsonData"]["httpHeaderValue1"])


def test_dashboards_are_read_into_the_folder_that_push_uses_too() -> None:
    (provider,) = _yaml("dashboards/opjoule.yaml")["providers"]
    assert provider["folderUid"] == FOLDER_UID
    assert provider["allowUiUpdates"] is False


def test_no_text_of_the_alert_rules_is_taken_for_a_variable_by_grafana() -> None:
    text = (FOLDER / "provisioning/alerting/opjoule.yaml").read_text("utf-8")
    assert "$" not in text
    assert yaml.safe_load(text) == alert_rules()


def test_every_rule_says_what_happened_and_who_must_act_and_only_the_comparison_is_paused() -> None:
    rules = alert_rules()["groups"][0]["rules"]
    assert [rule["uid"] for rule in rules if rule["isPaused"]] == ["opjoule-energy-changed"]
    for rule in rules:
        query, reduced, threshold = rule["data"]
        assert query["datasourceUid"] == DATASOURCE_UID and query["relativeTimeRange"]["from"] > 0
        assert reduced["model"]["expression"] == query["refId"]
        assert threshold["model"]["expression"] == reduced["refId"] and threshold["refId"] == rule["condition"]
        labels = set(re.findall(r"\{\{ \.Labels\.(\w+) \}\}", rule["annotations"]["summary"]))
        assert labels and all(f'"{label}"' in query["model"]["query"].rpartition("GROUP BY")[2] for label in labels)
        assert len(rule["annotations"]["description"]) > 40
        assert list(query_faults(query["model"]["query"])) == []


def test_an_alert_on_an_energy_without_valid_would_be_found() -> None:
    (sham,) = (rule for rule in RULES if rule.uid == "opjoule-sham-check")
    assert list(query_faults(sham.query.replace(f"{VALID} AND ", ""))) == ["an energy without valid = 1"]
