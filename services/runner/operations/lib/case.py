"""What the operations of the `lib` backend have in common."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from errors import SettingsError
from runner.job import Job
from runner.nulls import LIB_NULL
from runner.openssl.lib import Crypto, Session
from runner.operations.work import CHECK_ATTEMPTS, Work
from runner.train import Repeat
from schemas import ParameterSet


@dataclass(frozen=True, slots=True)
class Case:
    """A job with its parameter set, the message where there is one, and a seed for what is encrypted."""

    job: Job
    each: ParameterSet | None
    seed: int
    message: bytes = b""

    @property
    def parameter_set(self) -> ParameterSet:
        """The parameter set of an operation that has one."""
        if self.each is None:
            raise SettingsError(f"{self.job.operation} needs a parameter set")
        return self.each

    @property
    def what(self) -> str:
        """Operation and parameter set, for messages."""
        return f"{self.job.operation} {self.job.parameter_set}"


Prepare = Callable[[Session, Case], Work]
"""Makes the work of a case; what it makes in libcrypto belongs to the session."""


def lib_work(
    case: Case, variant: str, repeat: Repeat, output_bytes: dict[str, int], check: Callable[[], str | None]
) -> Work:
    """Work of one call per repetition. A call cannot be interrupted, so that the longest time does not matter to it."""
    return Work(
        variant=variant,
        begin=lambda _: repeat,
        null_variant=LIB_NULL,
        output_bytes=output_bytes,
        size_unknown=case.parameter_set.family == "provider",
        check=check,
    )


def must_work(case: Case, repeat: Repeat) -> None:
    """Repeat before the train until it succeeds once. Raises SettingsError when it never does."""
    error = untimed(repeat)
    if error is not None:
        raise SettingsError(f"{case.parameter_set.name} in libcrypto: {error}")


def untimed(repeat: Repeat) -> str | None:
    """Repetitions until one succeeds, at most three; the last error if none does."""
    error = None
    for _ in range(CHECK_ATTEMPTS):
        error = repeat().error
        if error is None:
            return None
    return error


@contextmanager
def last_bit_flipped(memory: Any, size: int) -> Iterator[None]:
    """The first `size` bytes of a buffer with their last bit flipped."""
    memory[size - 1] = bytes([memory[size - 1][0] ^ 1])
    try:
        yield
    finally:
        memory[size - 1] = bytes([memory[size - 1][0] ^ 1])


def checking(crypto: Crypto, check: Callable[[Session], str | None]) -> Callable[[], str | None]:
    """A check with a session of its own, so that nothing is left of it; what it cannot do is its answer."""

    def checked() -> str | None:
        with ExitStack() as resources:
            try:
                return check(Session(crypto, resources))
            except SettingsError as error:
                return str(error)

    return checked
