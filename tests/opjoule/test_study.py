"""`opjoule study` on small studies, through real processes: what it says, what it writes, how it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.journal import Journal
from aggregator.journal_tables import ResultFilter
from opjoule import local_broker
from opjoule.__main__ import INTERRUPTED, main
from opjoule.study import command
from opjoule.study.layout import Replay, lay_out
from tests.opjoule.studies import (
    HEADER,
    IDLE_W,
    SIGN_J,
    SIGN_W,
    VERIFY_J,
    VERIFY_W,
    Study,
    cfn,
    converter_csv,
    power_around,
    run_study,
    sign_line,
    spreadsheet_csv,
    verify_line,
    without_privileges,
)

processes = pytest.mark.processes


def without_progress(err: str) -> list[str]:
    """The lines that are about what went wrong."""
    return [line.rstrip() for line in err.splitlines() if not line.startswith("replaying ")]


def record_board(study: Study, write: Callable[[list[float]], bytes], idle: str, sign: str, verify: str) -> None:
    for name, power_w in ((idle, IDLE_W), (sign, SIGN_W), (verify, VERIFY_W)):
        study.record(name, write(power_w))


@processes
@pytest.mark.usefixtures("broker")
def test_a_study_gives_the_same_figures_in_every_form(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    record_board(
        study,
        cfn,
        "pi1/01_pi1_baseline.cfn",
        "pi1/23_pi1_signing_ml-dsa-44.cfn",
        "pi1/37_pi1_verifying_ml-dsa-44.cfn",
    )
    record_board(
        study,
        spreadsheet_csv,
        "pi3/csv_files/pi3_baseline.csv",
        "pi3/csv_files/pi3_sign_ml-dsa-44.csv",
        "pi3/csv_files/pi3_verification_ml-dsa-44.csv",
    )
    record_board(
        study,
        converter_csv,
        "pi2/01_pi2v1.2_baseline.csv",
        "pi2/23_pi2v1.2_signing_ml-dsa-44.csv",
        "pi2/37_pi2v1.2_verifying_ml-dsa-44.csv",
    )
    record_board(study, cfn, "Pi 4/baseline.cfn", "Pi 4/signing_mldsa44.cfn", "Pi 4/verifying_mldsa44.cfn")
    machines = ("pi1", "pi3", "pi2v1.2", "Pi 4")
    study.lines = [line for machine in machines for line in (sign_line(machine), verify_line(machine))]
    study.lines.append("Laptop,signatures,signing,ML-DSA-44,100,,,,0.001,,,,,")

    outcome = run_study(study, capsys)

    assert (outcome.status, without_progress(outcome.err)) == (0, [])
    assert outcome.row("Laptop", "sign", "ML-DSA-44")["verdict"] == "timing only"
    for machine in machines:
        for operation, energy_j in (("sign", SIGN_J), ("verify", VERIFY_J)):
            row = outcome.row(machine, operation, "ML-DSA-44")
            assert row["verdict"] == "agrees"
            assert float(row["net_j_per_op"]) == pytest.approx(energy_j, rel=1e-6)
            assert float(row["ratio"]) == pytest.approx(1, abs=1e-6)
            assert 0 < float(row["u95_j_per_op"]) < 0.01 * energy_j
            assert row["flags"].split() == ["separate_timing", "single_baseline"]
    assert "    8 agrees" in outcome.out and "    1 timing only" in outcome.out

    journal = Journal(study.out / "journal.sqlite", read_only=True)
    results = {str(each.event_id): each for each in journal.results.find(ResultFilter(site="study"))}
    journal.close()
    assert {row["event_id"] for row in outcome.rows if row["event_id"]} == set(results)
    again = run_study(study, capsys)
    assert again.rows == outcome.rows


def refusal(study: Study, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which the command refuses."""
    assert main(["study", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = without_progress(said.err)
    assert line.startswith("opjoule study: ")
    return line.removeprefix("opjoule study: ")


def test_folders_and_tables_that_are_not_there_are_named(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    table = study.write_table()
    missing = study.folder / "missing"
    assert refusal(study, capsys, str(missing), "--published", str(table)) == f"{missing}: there is no such folder"
    assert (
        refusal(study, capsys, str(study.recordings), "--published", str(missing))
        == f"{missing}: No such file or directory"
    )
    assert "no recordings (.cfn or .csv) in it" in refusal(
        study, capsys, str(study.recordings), "--published", str(table)
    )


def test_a_table_without_a_needed_column_is_refused(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    study.table.write_text(HEADER.replace("algorithm", "algo"), "utf-8")
    line = refusal(study, capsys, str(study.recordings), "--published", str(study.table))
    assert line.startswith(f"{study.table}: the column 'algorithm' is missing")


def test_an_out_folder_that_cannot_be_is_refused_before_anything_is_played(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    study.record("pi1/pi1_baseline.cfn", cfn(IDLE_W))
    study.record("pi1/pi1_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    study.lines = [sign_line("pi1")]
    arguments = (str(study.recordings), "--published", str(study.write_table()), "--out")
    assert refusal(study, capsys, *arguments, str(study.table)) == f"--out {study.table} cannot be written: File exists"
    below = study.table / "below"
    assert refusal(study, capsys, *arguments, str(below)) == f"--out {below} cannot be written: Not a directory"


def test_folders_without_permission_are_refused_before_anything_is_played(
    shared_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study(shared_folder)
    study.record("pi1/pi1_baseline.cfn", cfn(IDLE_W))
    study.out.mkdir()
    arguments = (str(study.recordings), "--published", str(study.write_table()), "--out", str(study.out))
    with without_privileges(study.out):
        assert refusal(study, capsys, *arguments) == f"--out {study.out} cannot be written: Permission denied"
    below = study.out / "recordings"
    with without_privileges(study.out, 0o000):
        line = refusal(study, capsys, str(below), "--published", str(study.table))
    assert line == f"{below}: Permission denied"


@processes
@pytest.mark.usefixtures("broker")
def test_results_that_cannot_be_written_in_the_end_are_one_line_below_the_table(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    study.record("pi1/pi1_baseline.cfn", cfn(IDLE_W))
    study.record("pi1/pi1_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    study.lines = [sign_line("pi1")]
    (study.out / "study.csv").mkdir(parents=True)
    arguments = ["study", str(study.recordings), "--published", str(study.write_table()), "--out", str(study.out)]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert "1 agrees" in said.out
    assert said.err.splitlines()[-1] == f"opjoule study: --out {study.out} cannot be written: Is a directory"


def test_without_a_broker_it_says_what_to_install(
    study: Study, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_broker, "available", lambda kind: False)
    study.record("pi1/pi1_baseline.cfn", cfn(IDLE_W))
    study.record("pi1/pi1_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    study.lines = [sign_line("pi1")]
    line = refusal(study, capsys, str(study.recordings), "--published", str(study.write_table()))
    assert line == "no MQTT broker here: install the program mosquitto, or the Python package iotcore"


@processes
@pytest.mark.usefixtures("broker")
def test_a_recording_that_vanishes_before_it_is_played_ends_the_study_with_its_name(
    study: Study, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study.record("pi1/pi1_baseline.cfn", cfn(IDLE_W))
    path = study.record("pi1/pi1_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    study.lines = [sign_line("pi1")]

    def lay_out_and_lose(*arguments: object) -> Replay:
        plan = lay_out(*arguments)  # type: ignore[arg-type]
        path.unlink()
        return plan

    monkeypatch.setattr(command, "lay_out", lay_out_and_lose)
    line = refusal(study, capsys, str(study.recordings), "--published", str(study.write_table()))
    assert line.startswith("the meter ended with status 1: ")


def test_a_study_with_nothing_to_play_needs_no_broker(
    study: Study, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_broker, "available", lambda kind: False)
    study.record("pi1/pi1_baseline.cfn", cfn(IDLE_W))
    study.lines = [sign_line("pi1"), "Laptop,signatures,signing,ML-DSA-44,100,,,,0.001,,,,,"]
    outcome = run_study(study, capsys)
    assert outcome.status == 1
    assert [row["verdict"] for row in outcome.rows] == ["not recorded", "timing only"]
    assert not (study.out / "journal.sqlite").exists()


@processes
@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_study_that_is_stopped_leaves_no_process_and_no_folder(study: Study, number: signal.Signals) -> None:
    for name, power_w in (("baseline", IDLE_W), ("signing_ml-dsa-44", power_around(1.5, 200_000))):
        study.record(f"pi1/pi1_{name}.cfn", cfn(power_w))
    study.lines = [sign_line("pi1")]
    command_line = ["study", str(study.recordings), "--published", str(study.write_table())]
    with subprocess.Popen(
        [sys.executable, "-m", "opjoule", *command_line],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(study.folder)},
    ) as process:
        _wait_until(lambda: any(study.folder.glob("opjoule-study-*/meter.log")))
        process.send_signal(number)
        assert process.wait(20) == INTERRUPTED
        assert process.stderr is not None and "Traceback" not in process.stderr.read()
    assert list(study.folder.glob("opjoule-study-*")) == []
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(study.folder) in _text(path)]
    assert left == []


def _wait_until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def _text(path: Path) -> str:
    """Of a file that may have gone away."""
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
