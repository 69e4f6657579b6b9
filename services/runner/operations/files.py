"""The files around a repetition: keys and message that are there before, outputs with their right sizes."""

from collections.abc import Callable
from pathlib import Path

from runner.openssl.commands import Paths, keygen_commands
from runner.operations.work import Bench, Output, prepare


def prepare_keys(bench: Bench, paths: Paths, whose: str = "keygen") -> None:
    """A key pair by the command line. Raises SettingsError."""
    prepare(bench, f"{bench.job.operation}: {whose}", keygen_commands(bench.parameter_set, paths))


def output(kind: str, path: Path, size_bytes: int | None) -> Output:
    """An output of this size; of any size but 0 where the size is not known."""
    return Output(kind, path, right_size(size_bytes))


def right_size(size_bytes: int | None) -> Callable[[int], bool]:
    """Whether an output may have a size."""
    return (lambda size: size == size_bytes) if size_bytes else (lambda size: size > 0)


def flip_last_bit(path: Path) -> bytes:
    """Change one bit of a file; what was in it before."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return content
