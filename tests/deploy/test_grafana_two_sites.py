"""Boards, meters and kinds of power that share a name: each keeps a figure of its own, on a real InfluxQL engine."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aggregator.sinks import points
from aggregator.sinks.influx import line
from aggregator.sinks.points import Point
from opjoule.dashboards import DASHBOARDS
from schemas import ServiceStatus
from tests.deploy.grafana_data import MINUTE, fleet
from tests.deploy.grafana_panels import ALL, Frame, View, shown
from tests.influxd import Influxd, influxd_available

pytestmark = [
    pytest.mark.influxd,
    pytest.mark.skipif(not influxd_available(), reason="Debian's influxdb is not installed"),
]
POWER_W = {"north": 2.0, "south": 6.0}
OLD_BOARD = {"model": "Raspberry Pi 3 B", "arch": "armv7l", "bits": "32"}
"""What was called pi4 at the north site before."""
ONE_VALUE = {
    "site": "north",
    "operation": "keygen",
    "variant": "none",
    "backend": "cli",
    "power": "0",
    "board_a": "pi4",
    "board_b": "pi5",
    "set_a": "ML-KEM-768",
    "set_b": "X25519",
}


def _twins(now_ns: int) -> Iterator[Point]:
    """Joules per operation: 1 at north, 3 of the board before it, 7 SIMULATED, 5 at south; pi5 only SIMULATED."""
    good = next(
        each
        for each in fleet(now_ns)
        if each.tags.get("parameter_set") == "ML-KEM-768" and each.tags["dut"] == "pi4" and each.fields["valid"]
    )
    for minute, (site, net_j, simulated, other) in enumerate(
        [
            ("north", 3.0, 0.0, OLD_BOARD),
            ("north", 1.0, 0.0, {}),
            ("north", 7.0, 1.0, {}),
            ("south", 5.0, 0.0, {}),
            ("north", 11.0, 1.0, {"dut": "pi5"}),
        ]
    ):
        tags = {**good.tags, "site": site, "meter": "fnb58", **other}
        energies = {"net_j_per_op": net_j, "crypto_j_per_op": net_j, "net_power_w": net_j, "simulated": simulated}
        made = replace(good, tags=tags, fields={**good.fields, **energies}, t_ns=now_ns - (10 - minute) * MINUTE)
        yield made
        yield replace(made, tags={**tags, "operation": "sham", "parameter_set": "none"})


def _power(now_ns: int) -> Iterator[Point]:
    for site, power_w in POWER_W.items():
        for meter, factor in (("fnb58", 1.0), ("tc66c", 1.5)):
            samples = np.array([0.5, 1.0, 1.5]) * power_w * factor
            yield points.power((site, "pi4", meter), now_ns - MINUTE, samples, np.array([5.0, 5.0, 5.0]))


def _silent_runner(now_ns: int) -> Point:
    said = {
        "service": "runner",
        "instance": "slow",
        "state": "measuring",
        "version": "test",
        "started_ns": 1,
        "started_time": "1970-01-01T00:00:00Z",
        "duts": (),
        "detail": "train 3 of 9",
        "health": {},
    }
    return points.fleet_health("north", ServiceStatus.model_validate(said), now_ns - 50 * MINUTE)


class Screen:
    """The panels as a browser would show them."""

    def __init__(self, influxd: Influxd, now_ms: int) -> None:
        self._influxd, self._now_ms = influxd, now_ms

    def frames(self, name: str, title: str, **values: list[str]) -> list[Frame]:
        """What the panel draws with every variable at its default, else as given."""
        dashboard = DASHBOARDS[name]
        (panel,) = (each for each in dashboard["panels"] if each["title"].startswith(title))
        variables = dashboard["templating"]["list"]
        chosen = {v["name"]: [ALL if v["multi"] else ONE_VALUE.get(v["name"], "")] for v in variables}
        view = View(self._now_ms - 15 * 60_000, self._now_ms, chosen | values, "1h")
        return shown(panel, view, self._influxd.query)

    def means(self, name: str, title: str, **values: list[str]) -> dict[str, float]:
        """The one value of each series by its name."""
        found = {}
        for frame in self.frames(name, title, **values):
            (found[frame.name],) = (value for value in frame.columns[frame.name] if value is not None)
        return found


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    folder: Path = tmp_path_factory.mktemp("influxd")
    with Influxd(folder) as influxd:
        influxd.create()
        now_ns = time.time_ns() // 3_600_000_000_000 * 3_600_000_000_000 - MINUTE  # all within one step of the axis
        made = [*_twins(now_ns), *_power(now_ns), _silent_runner(time.time_ns())]
        influxd.write("\n".join(line(point) for point in made))
        yield Screen(influxd, now_ns // 1_000_000)


def test_boards_of_one_name_at_two_sites_have_a_line_each(screen: Screen) -> None:
    found = screen.means("fleet_live", "Power of every board", meter=["fnb58"])
    assert found == {"north pi4, fnb58": 2.0, "south pi4, fnb58": 6.0}


def test_the_power_of_one_board_is_apart_by_site_and_meter(screen: Screen) -> None:
    found = screen.means("fleet_live", "Power of $board", board=["pi4"])
    assert {name: value for name, value in found.items() if name.endswith(" mean")} == {
        "north fnb58 mean": 2.0,
        "north tc66c mean": 3.0,
        "south fnb58 mean": 6.0,
        "south tc66c mean": 9.0,
    }
    assert (found["south fnb58 min"], found["south fnb58 max"]) == (3.0, 9.0)


@pytest.mark.parametrize("title", ["Last results", "Last sham trains", "Last trains without an energy"])
def test_the_last_trains_name_their_site(title: str) -> None:
    (panel,) = (each for each in DASHBOARDS["fleet_live"]["panels"] if each["title"] == title)
    assert all('"site" AS "site"' in target["query"] for target in panel["targets"])


@pytest.mark.parametrize("name", ["energy", "compare"])
def test_dashboards_that_show_one_train_for_each_set_show_one_site(name: str) -> None:
    (site,) = (each for each in DASHBOARDS[name]["templating"]["list"] if each["name"] == "site")
    assert (site["multi"], site["includeAll"]) == (False, False)


def test_the_trend_keeps_sites_and_boards_of_one_name_apart(screen: Screen) -> None:
    found = screen.means("energy", "Net energy per operation over time", site=[ALL], board=["pi4"])
    assert sorted(found.values()) == [1.0, 3.0, 5.0, 7.0]
    (old,) = (series for series, value in found.items() if value == 3.0)
    assert all(value in old for value in ("north", *OLD_BOARD.values()))


def test_the_sham_trend_keeps_sites_apart(screen: Screen) -> None:
    found = screen.means("energy", "Sham trains over time", site=[ALL], board=["pi4"])
    assert found == {"north pi4, fnb58": 2.0, "south pi4, fnb58": 5.0, "SIMULATED north pi4, fnb58": 7.0}


def test_the_mean_over_all_trains_mixes_neither_boards_nor_simulated_with_measured(screen: Screen) -> None:
    title = "Net energy per operation, all trains"
    (frame,) = screen.frames("energy", title, site=[ALL], board=["pi4"])
    rows = {row["mean net J/op"]: row for row in frame.rows()}
    assert sorted(rows) == [1.0, 3.0, 5.0, 7.0]
    assert {net_j: row["SIMULATED"] for net_j, row in rows.items() if row["SIMULATED"]} == {7.0: 1.0}
    assert (rows[3.0]["model"], rows[3.0]["arch"], rows[5.0]["site"]) == ("Raspberry Pi 3 B", "armv7l", "south")


@pytest.mark.parametrize(("site", "net_j"), [("north", 1.0), ("south", 5.0)])
def test_bars_are_of_the_site_that_is_chosen(screen: Screen, site: str, net_j: float) -> None:
    (frame,) = screen.frames("energy", "$operation on $board: net energy", site=[site], board=["pi4"])
    assert [row["mean"] for row in frame.rows()] == [net_j]


def test_a_simulated_energy_is_never_divided_by_a_measured_one(screen: Screen) -> None:
    title = "Board against board"
    assert [row for frame in screen.frames("compare", title) for row in frame.rows()] == []
    (frame,) = screen.frames("compare", title, power=["1"])
    (row,) = frame.rows()
    assert (row["A J/op"], row["B J/op"], row["ratio A / B"]) == (7.0, 11.0, 7.0 / 11.0)


def test_a_runner_in_a_train_longer_than_the_time_range_is_still_among_what_runs_now(screen: Screen) -> None:
    (frame,) = screen.frames("fleet_live", "What runs now")
    assert [(row["instance"], row["measuring"], row["what"]) for row in frame.rows()] == [("slow", 1.0, "train 3 of 9")]
