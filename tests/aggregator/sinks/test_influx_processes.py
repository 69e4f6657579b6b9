"""The aggregator as a process, killed while it sends: the store ends up with what the journal has, each point once."""

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from schemas import OperationEvent
from tests.aggregator.sinks.trains import train
from tests.influxd import Fault, Influxd, Shim
from tests.pipeline.plant import DUT, Plant

pytestmark = [pytest.mark.influxd, pytest.mark.mosquitto, pytest.mark.processes]

ROUNDS = 12
PER_ROUND = 30


def _waiting(folder: Path) -> int:
    """Lines in the outbox of a journal."""
    with closing(sqlite3.connect((folder / "journal.sqlite").as_uri() + "?mode=ro", uri=True)) as journal:
        return int(journal.execute("SELECT count(*) FROM outbox").fetchone()[0])


def _events(first: int, count: int) -> list[OperationEvent]:
    return [train(number, dut=DUT) for number in range(first, first + count)]


def test_an_aggregator_killed_while_it_sends_leaves_in_the_store_what_is_in_the_journal(
    tmp_path: Path, influxd: Influxd, shim: Shim
) -> None:
    chance = random.Random(5)
    shim.fault = Fault(delay_s=0.03)
    killed_while = {"in flight": 0, "waiting": 0}
    with Plant(tmp_path) as plant:
        settings = {"without_meter": DUT, "influx_url": shim.url, "group_s": 0.02}
        for number in range(ROUNDS):
            plant.start("aggregator", **settings)
            plant.put(*_events(1 + number * PER_ROUND, PER_ROUND))
            before, writes = plant.count("results"), len(shim.writes)
            plant.wait(lambda before=before: plant.count("results") > before)  # type: ignore[misc]
            end_s = time.monotonic() + chance.uniform(0, 0.7)
            plant.wait(lambda end_s=end_s: time.monotonic() > end_s)  # type: ignore[misc]
            plant.services.kill("aggregator")
            killed_while["in flight"] += len(shim.writes) > writes
            killed_while["waiting"] += _waiting(tmp_path) > 0
        plant.start("aggregator", **settings)
        plant.wait(lambda: not plant.unconfirmed and plant.count("results") == ROUNDS * PER_ROUND)
        plant.wait(lambda: _waiting(tmp_path) <= 1)  # its own health comes every ten seconds
        results = plant.results()
    # The kills came while lines were on their way and while lines waited, not always before or after.
    assert all(killed_while.values()), killed_while
    rows = influxd.rows("SELECT event_id, revision FROM operation_energy")
    stored = sorted((row["event_id"], row["revision"]) for row in rows)
    assert stored == sorted((str(result.event_id), result.revision) for result in results)
    assert len(stored) == ROUNDS * PER_ROUND


def test_an_aggregator_whose_store_hangs_takes_in_and_ends_in_two_seconds(
    tmp_path: Path, influxd: Influxd, shim: Shim
) -> None:
    shim.fault = Fault(delay_s=60)
    with Plant(tmp_path) as plant:
        plant.start("aggregator", influx_url=shim.url, without_meter=DUT)
        plant.wait(lambda: "aggregator" in plant.statuses)
        plant.put(*_events(1, 3))
        plant.wait(lambda: plant.count("results") == 3 and not plant.unconfirmed)
        plant.wait(lambda: _waiting(tmp_path) >= 3)
        start_s = time.monotonic()
        plant.services.stop("aggregator")
        assert plant.services.status("aggregator") == 0
        assert time.monotonic() - start_s < 3
        plant.wait(lambda: plant.statuses["aggregator"].state == "offline")


def test_a_wrong_token_is_in_the_status_with_who_must_act_and_nothing_is_lost(
    tmp_path: Path, influxd: Influxd, shim: Shim
) -> None:
    shim.fault = Fault(401)
    with Plant(tmp_path) as plant:
        plant.start("aggregator", influx_url=shim.url, without_meter=DUT)
        plant.put(*_events(1, 2))
        plant.wait(lambda: "aggregator" in plant.statuses and "token" in plant.statuses["aggregator"].detail)
        status = plant.statuses["aggregator"]
        plant.wait(lambda: plant.count("results") == 2)
        assert "the operator must give a valid token (--influx-token-file)" in status.detail
        assert {"outbox_depth", "lag_s", "dead_letters", "held_trains"} <= set(status.health)
        assert _waiting(tmp_path) >= 2


def test_meter_and_aggregator_tell_the_store_how_they_are(tmp_path: Path, influxd: Influxd, shim: Shim) -> None:
    with Plant(tmp_path) as plant:
        plant.start("aggregator", influx_url=shim.url)
        plant.start("meter", source="simulated", dut=DUT, meter="m1", batch_s=0.2)
        query = "SELECT last(online) AS online FROM fleet_health GROUP BY service, instance"
        plant.wait(lambda: len(influxd.rows(query)) == 2)
        plant.wait(lambda: len(influxd.rows("SELECT mean_w, simulated FROM power")) > 2)
    told = {(row["service"], row["instance"]): row["online"] for row in influxd.rows(query)}
    assert set(told) == {("aggregator", "main"), ("meter", "m1")}
    depth = influxd.rows("SELECT outbox_depth, lag_s, held_trains FROM fleet_health WHERE service = 'aggregator'")
    assert depth and depth[0]["held_trains"] == 0


def test_the_client_of_the_store_is_imported_only_where_a_store_is_configured() -> None:
    code = "import sys, aggregator.__main__; sys.exit(any('influxdb' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_an_aggregator_without_its_token_file_ends_with_one_line(tmp_path: Path, influxd: Influxd, shim: Shim) -> None:
    with Plant(tmp_path) as plant:
        plant.start("aggregator", influx_url=shim.url, influx_token_file=tmp_path / "none")
        plant.wait(lambda: plant.services.status("aggregator") is not None)
        assert plant.services.status("aggregator") == 1
        assert plant.services.last_line("aggregator").startswith("aggregator: InfluxDB token file")
