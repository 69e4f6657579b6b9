"""Child processes: started by posix_spawn, waited for with a limit and a request to end, reaped by wait4.

How the end of a child is heard of: by pidfd (Linux since 5.3), elsewhere by a pipe of which only the child holds the
other end. No thread, no signal, nothing that wakes up by itself.
"""

import os
import select
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from resource import struct_rusage
from typing import Protocol

from runner.stopping import Stop

Redirections = list[tuple[int, int, int]]
_FIRST_LOOK_S = 20e-6


@dataclass(frozen=True, slots=True)
class Reaped:
    """A child that is gone: its exit status (negative: the signal), and whether it ended by itself within the limit."""

    exit_status: int
    cpu_time_s: float
    in_time: bool


class Children(Protocol):
    """Starts and reaps. `reap` kills the whole process group after `limit_s`, or raises Stopped when asked to end."""

    def spawn(self, argv: tuple[str, ...], environment: Mapping[str, str], redirections: Redirections) -> int:
        """The process id, leader of its own group. Raises OSError."""

    def reap(self, pid: int, limit_s: float) -> Reaped:
        """Wait for its end."""


def children(stop: Stop) -> Children:
    """By pidfd where the system has it."""
    return PidfdChildren(stop) if _has_pidfd() else PipeChildren(stop)


@dataclass(frozen=True, slots=True)
class PidfdChildren:
    """A descriptor of the child gets readable when it ends."""

    stop: Stop

    def spawn(self, argv: tuple[str, ...], environment: Mapping[str, str], redirections: Redirections) -> int:
        """As in Children."""
        return os.posix_spawn(argv[0], argv, environment, file_actions=redirections, setpgroup=0)

    def reap(self, pid: int, limit_s: float) -> Reaped:
        """As in Children."""
        ended = False
        pidfd = os.pidfd_open(pid)
        try:
            readable, _, _ = select.select([pidfd, self.stop.fileno()], [], [], limit_s)
            ended = pidfd in readable
        finally:
            os.close(pidfd)
            found = os.wait4(pid, 0) if ended else _killed(pid)
        return _reaped(found, ended, self.stop)


@dataclass(frozen=True, slots=True)
class PipeChildren:
    """A pipe comes to its end when the child and all that it started have ended."""

    stop: Stop
    _readers: dict[int, int] = field(default_factory=dict)

    def spawn(self, argv: tuple[str, ...], environment: Mapping[str, str], redirections: Redirections) -> int:
        """As in Children. The child's end has another number than ours: to the same one dup2 would do nothing."""
        reader, writer = os.pipe()
        try:
            actions = [*redirections, (os.POSIX_SPAWN_DUP2, writer, writer + 1)]
            pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions, setpgroup=0)
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._readers[pid] = reader
        return pid

    def reap(self, pid: int, limit_s: float) -> Reaped:
        """As in Children. A child that closes the pipe and lives on is looked at until the limit."""
        deadline_s = time.monotonic() + limit_s
        reader, found = self._readers.pop(pid), None
        try:
            readable, _, _ = select.select([reader, self.stop.fileno()], [], [], limit_s)
            if reader in readable:
                found = _look_until(pid, deadline_s, self.stop)
        finally:
            os.close(reader)
            ended = found is not None
            found = found or _killed(pid)
        return _reaped(found, ended, self.stop)


_Found = tuple[int, int, struct_rusage]


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _look_until(pid: int, deadline_s: float, stop: Stop) -> _Found | None:
    """The child's end, which follows that of the pipe at once; None at the deadline or on the request to end."""
    pause_s = _FIRST_LOOK_S
    while not (found := os.wait4(pid, os.WNOHANG))[0]:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or select.select([stop], [], [], min(pause_s, left_s))[0]:
            return None
        pause_s *= 2
    return found


def _killed(pid: int) -> _Found:
    os.killpg(pid, signal.SIGKILL)
    return os.wait4(pid, 0)


def _reaped(found: _Found, in_time: bool, stop: Stop) -> Reaped:
    _, status, usage = found
    if not in_time:
        stop.check()
    return Reaped(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, in_time)
