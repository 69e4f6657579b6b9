"""The whole way with real processes and a real broker, and each of them killed once: nothing missing, nothing double.

`test_pipeline.py` shows the same way in memory; `tests/pipeline/plant.py` starts what runs here.
"""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from pydantic import TypeAdapter

from clock import ServiceClock
from meter.playlist import PlaylistEntry
from opjoule.local_broker import Kind
from runner.openssl import find_openssl
from schemas import OperationEvent, SampleBatch
from tests.aggregator.trains import SECOND, T0, event, segments, steps, trace
from tests.meter.conftest import cfn_bytes
from tests.pipeline.plant import DUT, Plant, assert_whole, work_folders

pytestmark = pytest.mark.processes

TRAINS = 8
TRAIN_S = 10.0
RECORDING_HZ = 50
SPEED = 16.0
NOBODY_LISTENS = "mqtt://127.0.0.1:9"
SIMULATED: dict[str, object] = {"source": "simulated", "dut": DUT, "meter": "m1"}
RUNNER: dict[str, object] = {
    "dut": DUT,
    "train_s": 5,
    "gap_s": 0.5,
    "start_delay_s": 1,
    "rounds": 1,
    "busy_cores": 4096,
}


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        pytest.param("mosquitto", "sham,null,sign:ECDSA-P-256", marks=pytest.mark.mosquitto),
        pytest.param("iotcore", "null:1", marks=pytest.mark.iotcore),
    ],
)
def test_real_operations_become_joules_through_a_real_broker(
    tmp_path: Path, kind: Kind, plan: str, openssl: str
) -> None:
    with Plant(tmp_path, kind) as plant:
        plant.start("aggregator")
        pid = plant.start("runner", **RUNNER, plan=plan, openssl=openssl)
        plant.start("meter", **SIMULATED, simulated_pid=pid)
        plant.wait(lambda: plant.services.status("runner") is not None)
        assert plant.services.status("runner") == 0, plant.services.last_line("runner")
        jobs = plan.split(",")
        plant.wait(lambda: len({result.event_id for result in plant.published}) == len(jobs))
        plant.services.stop("meter")
        assert plant.services.status("meter") == 0
        results = {result.operation: result for result in plant.results()}
        assert_whole(plant, {result.event_id for result in results.values()})
    assert set(results) == {job.partition(":")[0] for job in jobs}
    assert all(result.simulated and result.quality in ("good", "degraded") for result in results.values())
    null = results["null"]
    assert null.net_j_per_op is not None and null.net_j_per_op.value > null.net_j_per_op.u95 > 0
    if "sign" in results:
        sham, sign = results["sham"], results["sign"]
        assert sign.crypto_j_per_op is not None and sign.null_event_id == null.event_id
        assert sham.net_power_w is not None and sign.net_power_w is not None
        assert abs(sham.net_power_w.value) < sign.net_power_w.value / 3


# --- a recording and its events, played while something is killed ------------------------------------------------


@dataclass(frozen=True)
class Replay:
    """A recording of `TRAINS` trains, their events, and what an undisturbed run makes of them."""

    playlist: Path
    events: list[OperationEvent]
    results: list[dict[str, object]]
    batches: list[SampleBatch]

    def start_meter(self, plant: Plant, speed: float = SPEED) -> None:
        """Play the recording in a few seconds, in batches of one second."""
        plant.start(
            "meter", source="recording", playlist=self.playlist, speed=speed, batch_samples=50, exit_at_end=True
        )

    def wait_until_confirmed(self, plant: Plant) -> None:
        """Everything was played, put, confirmed, computed and published; the aggregator has nothing left to do."""
        plant.wait(lambda: plant.services.status("meter") is not None)
        assert plant.services.status("meter") == 0, plant.services.last_line("meter")
        plant.wait(lambda: not plant.unconfirmed and len(plant.results()) == len(self.events))
        plant.wait(lambda: len({result.event_id for result in plant.published}) == len(self.events))
        plant.services.stop("aggregator")  # it ends its round: a receipt goes out before the results are computed
        assert plant.services.status("aggregator") == 0

    def assert_as_undisturbed(self, plant: Plant) -> None:
        """The journal holds what it would hold if nothing had happened."""
        assert_whole(plant, {each.event_id for each in self.events})
        assert plant.batches()["shared"] == self.batches
        for found, expected in zip(plant.finals(), self.results, strict=True):
            assert found == expected


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    """A square wave with noise, known to the last sample, and its results when nothing is killed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    events = [_recorded_train(number) for number in range(TRAINS)]
    playlist = folder / "playlist.json"
    (folder / "recording.cfn").write_bytes(_recording(events))
    entry = PlaylistEntry(
        path=Path("recording.cfn"), dut=DUT, meter="m1", meter_model="FNB58", timeline_id="shared", start_ns=T0
    )
    playlist.write_bytes(TypeAdapter(list[PlaylistEntry]).dump_json([entry]))
    with Plant(folder) as plant:
        whole = Replay(playlist, events, [], [])
        plant.start("aggregator")
        plant.put(*events)
        whole.start_meter(plant, speed=0)
        whole.wait_until_confirmed(plant)
        assert {result.quality for result in plant.results()} == {"good"}
        yield Replay(playlist, events, plant.finals(), plant.batches()["shared"])


@pytest.mark.mosquitto
def test_an_aggregator_killed_in_mid_stream_goes_on_from_its_journal(tmp_path: Path, replay: Replay) -> None:
    with Plant(tmp_path) as plant:
        plant.start("aggregator")
        plant.put(*replay.events[:5])
        replay.start_meter(plant)
        plant.wait(lambda: plant.count("batches") >= 15 and plant.count("results") > 0)
        plant.services.kill("aggregator")
        assert plant.count("batches") < len(replay.batches) - 15
        in_flight = plant.heard_batches + 10
        plant.put(*replay.events[5:])
        plant.wait(lambda: plant.heard_batches >= in_flight)
        assert plant.unconfirmed == len(replay.events) - 5
        plant.start("aggregator")
        replay.wait_until_confirmed(plant)
        replay.assert_as_undisturbed(plant)


@pytest.mark.mosquitto
def test_a_broker_killed_in_mid_stream_may_forget_everything_that_it_acknowledged(
    tmp_path: Path, replay: Replay
) -> None:
    with Plant(tmp_path) as plant:
        plant.start("aggregator")
        plant.put(*replay.events[:5])
        replay.start_meter(plant)
        plant.wait(lambda: plant.count("batches") >= 15)
        plant.broker.kill()
        plant.broker.start()
        plant.wait(lambda: plant.count("batches") >= 30)
        # Now what the broker holds for an aggregator that is away: acknowledged, and lost with the broker.
        plant.services.kill("aggregator")
        in_journal = plant.count("batches")
        plant.put(*replay.events[5:])
        plant.flush()
        in_broker = plant.heard_batches + 10
        plant.wait(lambda: plant.heard_batches >= in_broker)
        plant.broker.kill()
        plant.broker.start()
        assert plant.count("batches") == in_journal < len(replay.batches)
        plant.start("aggregator")
        replay.wait_until_confirmed(plant)
        replay.assert_as_undisturbed(plant)


# --- live services killed ----------------------------------------------------------------------------------------


@pytest.mark.mosquitto
def test_a_meter_killed_in_mid_train_costs_that_train_samples_and_no_other(tmp_path: Path) -> None:
    idle = [sys.executable, "-c", "input()"]
    with subprocess.Popen(idle, stdin=subprocess.PIPE) as board, Plant(tmp_path) as plant:
        simulated = SIMULATED | {"simulated_pid": board.pid, "batch_s": 0.2}
        plant.start("aggregator", hold_s=2)
        plant.start("meter", **simulated)
        plant.wait(lambda: plant.count("batches") > 0)
        clock = ServiceClock()
        before = _live_train(plant, clock, 1)
        hit = _live_train(plant, clock, 2, kill_meter=simulated)
        plant.wait(lambda: plant.count("streams") == 2)
        after = _live_train(plant, clock, 3)
        plant.wait(lambda: len({result.event_id for result in plant.published}) == 3)
        assert_whole(plant, {before, hit, after})
        results = {result.event_id: result for result in plant.results()}
        board.terminate()
    assert (results[before].quality, results[after].quality) == ("good", "good")
    assert results[hit].quality in ("degraded", "invalid")
    assert {"gap", "no_samples"} & set(results[hit].flags)


@pytest.mark.mosquitto
def test_a_runner_killed_after_a_train_delivers_it_once_and_a_train_cut_off_never(tmp_path: Path, openssl: str) -> None:
    spool = tmp_path / f"runner-{DUT}.spool"
    endless = RUNNER | {"plan": "null:1", "openssl": openssl, "rounds": 0}
    with Plant(tmp_path) as plant:
        pid = plant.start("runner", **endless | {"start_delay_s": 0, "broker_url": NOBODY_LISTENS})
        plant.wait(lambda: len(_spooled(spool)) == 1)
        left = _kill_runner(plant, pid)
        (event_id,) = _spooled(spool)

        plant.start("aggregator", without_meter=DUT)
        plant.wait(lambda: "aggregator" in plant.statuses)
        pid = plant.start("runner", **endless)
        plant.wait(lambda: plant.count("events") == 1)
        plant.wait(lambda: plant.statuses["runner"].state == "measuring" and _has_children(pid))
        left |= _kill_runner(plant, pid)
        assert _spooled(spool) == []

        plant.start("runner", **endless)
        plant.wait(lambda: plant.statuses["runner"].state == "online")
        plant.services.stop("runner")
        assert plant.services.status("runner") == 0
        assert left and not any(folder.exists() for folder in left)
        assert_whole(plant, {event_id})


@pytest.fixture(scope="session")
def openssl() -> str:
    """The openssl program on PATH: classical operations suffice here."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl program on PATH")
    return find_openssl(program).openssl.program


def _recorded_train(number: int) -> OperationEvent:
    """Key generations, but for one null train whose energy the others are told when it comes."""
    what = {"operation": "null", "parameter_set": "none"} if number == 5 else {}
    parts = segments(6, start_ns=T0 + round(number * TRAIN_S * SECOND))
    return event(parts, event_id=UUID(f"01890a5d-ac96-774b-bcce-{number:012x}"), **what)


def _recording(events: list[OperationEvent]) -> bytes:
    parts = [part for each in events for part in each.segments]
    noise = np.random.default_rng(3)
    square = steps(parts, 2.0, 5.0)
    data = trace(lambda t: square(t) + noise.normal(0, 0.05, len(t)), TRAINS * TRAIN_S, SECOND // RECORDING_HZ)
    return cfn_bytes(data.power_w.tolist(), RECORDING_HZ)


def _live_train(plant: Plant, clock: ServiceClock, number: int, kill_meter: dict[str, object] | None = None) -> UUID:
    """A train of three seconds from now on; in the middle the meter may be killed and started again."""
    parts = segments(5, load_s=0.25, idle_s=0.25, repetitions=10, start_ns=clock.now_ns())
    train = event(
        parts,
        event_id=UUID(f"01890a5d-ac96-774b-bcce-{number:012x}"),
        timeline_id=clock.timeline_id,
        host_clock=clock.host_clock,
        guard_s=0.05,
    )
    plant.wait(lambda: clock.now_ns() >= (train.start_ns + train.end_ns) // 2)
    if kill_meter is not None:
        plant.services.kill("meter")
        plant.start("meter", **kill_meter)
    plant.wait(lambda: clock.now_ns() >= train.end_ns)
    plant.put(train)
    return train.event_id


def _kill_runner(plant: Plant, pid: int) -> set[Path]:
    """The folders that it had in shared memory, which a killed process cannot take away."""
    folders = work_folders(pid)
    plant.services.kill("runner")
    assert all(folder.is_dir() for folder in folders)
    return folders


def _has_children(pid: int) -> bool:
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def _spooled(path: Path) -> list[UUID]:
    """The events in a runner's spool; none while there is no spool."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as spool:
            return [UUID(event_id) for (event_id,) in spool.execute("SELECT event_id FROM entries ORDER BY number")]
    except sqlite3.OperationalError:
        return []
