"""What an operation needs around its repetitions, and one repetition itself."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from errors import SettingsError
from runner.openssl.cli import PREPARATION_LIMIT_S, OpenSslCli
from runner.openssl.commands import Command
from runner.openssl.der import content_sizes, pem_body
from runner.train import Repetition
from schemas import CATALOGUE, ParameterSet

CHECK_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Bench:
    """Where an operation is prepared: the program, a private folder, and what is asked for."""

    cli: OpenSslCli
    folder: Path
    parameter_set: str
    processes: int
    message_bytes: int
    seed: int

    @property
    def each(self) -> ParameterSet:
        """The parameter set of the catalogue."""
        return CATALOGUE[self.parameter_set]


@dataclass(frozen=True, slots=True)
class Output:
    """A file that every repetition writes anew, and the sizes in bytes that are right for it."""

    kind: str
    path: Path
    accepts: Callable[[int], bool]


def _nothing_to_check() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Work:
    """A prepared operation: one command per process of a repetition. Without commands nothing runs (sham).

    `check` looks, outside the timed segments, whether the outputs are what they should be: one line if not.
    """

    variant: str
    commands: tuple[Command, ...]
    outputs: tuple[Output, ...] = ()
    output_bytes: dict[str, int] = field(default_factory=dict)
    check: Callable[[], str | None] = _nothing_to_check


def repeat(cli: OpenSslCli, commands: tuple[Command, ...], outputs: tuple[Output, ...], limit_s: float) -> Repetition:
    """One repetition: each command exits with 0 and each output is there, fresh and of the right size, or it failed."""
    cpu_time_s = 0.0
    for output in outputs:
        if os.path.lexists(output.path):
            os.unlink(output.path)  # noqa: PTH108
    for command in commands:
        finished = cli.run(command, limit_s)
        cpu_time_s += finished.cpu_time_s
        if finished.error is not None:
            return Repetition(finished.error, cpu_time_s)
    for output in outputs:
        size = _size(output.path)
        if not output.accepts(size):
            return Repetition(f"{output.kind} of {size} bytes", cpu_time_s)
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
        raise SettingsError(f"{what} {bench.parameter_set} with OpenSSL {bench.cli.openssl.version}: {error}")


def key_size_error(path: Path, size_bytes: int) -> str | None:
    """One line when a PEM file holds no key of this raw size."""
    sizes = content_sizes(pem_body(path.read_text(encoding="ascii", errors="replace")))
    return None if size_bytes in sizes else f"{path.name} holds no key of {size_bytes} bytes"


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        return 0
