"""Child processes end, hang, are asked to end: the same with pidfd and, where the system has none, with a pipe."""

import errno
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.job import Job
from runner.openssl import OpenSsl
from runner.openssl import cli as cli_module
from runner.openssl.children import Children, PidfdChildren, PipeChildren, children
from runner.operations import Bench, prepare_work
from runner.stopping import Stop, Stopped

MakeBench = Callable[..., Bench]
SHELL = "/bin/sh"
LIMIT_S = 30.0
needs_pidfd = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system has no pidfd")
BOTH = [pytest.param(PidfdChildren, marks=needs_pidfd), PipeChildren]


@pytest.fixture(params=BOTH)
def waiting(request: pytest.FixtureRequest, stop: Stop) -> Children:
    """Either way of waiting."""
    made: Children = request.param(stop)
    return made


def _spawn(waiting: Children, script: str) -> int:
    return waiting.spawn((SHELL, "-c", script), {"PATH": os.environ["PATH"]}, [])


def _open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208


def test_the_exit_status_and_cpu_time_of_a_child_are_told(waiting: Children) -> None:
    before = _open_descriptors()
    reaped = waiting.reap(_spawn(waiting, "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; exit 3"), LIMIT_S)
    assert (reaped.exit_status, reaped.in_time) == (3, True)
    assert reaped.cpu_time_s > 0.001
    assert _open_descriptors() == before


def test_a_child_killed_by_a_signal_has_its_negative_as_status(waiting: Children) -> None:
    assert waiting.reap(_spawn(waiting, "kill -9 $$"), LIMIT_S).exit_status == -9


def test_a_child_that_hangs_is_killed_at_the_limit(waiting: Children) -> None:
    start_s = time.monotonic()
    reaped = waiting.reap(_spawn(waiting, "exec sleep 1000"), 0.2)
    assert (reaped.exit_status, reaped.in_time) == (-9, False)
    assert 0.2 <= time.monotonic() - start_s < 10


@pytest.mark.not_emulated
def test_a_request_to_end_kills_the_child_and_is_passed_on(waiting: Children, stop: Stop) -> None:
    pid = _spawn(waiting, "exec sleep 1000")
    stop.request()
    with pytest.raises(Stopped):
        waiting.reap(pid, LIMIT_S)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _spawn_closed(waiting: Children, then: str) -> int:
    """A child that closes every descriptor and lives on."""
    lines = f"import os, time; os.closerange(0, 256); time.sleep({then}); os._exit(5)"
    return waiting.spawn((sys.executable, "-S", "-c", lines), {}, [])


def test_a_child_that_closes_all_it_has_and_lives_on_is_waited_for_to_its_end(waiting: Children) -> None:
    assert waiting.reap(_spawn_closed(waiting, "0.1"), LIMIT_S).exit_status == 5


def test_a_child_that_closes_all_it_has_and_hangs_is_killed_at_the_limit(waiting: Children) -> None:
    assert not waiting.reap(_spawn_closed(waiting, "1000"), 1.0).in_time


@pytest.mark.not_emulated
def test_a_program_that_is_not_there_leaves_nothing_open(waiting: Children) -> None:
    before = _open_descriptors()
    with pytest.raises(FileNotFoundError):
        waiting.spawn(("/no/such/program",), {}, [])
    assert _open_descriptors() == before


@needs_pidfd
def test_where_there_is_pidfd_it_is_used(stop: Stop) -> None:
    assert isinstance(children(stop), PidfdChildren)


def test_where_python_has_no_pidfd_a_pipe_is_used(stop: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert isinstance(children(stop), PipeChildren)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_refuses_pidfd_a_pipe_is_used(
    stop: Stop, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    assert isinstance(children(stop), PipeChildren)


def test_an_operation_without_pidfd_and_without_proc_is_measured_but_for_its_memory(
    make_bench: MakeBench, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(cli_module, "PROCESSES", tmp_path / "no-proc")
    work = prepare_work(make_bench(system_openssl, job=Job("derive", "X25519")))
    assert work.begin is not None
    repetition = work.begin(LIMIT_S)()
    assert repetition.error is None
    assert repetition.cpu_time_s > 0
    assert work.check() is None
    assert work.usage().peak_memory_bytes is None


def test_waiting_by_pipe_costs_no_wake_ups(stop: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, calls = PipeChildren(stop), list[float]()
    select_once = select.select

    def counted(*arguments: object) -> object:
        calls.append(time.monotonic())
        return select_once(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(select, "select", counted)
    waiting.reap(_spawn(waiting, "exec sleep 0.3"), LIMIT_S)
    assert len(calls) < 15
