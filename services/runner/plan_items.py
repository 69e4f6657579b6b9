"""The short way to write a plan: items such as `sign:ML-DSA-65`, separated by commas. Pure.

`[BACKEND/]OPERATION:SET[/FORM]`, `handshake:GROUP+CERTIFICATE`, `sham`, `null` (every null train that the other items
need) and `null:N` (N processes). Names are taken in any case.
"""

import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, get_args

from errors import SettingsError
from runner.job import FORMS_OF, MESSAGE_BYTES, Form, Job
from runner.nulls import null_jobs
from runner.suggest import nearest
from schemas import Operation, ParameterSet
from schemas.operations import Backend

Place = Callable[[str], str]
Read = TypeVar("Read")
OPERATIONS: tuple[Operation, ...] = tuple(get_args(Operation))
BACKENDS: tuple[Backend, ...] = ("cli", "lib")


def jobs_of_items(
    items: tuple[str, ...], message_bytes: int, known: Mapping[str, ParameterSet], place: Place
) -> tuple[Job, ...]:
    """The jobs that the items name, in their order.

    Raises SettingsError with what is meant or known, after `place(item)`, which says where the item stands.
    """
    reader = _Reader(known, message_bytes)
    read = [None if item.lower() == "null" else _placed(reader.job, item, place) for item in items]
    needed = null_jobs(job for job in read if job is not None) or (Job("null", null_variant="processes=1"),)
    return tuple(each for job in read for each in ((job,) if job is not None else needed))


def refuse_unknown_words(items: tuple[str, ...], campaigns: tuple[str, ...], place: Place) -> None:
    """Raises SettingsError for an item that begins with no operation: perhaps the name of a campaign was meant."""
    for item in items:
        _placed(lambda each: _operation(_backend(each.partition(":")[0])[1], campaigns), item, place)


def _placed(read: Callable[[str], Read], item: str, place: Place) -> Read:
    try:
        return read(item)
    except SettingsError as error:
        raise SettingsError(f"{place(item)} has {reprlib.repr(item)}: {error}") from None


class _Reader:
    """Reads one item after the other."""

    def __init__(self, known: Mapping[str, ParameterSet], message_bytes: int) -> None:
        self._known = known
        self._message_bytes = message_bytes

    def job(self, item: str) -> Job:
        """The job of one item."""
        head, _, rest = item.partition(":")
        backend, word = _backend(head)
        operation = _operation(word)
        name, _, form = rest.partition("/")
        match operation:
            case "sham" if not rest and word == head:
                return Job("sham")
            case "null" if word == head:
                return _null(rest or "1")
            case "sham" | "null":
                raise SettingsError(f"did you mean {operation}?")
            case "handshake":
                return self._handshake(rest)
        return Job(
            operation,
            self._parameter_set(operation, name),
            backend,
            _form(form, operation, backend),
            self._message_bytes if operation in ("sign", "verify") else MESSAGE_BYTES,
        )

    def _handshake(self, rest: str) -> Job:
        group, plus, certificate = rest.rpartition("+")
        if not plus:
            raise SettingsError("write handshake:GROUP+CERTIFICATE, e.g. +ML-DSA-65")
        return Job(
            "handshake",
            self._parameter_set("handshake", group),
            "lib",
            certificate=self._parameter_set("sign", certificate),
        )

    def _parameter_set(self, operation: Operation, text: str) -> str:
        name = next((name for name in self._known if name.lower() == text.lower()), None)
        if name is None:
            raise SettingsError(nearest(text, self._with(operation)))
        able = self._known[name].operations
        if operation not in able:
            raise SettingsError(f"{name} has no {operation} (it has {', '.join(able)})")
        return name

    def _with(self, operation: Operation) -> Iterator[str]:
        return (name for name, each in self._known.items() if operation in each.operations)


def _backend(head: str) -> tuple[Backend, str]:
    """`lib/encaps` is encaps by lib; the command line is meant where nothing is said."""
    before, slash, word = head.rpartition("/")
    if not slash:
        return "cli", word
    backend = next((each for each in BACKENDS if each == before.lower()), None)
    if backend is None:
        raise SettingsError(nearest(before, BACKENDS))
    return backend, word


def _operation(word: str, campaigns: tuple[str, ...] = ()) -> Operation:
    operation = next((each for each in OPERATIONS if each == word.lower()), None)
    if operation is None:
        raise SettingsError(nearest(word, [*OPERATIONS, *campaigns]))
    return operation


def _form(text: str, operation: Operation, backend: Backend) -> Form:
    if not text:
        return ""
    if backend != "cli":
        raise SettingsError("forms are of the command line")
    forms = FORMS_OF.get(operation, ())
    form = next((each for each in forms if each == text.lower()), None)
    if form is None:
        raise SettingsError(nearest(text, forms) if forms else f"{operation} has one form only: leave out /{text}")
    return form


def _null(text: str) -> Job:
    if len(text) != 1 or text not in "123456789":
        raise SettingsError("a null train starts 1 to 9 processes per repetition")
    return Job("null", null_variant=f"processes={text}")
