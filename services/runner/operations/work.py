"""What an operation needs around its repetitions, and one repetition itself."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from errors import SettingsError
from runner.job import Job
from runner.message import message_of_file, random_message
from runner.nulls import null_variant_of
from runner.openssl.cli import PREPARATION_LIMIT_S, OpenSslCli
from runner.openssl.commands import Command
from runner.openssl.der import content_sizes, pem_body
from runner.openssl.masks import mask_in_variant
from runner.train import Repeat, Repetition, RunTrain
from schemas import Handshake, ParameterSet

CHECK_ATTEMPTS = 3
USAGE_RUNS = 20
USAGE_S = 1.0


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a job is prepared: the program, a private folder, the job and its parameter set, a seed for its message.

    A message file takes the place of random bytes; `job.message_bytes` is then its size.
    """

    cli: OpenSslCli
    folder: Path
    job: Job
    each: ParameterSet | None
    seed: int
    message_file: Path | None = None

    @property
    def parameter_set(self) -> ParameterSet:
        """The parameter set of an operation that has one."""
        if self.each is None:
            raise SettingsError(f"{self.job.operation} needs a parameter set")
        return self.each

    def message(self) -> bytes:
        """What is signed, `job.message_bytes` long. Raises SettingsError where file or memory does not give it."""
        if self.message_file is None:
            return random_message(self.job.message_bytes, self.seed)
        return message_of_file(self.message_file, self.job.message_bytes)


@dataclass(frozen=True, slots=True)
class Output:
    """A file that every repetition writes anew, and the sizes in bytes that are right for it."""

    kind: str
    path: Path
    accepts: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Usage:
    """What one repetition took beside time, measured outside the train; None where it cannot be had.

    `error` is one line where measuring it went wrong.
    """

    peak_memory_bytes: int | None = None
    cpu_time_s: float | None = None
    error: str | None = None


def _nothing_to_check() -> str | None:
    return None


def _nothing_to_close() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Work:
    """A prepared job. `begin` takes the longest time in s that a repetition may take and gives the repetition itself;
    without it nothing runs (sham).

    `check` looks, outside the timed segments, whether the outputs are what they should be: one line if not. `usage`
    measures memory and CPU time of repetitions, also outside; `commands` are what a repetition spawns, for people.
    `run_train`, where given, runs the train instead of the runner's own loop.
    `null_variant` names the null train with the same loop, processes and files. `close` gives back what was prepared.
    """

    variant: str
    begin: Callable[[float], Repeat] | None = None
    commands: tuple[Command, ...] = ()
    null_variant: str = ""
    output_bytes: dict[str, int] = field(default_factory=dict)
    size_unknown: bool = False
    check: Callable[[], str | None] = _nothing_to_check
    usage: Callable[[], Usage] = Usage
    handshake: Callable[[], Handshake] | None = None
    close: Callable[[], None] = _nothing_to_close
    run_train: RunTrain | None = None

    @property
    def processes(self) -> int:
        """Processes that a repetition spawns."""
        return len(self.commands)


def cli_work(
    bench: Bench,
    variant: str,
    commands: tuple[Command, ...],
    outputs: tuple[Output, ...] = (),
    *,
    output_bytes: dict[str, int] | None = None,
    check: Callable[[], str | None] = _nothing_to_check,
) -> Work:
    """Work of the command line: one process per command. A capability mask is added to the variant."""
    return Work(
        variant=",".join(part for part in (variant, mask_in_variant(bench.job.capability_mask)) if part),
        begin=lambda limit_s: lambda: repeat(bench.cli, commands, outputs, limit_s),
        commands=commands,
        null_variant=null_variant_of(bench.job),
        output_bytes={kind: size for kind, size in (output_bytes or {}).items() if size},
        size_unknown=bench.each is not None and bench.each.family == "provider",
        check=check,
        usage=lambda: Usage(peak_memory_bytes=peak_memory_bytes(bench.cli, commands)),
    )


def peak_memory_bytes(cli: OpenSslCli, commands: tuple[Command, ...]) -> int | None:
    """The highest of all commands and of a few runs: one that is read while it lives may end between two looks."""
    end_s = time.monotonic() + USAGE_S
    peak_bytes = 0
    for command in commands:
        for number in range(USAGE_RUNS):
            if number == 0 or time.monotonic() < end_s:
                peak_bytes = max(peak_bytes, cli.peak_memory_bytes(command) or 0)
    return peak_bytes or None


def repeat(cli: OpenSslCli, commands: tuple[Command, ...], outputs: tuple[Output, ...], limit_s: float) -> Repetition:
    """One repetition: each command exits with 0 and each output is there, fresh and of the right size, or it failed."""
    cpu_time_s = 0.0
    for output in outputs:
        if os.path.lexists(output.path) and (error := _removal_error(output)):
            return Repetition(error, cpu_time_s)
    for command in commands:
        finished = cli.run(command, limit_s)
        cpu_time_s += finished.cpu_time_s
        if finished.error is not None:
            return Repetition(finished.error, cpu_time_s)
    for output in outputs:
        size = _size(output.path)
        if not output.accepts(size):
            return Repetition(f"{output.kind} of {size} bytes{cli.space_note()}", cpu_time_s)
    return Repetition(None, cpu_time_s)


def repeat_untimed(cli: OpenSslCli, commands: tuple[Command, ...], outputs: tuple[Output, ...] = ()) -> str | None:
    """Repetitions until one succeeds, at most three; the last error line if none does."""
    error = None
    for _ in range(CHECK_ATTEMPTS):
        error = repeat(cli, commands, outputs, PREPARATION_LIMIT_S).error
        if error is None:
            return None
    return error


def prepare(bench: Bench, what: str, commands: tuple[Command, ...], outputs: tuple[Output, ...] = ()) -> None:
    """Run commands that must succeed before a train. Raises SettingsError with their error."""
    error = repeat_untimed(bench.cli, commands, outputs)
    if error is not None:
        raise SettingsError(f"{what} {bench.job.parameter_set} with OpenSSL {bench.cli.openssl.version}: {error}")


def key_size_error(path: Path, size_bytes: int) -> str | None:
    """One line when a PEM file holds no key of this raw size; 0 is unknown."""
    if not size_bytes:
        return None
    sizes = content_sizes(pem_body(path.read_text(encoding="ascii", errors="replace")))
    return None if size_bytes in sizes else f"{path.name} holds no key of {size_bytes} bytes"


def _removal_error(output: Output) -> str | None:
    try:
        os.unlink(output.path)  # noqa: PTH108
    except OSError as error:
        return f"the old {output.kind} cannot be removed: {error.strerror}"
    return None


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        return 0
