"""The panels on what a real run leaves: services as processes, their own sink, a real InfluxQL engine."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from opjoule.dashboards import DASHBOARDS
from opjoule.local_broker import LocalBroker, available
from opjoule.processes import Services
from tests.deploy.grafana_panels import ALL, Json, View, problems
from tests.influxd import DATABASE, Influxd, Shim, influxd_available

pytestmark = [
    pytest.mark.influxd,
    pytest.mark.mosquitto,
    pytest.mark.processes,
    pytest.mark.skipif(not influxd_available(), reason="Debian's influxdb is not installed"),
    pytest.mark.skipif(not available("mosquitto"), reason="mosquitto is not installed"),
]
TRAINS = 4
PLAN = "sham,null,sign:ECDSA-P-256,verify:ECDSA-P-256"
LIMIT_S = 100.0
NEEDS_MORE = {
    "compare": "a second board, build or parameter set, and pooled comparisons",
}
"""Dashboards that one board with one build cannot fill."""
EMPTY_WHEN_WELL = {"Last trains without an energy"}
NEEDS_SECOND_TRAIN = "spread of trains (sd)"


@dataclass(frozen=True)
class Run:
    """The engine after the run, and when the run was."""

    influxd: Influxd
    start_ms: int
    end_ms: int

    def view(self, dashboard: Json) -> View:
        """The time of the run, every variable at its default."""
        names = [each["name"] for each in dashboard["templating"]["list"]]
        chosen = {"operation": ["sign"], "variant": [ALL], "backend": ["cli"]}
        several = {each["name"] for each in dashboard["templating"]["list"] if each["multi"]}
        return View(
            self.start_ms,
            self.end_ms,
            {name: [ALL] if name in several else chosen.get(name, [ALL]) for name in names},
            "1s",
        )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run of a few trains with SIMULATED power; ends when the store has a point of every train."""
    folder = tmp_path_factory.mktemp("run")
    token = folder / "token"
    token.write_text("not asked for\n")
    start_ms = time.time_ns() // 1_000_000
    with Influxd(folder / "influxd") as influxd:
        influxd.create()
        with Shim(influxd) as shim, LocalBroker(folder / "broker", "mosquitto") as broker, Services(folder) as services:
            shared = {"broker_url": broker.url, "site": "demo", "state_dir": folder}
            store = {"influx_url": shim.url, "influx_bucket": DATABASE, "influx_token_file": token}
            services.start("aggregator", {**shared, **store})
            plan = {"plan": PLAN, "train_s": 5, "rounds": 1, "gap_s": 0.5, "start_delay_s": 2, "resend_s": 2}
            plan |= {"busy_wait_s": 0}
            pid = services.start("runner", {**shared, **plan, "dut": "board"})
            meter = {"source": "simulated", "dut": "board", "meter": "m1", "simulated_pid": pid, "resend_s": 2}
            services.start("meter", {**shared, **meter})
            deadline_s = time.monotonic() + LIMIT_S
            while _points(influxd) < TRAINS or services.status("runner") is None:
                assert time.monotonic() < deadline_s, services.last_line("aggregator")
                time.sleep(0.2)
        yield Run(influxd, start_ms, time.time_ns() // 1_000_000)


def _points(influxd: Influxd) -> int:
    rows = influxd.rows("SELECT count(valid) AS n FROM operation_energy WHERE valid = 1")
    return int(rows[0]["n"]) if rows else 0


@pytest.mark.parametrize("name", sorted(set(DASHBOARDS) - set(NEEDS_MORE)))
def test_a_real_run_fills_the_panels(finished: Run, name: str) -> None:
    dashboard = DASHBOARDS[name]
    view = finished.view(dashboard)
    lacking = {}
    for panel in dashboard["panels"]:
        targets = [each for each in panel["targets"] if finished.influxd.query(view.text(each["query"]))]
        if panel["title"] in EMPTY_WHEN_WELL and not targets:
            continue
        assert targets, panel["title"]
        found = problems({**panel, "targets": targets}, view, finished.influxd.query, float("inf"))
        lacking[panel["title"]] = [text for text in found if not _is_expected(text)]
    assert not any(lacking.values()), lacking


def _is_expected(problem: str) -> bool:
    """One train of a kind has no spread, and a panel's names for measured power are not used here."""
    unused = problem.startswith("nothing is named") and "SIMULATED" not in problem
    return unused or NEEDS_SECOND_TRAIN in problem


def test_nothing_in_a_run_of_a_simulated_meter_is_shown_as_measured(finished: Run) -> None:
    for measurement in ("operation_energy", "power"):
        assert finished.influxd.query(f"SELECT * FROM {measurement} WHERE simulated = 0") == []
