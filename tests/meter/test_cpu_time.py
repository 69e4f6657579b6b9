"""CPU time of a process and its descendants, against what the processes say of themselves."""

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clock import ServiceClock
from errors import SettingsError
from meter.devices.power import CpuPower, Noise, PowerModel
from meter.readings import Stream
from meter.sources.simulated import MODEL, SimulatedSource
from meter.transports.cpu_time import MachineCpuTime, ProcessCpuTime, cpu_time_of

PROC = Path("/proc")
DEADLINE_S = 60.0
MARGIN_NS = 100_000_000
"""A little more than a report and the sample before it take."""
WORKER = r"""
import os, subprocess, sys, threading, time
PYTHON = [sys.executable, "-S", "-c"]
BURN = "import sys, time\nwhile time.process_time() < float(sys.argv[-1]): pass"
NEST = "import subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', *sys.argv[1:]])"
ABANDON = (
    "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-S', '-c', *sys.argv[1:]])\n"
    "while time.process_time() < 0.3: pass"  # long enough to be seen as the parent
)
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def in_thread(seconds):
    thread = threading.Thread(target=burn, args=[seconds])
    thread.start()
    thread.join()
def child(seconds): subprocess.run([*PYTHON, BURN, str(seconds)])
def grandchild(seconds): subprocess.run([*PYTHON, NEST, BURN, str(seconds)])
def abandon(seconds): subprocess.run([*PYTHON, ABANDON, BURN, str(seconds)])
for line in sys.stdin:
    exec(line)
    print(sum(os.times()[:4]), flush=True)
"""
"""Does what it is told, then says the CPU time of itself and of the children it has reaped."""

pytestmark = pytest.mark.processes


class Worker:
    """A process that burns CPU time when told."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def start(self, statement: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()

    def is_done(self) -> bool:
        assert self._process.stdout
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def cpu_s(self) -> float:
        assert self._process.stdout
        return float(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker that has started and waits."""
    worker = Worker()
    worker.start("pass")
    worker.cpu_s()
    yield worker
    worker.kill()


CLOCK = ServiceClock()


@pytest.fixture
def source(worker: Worker) -> Iterator[SimulatedSource]:
    """A simulated meter of the worker, already streaming: 2 W and 3 W per CPU second per second."""
    stream = Stream("lab", "pi4", "m1", MODEL, "simulated", CLOCK.timeline_id, CLOCK.host_clock, 10_000_000)
    noise = Noise(0.0, 0.01, 1)
    power = CpuPower(cpu_time_of(worker.pid), PowerModel(2.0, 3.0, 0.0), noise, time.monotonic_ns)
    source = SimulatedSource(stream, power, CLOCK)
    wait_until(lambda: bool(source.read(0.1)))
    yield source
    source.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "waited too long"
        time.sleep(0.01)


def energy_while(worker: Worker, source: SimulatedSource, statement: str) -> float:
    """Integral of power above idle, from before the statement until after its end."""
    last_ns = CLOCK.now_ns()
    worker.start(statement)
    energy_j, done_ns = 0.0, None
    deadline_s = time.monotonic() + DEADLINE_S
    while done_ns is None or last_ns < done_ns + MARGIN_NS:
        assert time.monotonic() < deadline_s
        if done_ns is None and worker.is_done():
            done_ns = CLOCK.now_ns()
        for reading in source.read(0.1) or []:
            energy_j += (reading.power_w - 2.0) * max(0, reading.t_ns - last_ns) / 1e9
            last_ns = max(last_ns, reading.t_ns)
    return energy_j


@pytest.mark.parametrize(
    "statement",
    [
        "burn(1)",
        "in_thread(1)",
        "child(1)",
        "grandchild(1)",
        "for _ in range(40): child(0.025)",
        "threads = [threading.Thread(target=child, args=[1]) for _ in range(2)]; "
        "[t.start() for t in threads]; [t.join() for t in threads]",
    ],
)
def test_energy_above_idle_is_watts_times_the_cpu_time_that_the_processes_report(
    worker: Worker, source: SimulatedSource, statement: str
) -> None:
    worker.start("pass")
    before_s = worker.cpu_s()
    energy_j = energy_while(worker, source, statement)
    used_s = worker.cpu_s() - before_s
    assert used_s >= 0.97
    assert energy_j == pytest.approx(3.0 * used_s, rel=0.02, abs=3.0 * 0.03)  # reaped time is known in ticks of 10 ms


def test_an_orphan_counts_while_it_lives_and_later_work_is_not_swallowed(worker: Worker) -> None:
    process = ProcessCpuTime(worker.pid, PROC)
    total_ns = process.total_ns
    start_ns = total_ns()
    worker.start("abandon(1.5)")
    wait_until(lambda: total_ns() - start_ns > 1.6e9)  # looking all the while: so the orphan is seen with its parent
    worker.cpu_s()
    wait_until(lambda: total_ns() > 0 and set(process._members) == {worker.pid})  # the orphan has ended
    assert (total_ns() - start_ns) / 1e9 == pytest.approx(1.9, abs=0.2)
    before_ns = total_ns()
    worker.start("burn(0.5)")
    wait_until(worker.is_done)
    assert (total_ns() - before_ns) / 1e9 == pytest.approx(0.5, abs=0.06)


def test_the_total_never_decreases_while_children_come_and_go(worker: Worker) -> None:
    total_ns = ProcessCpuTime(worker.pid, PROC).total_ns
    worker.start("for _ in range(30): child(0.01)")
    totals: list[int] = []

    def is_done() -> bool:
        totals.append(total_ns())
        return worker.is_done()

    wait_until(is_done)
    assert totals == sorted(totals)
    assert totals[-1] > totals[0]


def test_after_the_process_died_only_idle_power_is_left(worker: Worker) -> None:
    process = ProcessCpuTime(worker.pid, PROC)
    worker.start("burn(60)")
    wait_until(lambda: process.total_ns() > 100_000_000)
    worker.kill()
    last_ns = process.total_ns()
    assert not process.alive
    assert process.total_ns() == last_ns


def test_other_processes_do_not_count(worker: Worker) -> None:
    other = Worker()
    try:
        total_ns = ProcessCpuTime(worker.pid, PROC).total_ns
        start_ns = total_ns()
        other.start("burn(0.3)")
        other.cpu_s()
        assert total_ns() == start_ns
    finally:
        other.kill()


def test_the_machine_counts_every_process(worker: Worker) -> None:
    total_ns = MachineCpuTime(PROC).total_ns
    start_ns = total_ns()
    worker.start("burn(0.5)")
    wait_until(worker.is_done)
    assert total_ns() - start_ns > 0.45e9


def test_the_machine_total_is_user_nice_system_and_interrupts_and_never_steps_back(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 20 30 9999 5 4 3 50 7 8\ncpu0 1 1\n")
    total_ns = MachineCpuTime(tmp_path).total_ns
    assert total_ns() == 157 * 10_000_000
    (tmp_path / "stat").write_text("cpu  99 20 30 9999 5 4 3 50 7 8\n")
    assert total_ns() == 157 * 10_000_000


def test_without_proc_the_operator_is_told_that_linux_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="needs Linux"):
        cpu_time_of(None, tmp_path)
