"""`opjoule run` without a broker: real operations of the OpenSSL here, timed, verified, and a table as the study's."""

import csv
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opjoule.__main__ import main
from opjoule.processes import dies_with_parent
from opjoule.study.published import PublishedRow, read_published
from runner.openssl import OpenSsl
from tests.opjoule.studies import IDLE_W, SIGN_W, Study, cfn

SYSTEM = shutil.which("openssl") or ""
pytestmark = pytest.mark.skipif(not SYSTEM, reason="no openssl program on PATH")


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable names a broker or a program; signals are as they were afterwards."""
    for name in [name for name in os.environ if name.startswith("OPJOULE_")]:
        monkeypatch.delenv(name)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def rows_of(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV by column."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _run(*words: str) -> int:
    return main(["run", *words, "--openssl", SYSTEM])


def test_operations_are_timed_and_the_study_reads_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "times.csv"
    words = ("sign", "ECDSA-P-256", "Ed25519", "--repetitions", "7", "--machine", "Pi 4", "--out", str(out))
    assert _run(*words) == 0
    shown = capsys.readouterr()
    assert "3 loops to time on this machine; no broker is named, so no energy is measured" in shown.out
    assert all(len(line) <= 80 for line in shown.out.splitlines()[2:])
    assert "3 of 3: sign Ed25519 by cli: " in shown.err
    rows = read_published(out)
    assert all(isinstance(row, PublishedRow) for row in rows)
    assert [
        (row.machine, row.subject.parameter_set, row.iterations) for row in rows if isinstance(row, PublishedRow)
    ] == [
        ("Pi 4", "ECDSA-P-256", 7),
        ("Pi 4", "Ed25519", 7),
    ]
    cells = rows_of(out)
    assert all(float(row["null_s"]) > 0 and row["verified"] == "yes" and row["openssl"] for row in cells)


@pytest.mark.processes
def test_opjoule_study_calls_its_rows_timing_only(
    study: Study, capsys: pytest.CaptureFixture[str], broker: None
) -> None:
    study.record("pi1/01_pi1_baseline.cfn", cfn(IDLE_W))
    study.record("pi1/02_pi1_signing_ed25519.cfn", cfn(SIGN_W))
    words = ("sign", "Ed25519", "--repetitions", "2", "--machine", "pi1", "--out", str(study.table))
    assert _run(*words) == 0
    capsys.readouterr()
    assert main(["study", str(study.recordings), "--published", str(study.table)]) == 0
    shown = capsys.readouterr().out
    assert "1 timing only" in shown and "sign       Ed25519" in shown and " mJ " in shown


def test_what_fails_is_said_loudly_and_the_status_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "times.csv"
    words = ("sign", "RSA-2048", "Ed25519", "--form", "as-published", "--repetitions", "2", "--message-bytes", "100")
    assert _run(*words, "--out", str(out)) == 1
    shown = capsys.readouterr().out
    assert "FAILED: sign RSA-2048 by cli: 2 of 2 repetitions: pkeyutl: exit 1: " in shown
    row = next(each for each in rows_of(out) if each["algorithm"] == "RSA-2048")
    assert (row["iterations"], row["failed"], row["verified"], row["time per iteration"]) == ("0", "2", "no", "")


def test_what_this_openssl_lacks_is_left_out_and_missed_where_it_was_named(
    capsys: pytest.CaptureFixture[str], classical: Path
) -> None:
    words = ["run", "sign", "ECDSA-P-256", "ML-DSA-65", "--repetitions", "1", "--openssl", str(classical)]
    assert main(words) == 1
    assert "left out: sign ML-DSA-65: OpenSSL " in capsys.readouterr().out
    assert main(["run", "sign", "ECDSA-P-256", "ML-DSA-*", "--repetitions", "1", "--openssl", str(classical)]) == 0
    capsys.readouterr()
    assert main(["run", "sign", "ML-DSA-65", "--openssl", str(classical)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("opjoule run: OpenSSL ") and said.err.endswith(" lacks ML-DSA-65\n")


@pytest.fixture
def classical(tmp_path: Path) -> Path:
    """The program on PATH, which says that it has no post-quantum sets."""
    program = tmp_path / "openssl"
    hidden = "sed -E '/ML-(KEM|DSA)|SLH-DSA/Id'"
    program.write_text(f'#!/bin/sh\ncase "$1" in list) {SYSTEM} "$@" | {hidden};; *) exec {SYSTEM} "$@";; esac\n')
    program.chmod(0o755)
    return program


def test_a_plan_says_what_would_run_and_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("plan", "sign", "ECDSA-P-256", "Ed25519") == 0
    shown = capsys.readouterr().out
    table = shown.partition(" one round ")[2]
    assert table and all(len(line) <= 80 for line in table.splitlines())
    assert "sign ECDSA-P-256" in shown and "null 1 process: key+message" in shown and "sham" in shown
    assert "4 trains a round, about 4 min 0" in shown and "timing it here" in shown
    assert " ms " in shown


def test_a_plan_without_trials_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("plan", "sign", "ECDSA-P-256", "--no-trial") == 0
    shown = capsys.readouterr()
    assert " ms " not in shown.out and "timing it here" not in shown.out and shown.err == ""


def test_the_campaigns_that_come_with_opjoule_are_listed_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"demo", "continuous", "study-1", "study-2-as-published"} <= {line.split()[0] for line in lines}
    assert all(len(line) <= 80 for line in lines)
    assert "demo                  A first look" in "\n".join(lines)


def test_times_need_nothing_that_is_heavy() -> None:
    heavy = {"numpy", "scipy", "aggregator", "meter", "influxdb_client"}
    program = f"import sys, opjoule.run, opjoule.run.local, opjoule.run.planned; print(*({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout == "\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["sing", "ML-DSA-65"], "'sing' is no operation: did you mean sign?"),
        (["sign", "ECDSA-P-265"], "ECDSA-P-265: no such parameter set: did you mean ECDSA-P-256?"),
        (["dmeo"], "nothing is called 'dmeo': did you mean demo?"),
        (["sing"], "nothing is called 'sing': did you mean sign?"),
        (["ml-dsa-65"], "say what to do with ML-DSA-65, e.g. keygen ML-DSA-65"),
        (["nowhere.toml"], "nowhere.toml: No such file or directory"),
        (["demo", "--backend", "lib"], "--backend goes with operations or `all`"),
        (["sign", "Ed25519", "--repetitions", "0"], "--repetitions 0 is not between 1 and 1000000"),
        (["sign", "Ed25519", "--train-s", "5"], "--train-s is not for this machine: that has no trains, name a board"),
        (
            ["sign", "Ed25519", "--out", "/nowhere/times.csv"],
            "--out /nowhere/times.csv cannot be written: No such file",
        ),
        (
            ["sign", "Ed25519", "--openssl", "/nowhere/openssl"],
            "--openssl names '/nowhere/openssl', which is no program",
        ),
        (["plan"], "plan needs what to plan, e.g. plan demo"),
        (["list", "demo"], "list takes no more words, not 'demo'"),
        (["stop", "now"], "stop takes boards by --dut, not 'now'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_runs(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"opjoule run: {line}") and said.err.count("\n") == 1
    assert said.out == ""


def test_a_campaign_file_with_a_mistake_names_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[measure]]\noperations = ["sign"]\nsets = ["Ed25519"]\nbackend = "cli"\n')
    assert main(["run", str(file)]) == 2
    assert f"{file}, line 4: there is no key backend: did you mean backends?" in capsys.readouterr().err


def test_a_file_that_is_there_keeps_its_content_when_nothing_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "times.csv"
    out.write_text("precious\n")
    assert main(["run", "sign", "Ed25519", "--openssl", "/nowhere/openssl", "--out", str(out)]) == 2
    assert out.read_text() == "precious\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_disk_that_fills_up_ends_no_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("sign", "Ed25519", "--repetitions", "1", "--out", "/dev/full") == 1
    shown = capsys.readouterr().out
    assert "sign       Ed25519" in shown
    assert shown.splitlines()[-1] == "--out /dev/full cannot be written: No space left on device"


@pytest.mark.processes
@pytest.mark.openssl35
def test_lib_and_handshake_are_timed_in_a_process_on_the_libraries(tmp_path: Path, openssl35: OpenSsl) -> None:
    out = tmp_path / "times.csv"
    items = "encaps:ML-KEM-768,lib/encaps:ML-KEM-768,handshake:X25519MLKEM768+ML-DSA-65,null"
    command = [sys.executable, "-m", "opjoule", "run", items, "--repetitions", "20", "--out", str(out)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    by_cli, by_lib, handshake = rows_of(out)
    assert float(by_lib["median_s"]) < float(by_cli["median_s"])
    assert (handshake["method"], handshake["variant"]) == ("tls handshake", "certificate=ML-DSA-65")
    assert all(float(row["null_s"]) > 0 for row in (by_cli, by_lib, handshake))


@pytest.mark.processes
def test_ctrl_c_shows_and_keeps_what_was_timed_until_then(tmp_path: Path) -> None:
    out = tmp_path / "times.csv"
    words = ["run", "keygen:Ed25519,keygen:RSA-2048", "--repetitions", "100000", "--openssl", SYSTEM, "--out", str(out)]
    command = [sys.executable, "-c", _FEW_THEN_MANY, *words]
    process = subprocess.Popen(dies_with_parent(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("1 of 2: keygen Ed25519 by cli: ")
    process.send_signal(signal.SIGINT)
    shown, complaints = process.communicate(timeout=30)
    assert (process.returncode, complaints) == (130, "")
    assert "stopped; what was timed until then:" in shown and "keygen     Ed25519" in shown
    assert [row["algorithm"] for row in rows_of(out)] == ["Ed25519"]


_FEW_THEN_MANY = """
import sys
from opjoule.__main__ import main
from opjoule.run.local import Measuring
Measuring._count = lambda self, job, median_s: 3 if job.parameter_set == "Ed25519" else 100_000
sys.exit(main())
"""
