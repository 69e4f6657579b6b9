"""Runs the `openssl` program: one process per command, its exit status, CPU time and first error line.

A child is started by posix_spawn and reaped by wait4, the way of least overhead beside the process itself. Its output
goes to /dev/null and its errors to a file in the private folder, which is read only when it failed.
"""

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from errors import SettingsError
from runner.openssl.capabilities import offered_parameter_sets
from runner.openssl.commands import Command, KeyOperation, Paths, keygen_commands, published_command
from runner.openssl.private import private_folder
from runner.openssl.program import OpenSsl
from runner.stopping import Stop
from schemas import CATALOGUE

PREPARATION_LIMIT_S = 900.0
"""For single commands outside trains: the slowest, an SLH-DSA signature on a Raspberry Pi 1, takes 95 s."""
END_LIMIT_S = 1.0
"""For a process that has given its memory back, until it can be reaped."""
_ERROR_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended. `error` is one line, None when it exited with 0."""

    exit_status: int
    cpu_time_s: float
    error: str | None


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What became of a published command: `output_bytes` counts the files it wrote, or what it printed."""

    exit_status: int
    output_bytes: int
    first_error_line: str


class OpenSslCli:
    """Commands of one OpenSSL, one after the other. Raises Stopped, with the child reaped, when asked to end."""

    def __init__(self, openssl: OpenSsl, folder: Path, stop: Stop) -> None:
        self.openssl = openssl
        self.folder = folder
        self._stop = stop
        self._environment = dict(openssl.environment)
        self._errors = os.open(folder / "stderr", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._actions = self._redirections(self._null)

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
            self._reap(pid, END_LIMIT_S)

    def _watch_memory(self, pid: int) -> int | None:
        """Look again after every hundredth of the time so far, until it ends."""
        start_s, elapsed_s, peak_bytes = time.monotonic(), 0.0, None
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb", buffering=0) as status:  # noqa: PTH123
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
        return next((line.strip() for line in text.splitlines() if line.strip()), "without a word")

    def _redirections(self, output: int) -> list[tuple[int, int, int]]:
        return [
            (os.POSIX_SPAWN_DUP2, self._null, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, self._errors, 2),
        ]

    def _run(self, command: Command, limit_s: float, actions: list[tuple[int, int, int]]) -> Finished:
        os.ftruncate(self._errors, 0)
        try:
            pid = self._spawn(command, actions)
        except OSError as error:
            return Finished(127, 0.0, f"{self.openssl.program} cannot be started: {error.strerror}")
        exit_status, cpu_time_s, in_time = self._reap(pid, limit_s)
        if not in_time:
            return Finished(exit_status, cpu_time_s, f"{command[0]}: killed, no end after {limit_s:.3g} s")
        if exit_status:
            return Finished(exit_status, cpu_time_s, f"{command[0]}: exit {exit_status}: {self.error_line()}")
        return Finished(0, cpu_time_s, None)

    def _spawn(self, command: Command, actions: list[tuple[int, int, int]]) -> int:
        """The child leads its own process group, so that all of it can be killed."""
        argv = (*self.openssl.argv_prefix, *command)
        return os.posix_spawn(argv[0], argv, self._environment, file_actions=actions, setpgroup=0)

    def _reap(self, pid: int, limit_s: float) -> tuple[int, float, bool]:
        """Exit status (negative: the signal), CPU time, and whether it ended by itself within the limit."""
        ended = False
        pidfd = os.pidfd_open(pid)
        try:
            readable, _, _ = select.select([pidfd, self._stop.fileno()], [], [], limit_s)
            ended = pidfd in readable
        finally:
            os.close(pidfd)
            if not ended:
                os.killpg(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
        if not ended:
            self._stop.check()
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, ended


def try_published_command(
    openssl: OpenSsl, operation: KeyOperation, parameter_set: str, message_bytes: int = 19_600
) -> CommandOutcome:
    """Run the study's command for an operation once, on fresh keys and a message of this size.

    The signature to verify is the one that the published signing command wrote, be it empty. Raises SettingsError
    `this OpenSSL lacks X` where it does.
    """
    if parameter_set not in offered_parameter_sets(openssl):
        raise SettingsError(f"this OpenSSL lacks {parameter_set}")
    each = CATALOGUE[parameter_set]
    stop = Stop()
    with private_folder() as folder:
        paths = Paths.within(folder)
        paths.message.write_bytes(Random(0).randbytes(message_bytes))
        cli = OpenSslCli(openssl, folder, stop)
        try:
            before: tuple[Command, ...] = () if operation == "keygen" else keygen_commands(each, paths)
            if operation == "verify":
                before += published_command("sign", each, paths)
            for command in before:
                cli.run(command, PREPARATION_LIMIT_S)
            return _outcome(cli, published_command(operation, each, paths), operation, paths)
        finally:
            cli.close()
            stop.close()


def _outcome(cli: OpenSslCli, commands: tuple[Command, ...], operation: KeyOperation, paths: Paths) -> CommandOutcome:
    printed = cli.folder / "printed"
    written = {"keygen": (paths.private_key, paths.public_key), "sign": (paths.signature,), "verify": (printed,)}
    finished = Finished(0, 0.0, None)
    for command in commands:
        finished = cli.run_into(command, printed, PREPARATION_LIMIT_S)
        if finished.error is not None:
            break
    output_bytes = sum(path.stat().st_size for path in written[operation] if path.exists())
    return CommandOutcome(finished.exit_status, output_bytes, cli.error_line() if finished.error else "")


def _high_water_bytes(status: bytes) -> int | None:
    start = status.find(b"VmHWM:")
    return int(status[start + 6 :].split(None, 1)[0]) * 1024 if start >= 0 else None
