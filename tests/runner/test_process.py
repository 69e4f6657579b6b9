"""The runner as a process: it goes cleanly and quickly, and says in one line what is wrong."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bus import Spool
from runner.openssl import OpenSsl

MakeFake = Callable[[str], OpenSsl]
pytestmark = pytest.mark.processes
DEADLINE_S = 30.0
NOBODY_LISTENS = "mqtt://127.0.0.1:9"


def _command(state_dir: Path, *arguments: str) -> list[str]:
    fixed = ("--dut", "pi4", "--broker-url", NOBODY_LISTENS, "--state-dir", str(state_dir), "--start-delay-s", "0")
    return [sys.executable, "-m", "runner", *fixed, *arguments]


def _wait_for(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.02)


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_mid_train_leaves_no_orphan_no_file_and_no_event(
    tmp_path: Path, make_fake: MakeFake, number: signal.Signals
) -> None:
    openssl = make_fake(
        f'if [ $count = 20 ]; then echo $$ > {tmp_path}/pid; echo "$8" > {tmp_path}/out; sleep 1000; fi'
    )
    command = _command(tmp_path, "--openssl", openssl.program, "--plan", "sign:Ed25519")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as runner:
        _wait_for(lambda: (tmp_path / "out").exists() or runner.poll() is not None)
        start_s = time.monotonic()
        runner.send_signal(number)
        _, errors = runner.communicate(timeout=DEADLINE_S)
    assert time.monotonic() - start_s < 10
    assert runner.returncode == 0, errors
    assert "Traceback" not in errors
    assert "stopped, 0 events wait in the spool" in errors
    assert _is_gone(int((tmp_path / "pid").read_text()))
    assert not Path((tmp_path / "out").read_text().strip()).parent.exists()


def test_a_second_runner_for_the_same_board_is_refused_in_one_line(tmp_path: Path, system_openssl: OpenSsl) -> None:
    spool = Spool(tmp_path / "runner-pi4.spool", 10**6)
    try:
        answer = subprocess.run(
            _command(tmp_path, "--openssl", system_openssl.program, "--log-level", "error", "--plan", "sham"),
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
    finally:
        spool.close()
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert line.startswith("runner: ")
    assert "runner-pi4.spool" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--plan", "keygen:MLKEM768"), "did you mean ML-KEM-768?"),
        (("--openssl", "/no/such/openssl"), "names '/no/such/openssl', which is no program"),
        (("--dut", "Not A Name"), "--dut (OPJOULE_DUT)"),
        (("--broker-url", "http://x"), "must be mqtt://HOST[:PORT]"),
    ],
)
def test_a_wrong_setting_ends_with_one_line_and_status_2(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    answer = subprocess.run(
        [*_command(tmp_path, "--log-level", "error"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env={**os.environ},
    )
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert said in line
