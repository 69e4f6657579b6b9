"""`python -m meter` as a process of its own, on a real broker."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus import Spool
from opjoule.local_broker import LocalBroker
from tests.meter.process_rig import DEADLINE_S, Listener, end_of, start

pytestmark = pytest.mark.processes
SIMULATED = ["--source", "simulated", "--dut", "pi4", "--meter", "m1"]


@pytest.fixture(scope="module")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for this module."""
    with LocalBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.url


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_quickly_and_leaves_an_offline_status(
    tmp_path: Path, broker_url: str, number: signal.Signals
) -> None:
    site = f"signal-{number.name.lower()}"
    listener = Listener(broker_url, site)
    process = start(tmp_path, broker_url, site, *SIMULATED, "--batch-s", "0.2")
    listener.listen_until(lambda: len(listener.batches) > 1 and listener.statuses[-1].duts == ("pi4",))
    begin_s = time.monotonic()
    process.send_signal(number)
    code, errors = end_of(process)
    assert time.monotonic() - begin_s < 2.0
    assert code == 0
    assert "Traceback" not in errors
    listener.listen_until(lambda: listener.statuses[-1].state == "offline")
    listener.close()
    late = Listener(broker_url, site)
    late.listen_until(lambda: bool(late.statuses))
    late.close()
    assert late.statuses[0].state == "offline"
    assert late.statuses[0].health["simulated_seed"] == 1.0


def test_a_kill_leaves_an_offline_status_too_and_the_next_start_is_a_new_timeline(
    tmp_path: Path, broker_url: str
) -> None:
    listener = Listener(broker_url, "killed")
    process = start(tmp_path, broker_url, "killed", *SIMULATED)
    listener.listen_until(lambda: bool(listener.batches))
    process.kill()
    end_of(process)
    listener.listen_until(lambda: listener.statuses[-1].state == "offline")
    seen = len(listener.batches)
    again = start(tmp_path, broker_url, "killed", *SIMULATED)
    first = listener.batches[0].timeline_id
    listener.listen_until(lambda: any(batch.timeline_id != first for batch in listener.batches[seen:]))
    again.terminate()
    end_of(again)
    listener.close()
    begun = next(batch for batch in listener.batches[seen:] if batch.timeline_id != first)
    assert begun.seq == 0
    assert begun.rejected_frames >= 2  # the first reports after opening may be stale


def test_simulated_samples_carry_the_clock_of_the_host_and_say_simulated(tmp_path: Path, broker_url: str) -> None:
    listener = Listener(broker_url, "stamped")
    process = start(tmp_path, broker_url, "stamped", *SIMULATED, "--simulated-pid", str(os.getpid()))
    listener.listen_until(lambda: bool(listener.batches))
    process.terminate()
    end_of(process)
    listener.close()
    batch = listener.batches[0]
    assert (batch.meter_kind, batch.meter_model) == ("simulated", "FNB58 (simulated)")
    assert batch.host_clock is not None
    assert abs(batch.start_ns - time.time_ns()) < 60e9
    assert batch.voltage_v is not None


def test_without_a_broker_it_warns_once_and_spools(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(DEADLINE_S)
        process = start(tmp_path, f"mqtt://127.0.0.1:{door.getsockname()[1]}", "alone", *SIMULATED)
        for _ in range(10):  # attempts of its two connections; with their pauses 3 s at least
            door.accept()[0].close()
        process.terminate()
        code, errors = end_of(process)
    assert code == 0
    assert errors.count("WARNING") == 1
    (file,) = tmp_path.glob("*.spool")
    spool = Spool(file, 10**9)
    assert spool.pending >= 1
    spool.close()


def write_recording(folder: Path) -> Path:
    file = folder / "a.csv"
    file.write_text("# 50.0 sps\nTime,Power\n" + "".join(f"{row * 0.02:.8f},1.5\n" for row in range(250)))
    return file


def playing(file: Path) -> list[str]:
    return [
        *["--source", "recording", "--recording", str(file), "--dut", "pi1", "--meter", "fnb"],
        *["--speed", "0", "--exit-at-end", "true", "--confirm-timeout-s", "1"],
    ]


def test_a_confirmed_recording_ends_with_success(tmp_path: Path, broker_url: str) -> None:
    listener = Listener(broker_url, "confirmed", confirm=True)
    process = start(tmp_path, broker_url, "confirmed", *playing(write_recording(tmp_path)))
    listener.listen_until(lambda: process.poll() is not None)
    code, errors = end_of(process)
    listener.close()
    assert code == 0, errors
    assert sum(len(batch.power_w) for batch in {batch.seq: batch for batch in listener.batches}.values()) == 250


def test_an_unconfirmed_recording_ends_with_one_clear_line(tmp_path: Path, broker_url: str) -> None:
    code, errors = end_of(start(tmp_path, broker_url, "unconfirmed", *playing(write_recording(tmp_path))))
    assert code == 1
    assert "3 batches not confirmed" in errors
    assert "Traceback" not in errors


def test_an_unreadable_recording_ends_with_one_clear_line(tmp_path: Path, broker_url: str) -> None:
    file = tmp_path / "foreign.cfn"
    file.write_bytes(b"not a recording at all")
    code, errors = end_of(start(tmp_path, broker_url, "unreadable", *playing(file)))
    assert code == 1
    assert f"{file}: not a .cfn recording" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "meter: --source (OPJOULE_SOURCE) must be given"),
        (["--source", "simulated"], "meter: --dut and --meter must be given"),
        (
            [*SIMULATED, "--simulated-pid", "4194999"],
            "meter: --simulated-pid (OPJOULE_SIMULATED_PID): there is no process",
        ),
        ([*SIMULATED, "--broker-url", "http://x"], "meter: broker URL 'http://x' must be"),
        (["--source", "recording", "--playlist", "/none.json"], "meter: playlist /none.json: No such file"),
    ],
)
def test_a_wrong_setting_is_one_line_and_status_2(tmp_path: Path, arguments: list[str], what: str) -> None:
    code, errors = end_of(start(tmp_path, "mqtt://127.0.0.1:1", "wrong", *arguments))
    assert code == 2
    assert errors.startswith(what)
    assert errors.count("\n") == 1
