"""How much CPU time the kernel has accounted to a process and its descendants, or to the whole machine. Linux only."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from errors import SettingsError

log = logging.getLogger(__name__)

CpuTime = Callable[[], int]
"""Total CPU time so far, in ns; never decreases."""


def cpu_time_of(pid: int | None, proc: Path = Path("/proc")) -> CpuTime:
    """The CPU time of a process with its descendants, or of the machine. Raises SettingsError where there is none."""
    if not (proc / "stat").exists():
        raise SettingsError("the simulated source needs Linux: it reads CPU times from /proc")
    if pid is None:
        return MachineCpuTime(proc).total_ns
    process = ProcessCpuTime(pid, proc)
    if not process.alive:
        raise SettingsError(f"--simulated-pid (OPJOULE_SIMULATED_PID): there is no process {pid}")
    return process.total_ns


class MachineCpuTime:
    """User, nice, system and interrupt time of all CPUs, in whole clock ticks (10 ms)."""

    def __init__(self, proc: Path) -> None:
        self._stat = proc / "stat"
        self._total_ns = 0

    def total_ns(self) -> int:
        """Since boot. Some kernels step back by a tick now and then: the larger value holds."""
        with self._stat.open() as stat:
            user, nice, system, _idle, _iowait, irq, softirq = map(int, stat.readline().split()[1:8])
        self._total_ns = max(self._total_ns, (user + nice + system + irq + softirq) * _tick_ns())
        return self._total_ns


@dataclass(frozen=True, slots=True)
class _Stat:
    parent: int
    reaped_ticks: int
    start_ticks: int


@dataclass(slots=True)
class _Member:
    start_ticks: int
    total_ns: int = 0
    is_orphan: bool = False


class ProcessCpuTime:
    """A process, its living descendants (by the CPU clock of each, in ns) and what they have reaped.

    Reaped children are known only in whole ticks of 10 ms, user and system time each rounded down. So the time of a
    short child may show when a later one is reaped, and samples of 10 ms see it in steps; rounded is the running
    total, not of each child, so that sums and means are right to 20 ms of CPU time per process in the tree. A process
    whose parent ended before this ever saw the two together is not known as a descendant.
    """

    def __init__(self, pid: int, proc: Path) -> None:
        self._proc = proc
        self._root = pid
        self._seen: set[int] = set()
        self._members: dict[int, _Member] = {}
        self._gone_ns = 0
        self._total_ns = 0
        stat = self._read_stat(pid)
        if stat is not None:
            self._members[pid] = _Member(stat.start_ticks)
        self.total_ns()

    @property
    def alive(self) -> bool:
        """Whether the process itself still exists. Once it is gone the total stays where it is."""
        return self._root in self._members

    def total_ns(self) -> int:
        """CPU time so far. A child that is reaped while this reads is missing once and back the next time."""
        if not self.alive:
            return self._total_ns
        self._adopt()
        living_ns = 0
        for pid, member in list(self._members.items()):  # parents stand before their children, so nothing counts twice
            living_ns += self._member_ns(pid, member)
        self._total_ns = max(self._total_ns, self._gone_ns + living_ns)
        return self._total_ns

    def _adopt(self) -> None:
        """Take in new processes whose parent is a member. Others can never become descendants: they are read once."""
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208
        read = {pid: stat for pid in pids - self._seen if (stat := self._read_stat(pid)) is not None}
        self._seen = pids
        while found := [pid for pid, stat in read.items() if stat.parent in self._members]:
            for pid in found:
                self._members.setdefault(pid, _Member(read.pop(pid).start_ticks))

    def _member_ns(self, pid: int, member: _Member) -> int:
        stat = self._read_stat(pid)
        own_ns = _process_clock_ns(pid)
        if stat is None or own_ns is None or stat.start_ticks != member.start_ticks:
            return self._bury(pid, member)
        member.is_orphan = pid != self._root and stat.parent not in self._members
        member.total_ns = own_ns + stat.reaped_ticks * _tick_ns()
        return member.total_ns

    def _bury(self, pid: int, member: _Member) -> int:
        """Forget a process. Its parent's reaped time now holds its total, unless it had been left to init."""
        del self._members[pid]
        if pid == self._root:
            log.warning("process %d has ended: from now on it costs idle power only", pid)
        if member.is_orphan:
            self._gone_ns += member.total_ns
        return 0

    def _read_stat(self, pid: int) -> _Stat | None:
        try:
            text = (self._proc / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
        return _Stat(parent=int(fields[1]), reaped_ticks=int(fields[13]) + int(fields[14]), start_ticks=int(fields[19]))


def _process_clock_ns(pid: int) -> int | None:
    """CPU time of all threads of a process, ended ones too. Makes the clock id as clock_getcpuclockid(3) does."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return None


def _tick_ns() -> int:
    return 1_000_000_000 // os.sysconf("SC_CLK_TCK")
