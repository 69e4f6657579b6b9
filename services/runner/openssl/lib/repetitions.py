"""One repetition each: nothing but the calls that do the operation, their status and the sizes that they wrote.

All that a repetition needs is made before: functions, arguments, buffers and the answer of a success. Nothing grows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.openssl.lib.binding import Crypto, Function, pointer_cell, reference
from runner.train import Repeat, Repetition

DONE = Repetition(None, 0.0)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of libcrypto that returns 1 when it succeeded, with its arguments."""

    what: str
    function: Function
    arguments: tuple[Any, ...]

    def now(self) -> bool:
        """Call it once, whether it succeeded."""
        return bool(self.function(*self.arguments) == 1)


@dataclass(frozen=True, slots=True)
class Written:
    """An output: the cell that takes room for `room` bytes in and its size out, and the sizes that are right."""

    kind: str
    cell: Any
    room: int
    least: int
    most: int

    @property
    def wrong(self) -> str | None:
        """One line when the size is not right."""
        size = self.cell.value
        return None if self.least <= size <= self.most else f"{self.kind} of {size} bytes"


def plain(crypto: Crypto, call: Call) -> Repeat:
    """A call that writes nothing."""
    function, arguments = call.function, call.arguments

    def repeat() -> Repetition:
        if function(*arguments) == 1:
            return DONE
        return failed(crypto, call.what)

    return repeat


def writing(crypto: Crypto, call: Call, written: Written) -> Repeat:
    """A call that writes one output."""
    function, arguments = call.function, call.arguments
    cell, room, least, most = written.cell, written.room, written.least, written.most

    def repeat() -> Repetition:
        cell.value = room
        if function(*arguments) != 1:
            return failed(crypto, call.what)
        if least <= cell.value <= most:
            return DONE
        return Repetition(written.wrong, 0.0)

    return repeat


def writing_two(crypto: Crypto, call: Call, first: Written, second: Written) -> Repeat:
    """A call that writes two outputs."""
    function, arguments = call.function, call.arguments
    first_cell, second_cell = first.cell, second.cell

    def repeat() -> Repetition:
        first_cell.value = first.room
        second_cell.value = second.room
        if function(*arguments) != 1:
            return failed(crypto, call.what)
        if first.least <= first_cell.value <= first.most and second.least <= second_cell.value <= second.most:
            return DONE
        return Repetition(first.wrong or second.wrong, 0.0)

    return repeat


def after(crypto: Crypto, before: Call, repeat: Repeat) -> Repeat:
    """A call that starts the next one anew, and then that."""
    function, arguments = before.function, before.arguments

    def both() -> Repetition:
        if function(*arguments) == 1:
            return repeat()
        return failed(crypto, before.what)

    return both


def generating(crypto: Crypto, context: int, what: str) -> Repeat:
    """A new key, freed at once."""
    generate, free = crypto["EVP_PKEY_generate"], crypto["EVP_PKEY_free"]
    cell = pointer_cell()
    key = reference(cell)

    def repeat() -> Repetition:
        cell.value = None
        if generate(context, key) == 1:
            free(cell)
            return DONE
        return failed(crypto, what)

    return repeat


def comparing_nothing(crypto: Crypto) -> Repeat:
    """The cheapest call of libcrypto in the same loop: it compares no bytes."""
    compare: Callable[..., int] = crypto["CRYPTO_memcmp"]
    arguments = (None, None, 0)

    def repeat() -> Repetition:
        if compare(*arguments) == 0:
            return DONE
        return failed(crypto, "null")

    return repeat


def failed(crypto: Crypto, what: str) -> Repetition:
    """A repetition that failed, in libcrypto's words."""
    return Repetition(f"{what}: {crypto.error()}", 0.0)
