"""Runs the `openssl` program: one process per command, its exit status, CPU time and first error line.

A child is started by posix_spawn and reaped by wait4, the way of least overhead beside the process itself. Its output
goes to /dev/null and its errors to a file in the private folder, which is read only when it failed.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from errors import SettingsError
from runner.openssl.children import Redirections, children
from runner.openssl.commands import Command
from runner.openssl.masks import mask_environment
from runner.openssl.program import OpenSsl
from runner.stopping import Stop

PREPARATION_LIMIT_S = 900.0
"""For single commands outside trains: the slowest, an SLH-DSA signature on a Raspberry Pi 1, takes 95 s."""
END_LIMIT_S = 1.0
"""For a process that has given its memory back, until it can be reaped."""
PROCESSES = Path("/proc")
_ERROR_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended. `error` is one line, None when it exited with 0."""

    exit_status: int
    cpu_time_s: float
    error: str | None


class OpenSslCli:
    """Commands of one OpenSSL, one after the other. Raises Stopped, with the child reaped, when asked to end."""

    def __init__(self, openssl: OpenSsl, folder: Path, stop: Stop, capability_mask: str = "") -> None:
        """Raises SettingsError for a wrong mask or a folder that cannot be written to."""
        self.openssl = openssl
        self.folder = folder
        self._stop = stop
        self._children = children(stop)
        self._environment = {**openssl.environment, **mask_environment(capability_mask)}
        self._errors = _error_file(folder)
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._actions = self._redirections(self._null)

    @property
    def stop(self) -> Stop:
        """The request to end that its commands heed."""
        return self._stop

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._errors)
        os.close(self._null)

    def run(self, command: Command, limit_s: float) -> Finished:
        """Run one command; after `limit_s` it is killed, which counts as failed."""
        return self._run(command, limit_s, self._actions)

    def run_into(self, command: Command, output: Path, limit_s: float) -> Finished:
        """As `run`, what it prints goes to a file."""
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            return self._run(command, limit_s, self._redirections(descriptor))
        finally:
            os.close(descriptor)

    def peak_memory_bytes(self, command: Command) -> int | None:
        """Peak resident memory of one run, read while it lives; None where it ended before it could be read.

        Not from wait4: Linux counts the memory of the process that spawned it, before exec, into `ru_maxrss`.
        """
        try:
            pid = self._spawn(command, self._actions)
        except OSError:
            return None
        try:
            return self._watch_memory(pid)
        finally:
            self._children.reap(pid, END_LIMIT_S)

    def _watch_memory(self, pid: int) -> int | None:
        """Look again after every hundredth of the time so far, until it ends."""
        start_s, elapsed_s, peak_bytes = time.monotonic(), 0.0, None
        with contextlib.suppress(OSError), open(PROCESSES / str(pid) / "status", "rb", buffering=0) as status:  # noqa: PTH123
            while (read := _high_water_bytes(os.pread(status.fileno(), 4096, 0))) is not None:
                peak_bytes = read
                elapsed_s = time.monotonic() - start_s
                if self._stop.requested or elapsed_s > PREPARATION_LIMIT_S:
                    break
                time.sleep(elapsed_s / 100)
        return peak_bytes

    def error_line(self) -> str:
        """The first line of what the last command wrote to its standard error."""
        text = os.pread(self._errors, _ERROR_HEAD_BYTES, 0).decode(errors="replace")
        words = next((line.strip() for line in text.splitlines() if line.strip()), "without a word")
        return words + self.space_note()

    def space_note(self) -> str:
        """What to add to an error where the private folder is full; empty where it is not."""
        return "" if os.fstatvfs(self._errors).f_bavail else f" (no space left in {self.folder})"

    def _redirections(self, output: int) -> Redirections:
        return [
            (os.POSIX_SPAWN_DUP2, self._null, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, self._errors, 2),
        ]

    def _run(self, command: Command, limit_s: float, actions: Redirections) -> Finished:
        os.ftruncate(self._errors, 0)
        try:
            pid = self._spawn(command, actions)
        except OSError as error:
            return Finished(127, 0.0, f"{self.openssl.program} cannot be started: {error.strerror}")
        ended = self._children.reap(pid, limit_s)
        said = None
        if not ended.in_time:
            said = f"{command[0]}: killed, no end after {limit_s:.3g} s"
        elif ended.exit_status:
            said = f"{command[0]}: exit {ended.exit_status}: {self.error_line()}"
        return Finished(ended.exit_status, ended.cpu_time_s, said)

    def _spawn(self, command: Command, redirections: Redirections) -> int:
        return self._children.spawn((*self.openssl.argv_prefix, *command), self._environment, redirections)


def _error_file(folder: Path) -> int:
    try:
        return os.open(folder / "stderr", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"cannot work in {folder}: {error.strerror}") from None


def _high_water_bytes(status: bytes) -> int | None:
    start = status.find(b"VmHWM:")
    return int(status[start + 6 :].split(None, 1)[0]) * 1024 if start >= 0 else None
