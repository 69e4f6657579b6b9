"""Encapsulation and decapsulation."""

from dataclasses import dataclass
from typing import Any

from errors import SettingsError
from runner.openssl.lib import Session, buffer, key_context, new_key, reference, size_cell
from runner.openssl.lib.repetitions import Call, Written, writing, writing_two
from runner.operations.lib.case import Case, checking, last_bit_flipped, lib_work, must_work, untimed
from runner.operations.work import Work
from runner.train import Repeat


@dataclass(frozen=True, slots=True)
class _Encapsulation:
    """One end: what it writes at every repetition."""

    repeat: Repeat
    ciphertext: Any
    secret: Any
    sizes: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Decapsulation:
    repeat: Repeat
    secret: Any


def prepare_encaps(session: Session, case: Case) -> Work:
    """Every repetition writes a new ciphertext and a new secret."""
    key = new_key(session, case.parameter_set)
    encapsulation = _encapsulation(session, case, key)
    must_work(case, encapsulation.repeat)

    def check(fresh: Session) -> str | None:
        return _error(_decapsulation(fresh, case, key, encapsulation), encapsulation)

    return lib_work(case, "", encapsulation.repeat, encapsulation.sizes, checking(session.crypto, check))


def prepare_decaps(session: Session, case: Case) -> Work:
    """Every repetition takes the secret out of the same ciphertext."""
    key = new_key(session, case.parameter_set)
    encapsulation = _encapsulation(session, case, key)
    must_work(case, encapsulation.repeat)
    decapsulation = _decapsulation(session, case, key, encapsulation)
    must_work(case, decapsulation.repeat)

    def check(_: Session) -> str | None:
        return _error(decapsulation, encapsulation)

    sizes = {"shared_secret": encapsulation.sizes["shared_secret"]}
    return lib_work(case, "", decapsulation.repeat, sizes, checking(session.crypto, check))


def _encapsulation(session: Session, case: Case, key: int) -> _Encapsulation:
    crypto = session.crypto
    context = key_context(session, key, case.what)
    crypto.demand(crypto["EVP_PKEY_encapsulate_init"](context, None), case.what)
    sizes = size_cell(), size_cell()
    encapsulate = crypto["EVP_PKEY_encapsulate"]
    crypto.demand(encapsulate(context, None, reference(sizes[0]), None, reference(sizes[1])), case.what)
    _hold_against_the_catalogue(case, sizes[0].value, sizes[1].value)
    ciphertext, secret = buffer(sizes[0].value), buffer(sizes[1].value)
    arguments = (context, reference(ciphertext), reference(sizes[0]), reference(secret), reference(sizes[1]))
    first = _exactly("ciphertext", sizes[0])
    second = _exactly("shared secret", sizes[1])
    repeat = writing_two(crypto, Call(case.what, encapsulate, arguments), first, second)
    return _Encapsulation(repeat, ciphertext, secret, {"ciphertext": first.room, "shared_secret": second.room})


def _decapsulation(session: Session, case: Case, key: int, encapsulation: _Encapsulation) -> _Decapsulation:
    crypto = session.crypto
    context = key_context(session, key, case.what)
    crypto.demand(crypto["EVP_PKEY_decapsulate_init"](context, None), case.what)
    secret, size = buffer(len(encapsulation.secret)), size_cell(len(encapsulation.secret))
    ciphertext = encapsulation.ciphertext
    arguments = (context, reference(secret), reference(size), reference(ciphertext), len(ciphertext))
    call = Call(case.what, crypto["EVP_PKEY_decapsulate"], arguments)
    return _Decapsulation(writing(crypto, call, _exactly("shared secret", size)), secret)


def _error(decapsulation: _Decapsulation, encapsulation: _Encapsulation) -> str | None:
    """A fresh encapsulation gives a fresh secret, and decapsulation the same one; with a flipped bit it does not."""
    before = encapsulation.secret.raw
    for output in (encapsulation.ciphertext, encapsulation.secret):
        output.raw = bytes(len(output))
    error = untimed(encapsulation.repeat) or _secret_error(decapsulation, encapsulation)
    if error is not None:
        return error
    if encapsulation.secret.raw == before:
        return "two encapsulations give the same secret"
    with last_bit_flipped(encapsulation.ciphertext, len(encapsulation.ciphertext)):
        same = _secret_error(decapsulation, encapsulation) is None
    return "a ciphertext with a flipped bit gives the same secret" if same else None


def _secret_error(decapsulation: _Decapsulation, encapsulation: _Encapsulation) -> str | None:
    """One line unless a decapsulation gives the encapsulated secret."""
    decapsulation.secret.raw = bytes(len(decapsulation.secret))
    error = untimed(decapsulation.repeat)
    if error is not None:
        return error
    same = decapsulation.secret.raw == encapsulation.secret.raw
    return None if same else "the decapsulated secret is not the encapsulated one"


def _hold_against_the_catalogue(case: Case, ciphertext_bytes: int, secret_bytes: int) -> None:
    each = case.parameter_set
    right = (each.ciphertext_bytes, each.shared_secret_bytes)
    if each.family != "provider" and (ciphertext_bytes, secret_bytes) != right:
        raise SettingsError(f"{each.name}: ciphertext of {ciphertext_bytes} bytes, secret of {secret_bytes} bytes")


def _exactly(kind: str, cell: Any) -> Written:
    return Written(kind, cell, cell.value, cell.value, cell.value)
