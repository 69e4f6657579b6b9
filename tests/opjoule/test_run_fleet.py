"""`opjoule run` on a board: real broker, runner, aggregator and simulated meter; started, followed, left, stopped."""

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus import BrokerAddress, MqttBus
from opjoule.__main__ import main
from opjoule.local_broker import LocalBroker
from opjoule.processes import Services, dies_with_parent
from opjoule.study.published import PublishedRow, read_published

SYSTEM = shutil.which("openssl") or ""
pytestmark = [pytest.mark.processes, pytest.mark.skipif(not SYSTEM, reason="no openssl program on PATH")]

TWO_TRAINS = 'items = ["sign:ECDSA-P-256"]\ntrain_s = 1\nnull_every = 0\norder = "as-written"\n'
OF_ANOTHER_CPU = """
train_s = 1
null_every = 0
[[measure]]
operations = "sign"
sets = "ECDSA-P-256"
backends = "lib"
capability_masks = "OPENSSL_riscvcap=0"
"""
WITHOUT_END = 'items = ["sham"]\ntrain_s = 1\nrounds = 0\n'


@pytest.fixture(scope="module")
def broker_url(tmp_path_factory: pytest.TempPathFactory, broker: None) -> Iterator[str]:
    """A lab with one board, `pi4`, that waits for commands."""
    folder = tmp_path_factory.mktemp("lab")
    with LocalBroker(folder / "broker") as made, Services(folder) as services:
        bus = MqttBus(BrokerAddress.parse(made.url), "test")
        assert bus.connect(10)
        shared: dict[str, object] = {"broker_url": made.url, "site": "lab", "state_dir": folder}
        services.start("aggregator", shared | {"journal": folder / "journal.sqlite"})
        services.wait_until_online(bus, "lab", "aggregator")
        runner = {"dut": "pi4", "plan": "wait", "start_delay_s": 0, "busy_wait_s": 0, "openssl": SYSTEM}
        pid = services.start("runner", shared | runner)
        meter = {"source": "simulated", "dut": "pi4", "meter": "simulated-1", "simulated_pid": pid}
        services.start("meter", shared | meter)
        services.wait_until_online(bus, "lab", "runner")
        services.wait_until_online(bus, "lab", "meter")
        bus.disconnect()
        yield made.url


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    """SIGTERM as it was: the command runs in this process."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _campaign(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_campaign_is_started_on_the_board_and_followed_to_its_joules(
    broker_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "joules.csv"
    words = ["run", _campaign(tmp_path, TWO_TRAINS), "--dut", "pi4", "--broker", broker_url, "--out", str(out)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "pi4: 0 of 2 trains; in a train until " in shown
    assert "pi4: sign ECDSA-P-256 by cli: " in shown and "SIMULATED" in shown
    assert shown.splitlines()[-1] == "pi4, 2 of 2 trains: finished"
    (row,) = read_published(out)
    assert isinstance(row, PublishedRow) and row.has_power
    assert (row.machine, row.subject.operation, row.subject.parameter_set) == ("pi4", "sign", "ECDSA-P-256")
    with out.open(encoding="utf-8", newline="") as file:
        (cells,) = csv.DictReader(file)
    assert (cells["simulated"], cells["meter"], cells["failed"]) == ("yes", "simulated-1", "0")
    assert float(cells["u95_j"]) > 0


def test_a_campaign_that_somebody_else_stops_is_no_success(broker_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "opjoule", "run", _campaign(tmp_path, WITHOUT_END), "--broker", broker_url]
    process = subprocess.Popen(dies_with_parent(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any(line.startswith("pi4: 0 trains; in a train until ") for line in process.stdout)
    assert main(["run", "stop", "--broker", broker_url]) == 0
    said, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (1, "")
    assert re.fullmatch(r"pi4, \d+ trains: stopped by a command", said.splitlines()[-1])


def test_what_a_board_could_not_measure_is_told_with_the_reason_and_is_no_success(
    broker_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", _campaign(tmp_path, OF_ANOTHER_CPU), "--dut", "pi4", "--broker", broker_url]) == 1
    reason = "left out: sign ECDSA-P-256 OPENSSL_riscvcap=0 by lib: OPENSSL_riscvcap has no effect on "
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"pi4, 1 of 2 trains: finished; {reason}")


def test_ctrl_c_leaves_the_board_measuring_and_stop_ends_it_after_its_train(
    broker_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = _campaign(tmp_path, WITHOUT_END)
    command = [sys.executable, "-m", "opjoule", "run", endless, "--broker", broker_url]
    process = subprocess.Popen(dies_with_parent(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any(line.startswith("pi4: 0 trains; in a train until ") for line in process.stdout)
    process.send_signal(signal.SIGINT)
    said, complaints = process.communicate(timeout=20)
    assert (process.returncode, complaints) == (130, "")
    stop = f"opjoule run stop --dut pi4 --broker {broker_url}"
    assert said.splitlines()[-1] == f"the boards go on measuring; to stop them: {stop}"

    assert main(["run", endless, "--broker", broker_url]) == 1
    assert "is under way: send stop first" in capsys.readouterr().out
    assert main(stop.split()[1:]) == 0
    assert "pi4: stops after the train that is under way" in capsys.readouterr().out


def test_a_plan_for_a_board_is_what_it_says_of_itself(broker_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "plan", "sign", "ECDSA-P-256", "Ed25519", "--dut", "pi4", "--broker", broker_url]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("pi4: ") and "OpenSSL 3" in shown.splitlines()[0]
    assert "4 trains a round, about 4 min" in shown


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["demo", "--dut", "pi5"], "no board is called pi5; online at site lab: pi4"),
        (["demo", "--repetitions", "5"], "--repetitions is not for boards: their runners decide that"),
        (["demo", "--site", "elsewhere"], "no runner is online at site elsewhere of mqtt://127.0.0.1:"),
        (["demo", "--out", "/nowhere/x.csv"], "--out /nowhere/x.csv cannot be written: No such file or directory"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    broker_url: str, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words, "--broker", broker_url]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"opjoule run: {line}") and said.count("\n") == 1


def test_a_broker_that_is_not_there_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("opjoule.run.broker.CONNECT_S", 1.0)
    monkeypatch.setitem(os.environ, "OPJOULE_BROKER_URL", "mqtt://127.0.0.1:1")
    assert main(["run", "demo"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("opjoule run: the broker at mqtt://127.0.0.1:1 does not answer: ") and said.count("\n") == 1
