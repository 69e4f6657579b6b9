"""The runner as a process: it goes cleanly and quickly, and says in one line what is wrong."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus import Spool
from runner.openssl import OpenSsl
from schemas import OperationEvent

MakeFake = Callable[[str], OpenSsl]
pytestmark = pytest.mark.processes
DEADLINE_S = 30.0
NOBODY_LISTENS = "mqtt://127.0.0.1:9"


def _command(state_dir: Path, *arguments: str) -> list[str]:
    fixed = ("--dut", "pi4", "--broker-url", NOBODY_LISTENS, "--state-dir", str(state_dir), "--start-delay-s", "0")
    quick = ("--busy-wait-s", "0")
    return [sys.executable, "-m", "runner", *fixed, *quick, *arguments]


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


def test_operations_in_process_and_handshakes_become_events_after_python_was_started_again(
    tmp_path: Path, built35: OpenSsl
) -> None:
    plan = "lib/encaps:ML-KEM-768,handshake:X25519MLKEM768+ML-DSA-65,null,sham"
    command = _command(tmp_path, "--openssl", built35.program, "--plan", plan, "--train-s", "1", "--confirm-s", "0")
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert answer.returncode == 1, answer.stderr  # nobody has confirmed the events
    spool = Spool(tmp_path / "runner-pi4.spool", 10**7)
    events = [each for each in spool.take_due(0.0, 30.0, 100) if isinstance(each, OperationEvent)]
    spool.close()
    by_operation = {(event.operation, event.variant): event for event in events}
    encaps = by_operation["encaps", ""]
    assert (encaps.backend, encaps.null_variant, encaps.processes_per_repetition) == ("lib", "calls=1", 0)
    assert encaps.repetitions_verified > 1000 and not encaps.repetitions_failed, encaps.first_error
    handshake = by_operation["handshake", "certificate=ML-DSA-65"]
    assert handshake.handshake is not None and handshake.handshake.group == "X25519MLKEM768"
    assert {("null", "calls=1"), ("null", "connection"), ("sham", "")} <= set(by_operation)
    assert len({event.run_id for event in events}) == 1


def test_a_state_folder_that_cannot_be_written_is_told_and_measuring_goes_on(
    tmp_path: Path, system_openssl: OpenSsl
) -> None:
    (tmp_path / "file").write_text("")
    command = _command(tmp_path / "file" / "state", "--openssl", system_openssl.program, "--plan", "sham")
    answer = subprocess.run(
        [*command, "--train-s", "1", "--confirm-s", "0"], capture_output=True, text=True, check=False, timeout=60
    )
    assert answer.returncode == 1, answer.stderr
    assert "cannot be written (Not a directory): events wait in memory" in answer.stderr
    assert "sham: 0 repetitions" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_second_runner_is_refused_also_where_the_state_folder_cannot_be_written(
    tmp_path: Path, system_openssl: OpenSsl
) -> None:
    (tmp_path / "file").write_text("")
    command = _command(tmp_path / "file" / "state", "--openssl", system_openssl.program, "--plan", "wait")
    with _waiting(command), _waiting([*command, "--dut", "pi5"]):
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert second.returncode == 2
    assert second.stderr.splitlines()[-1].endswith("runner-pi4.spool is in use by another process")
    with _waiting(command):
        pass


@contextmanager
def _waiting(command: Sequence[str]) -> Iterator[None]:
    """A runner that has come as far as to look for its broker."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as runner:
        assert runner.stderr is not None
        assert any("cannot reach it" in line for line in runner.stderr)
        try:
            yield
        finally:
            runner.terminate()
