"""Signing and verification of a message in memory.

ML-DSA and SLH-DSA sign the message itself. RSA (PKCS #1 v1.5) and ECDSA sign its SHA-256, which is part of the
repetition, and EdDSA hashes by itself: as the command line does with `-rawin`.
"""

from dataclasses import dataclass
from typing import Any

from runner.openssl.lib import Session, buffer, key_context, new_key, reference, size_cell
from runner.openssl.lib.repetitions import Call, Written, after, plain, writing
from runner.operations.lib.case import Case, checking, last_bit_flipped, lib_work, must_work, untimed
from runner.operations.work import Work
from runner.train import Repeat
from schemas import ParameterSet

DIGEST = "SHA256"
_WHOLE_MESSAGE = ("ML-DSA", "SLH-DSA")
_NOTHING_NEW = (None, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class _Signer:
    """What a repetition writes: the signature, and its size."""

    repeat: Repeat
    signature: Any
    size: Any


def prepare_sign(session: Session, case: Case) -> Work:
    """Every repetition writes a new signature of the same message."""
    key, message = _key_and_message(session, case)
    signer = _signer(session, case, key, message)
    must_work(case, signer.repeat)
    sizes = {"signature": int(signer.size.value)}

    def check(fresh: Session) -> str | None:
        signer.signature.raw = bytes(len(signer.signature))
        return untimed(signer.repeat) or _verification_error(fresh, case, key, message, signer)

    return lib_work(case, _variant(case), signer.repeat, sizes, checking(session.crypto, check))


def prepare_verify(session: Session, case: Case) -> Work:
    """Every repetition verifies the same signature: its return code is the answer."""
    key, message = _key_and_message(session, case)
    signer = _signer(session, case, key, message)
    must_work(case, signer.repeat)
    repeat = _verifier(session, case, key, message, signer)
    must_work(case, repeat)
    check = lambda fresh: _verification_error(fresh, case, key, message, signer)  # noqa: E731
    return lib_work(case, _variant(case), repeat, {}, checking(session.crypto, check))


def _key_and_message(session: Session, case: Case) -> tuple[int, Any]:
    return new_key(session, case.parameter_set), buffer(len(case.message), case.message)


def _signer(session: Session, case: Case, key: int, message: Any) -> _Signer:
    crypto, each = session.crypto, case.parameter_set
    room = int(crypto["EVP_PKEY_get_size"](key))
    signature, size = buffer(room), size_cell(room)
    written = Written("signature", size, room, *_right_sizes(each, room))
    rest = (reference(signature), reference(size), reference(message), len(message))
    if each.family in _WHOLE_MESSAGE:
        context = _message_context(session, case, key, "sign")
        call = Call(case.what, crypto["EVP_PKEY_sign"], (context, *rest))
        return _Signer(writing(crypto, call, written), signature, size)
    context, again = _digest_context(session, case, key, "EVP_DigestSignInit_ex")
    call = Call(case.what, crypto["EVP_DigestSign"], (context, *rest))
    return _Signer(after(crypto, again, writing(crypto, call, written)), signature, size)


def _verifier(session: Session, case: Case, key: int, message: Any, signer: _Signer) -> Repeat:
    crypto = session.crypto
    rest = (reference(signer.signature), signer.size.value, reference(message), len(message))
    if case.parameter_set.family in _WHOLE_MESSAGE:
        context = _message_context(session, case, key, "verify")
        return plain(crypto, Call(case.what, crypto["EVP_PKEY_verify"], (context, *rest)))
    context, again = _digest_context(session, case, key, "EVP_DigestVerifyInit_ex")
    return after(crypto, again, plain(crypto, Call(case.what, crypto["EVP_DigestVerify"], (context, *rest))))


def _message_context(session: Session, case: Case, key: int, verb: str) -> int:
    """Initialised once for all messages, as in `openssl speed`."""
    crypto = session.crypto
    context = key_context(session, key, case.what)
    fetched = crypto["EVP_SIGNATURE_fetch"](None, case.parameter_set.name.encode(), None)
    algorithm = session.keep(fetched, "EVP_SIGNATURE_free", case.what)
    crypto.demand(crypto[f"EVP_PKEY_{verb}_message_init"](context, algorithm, None), case.what)
    return context


def _digest_context(session: Session, case: Case, key: int, init: str) -> tuple[int, Call]:
    """Initialised with key and digest once; each message then starts it anew with the same."""
    crypto = session.crypto
    context = session.keep(crypto["EVP_MD_CTX_new"](), "EVP_MD_CTX_free", case.what)
    digest = _digest(case.parameter_set)
    name = digest.encode() if digest else None
    crypto.demand(crypto[init](context, None, name, None, None, key, None), case.what)
    return context, Call(case.what, crypto[init], (context, *_NOTHING_NEW))


def _verification_error(session: Session, case: Case, key: int, message: Any, signer: _Signer) -> str | None:
    """The signature verifies, and with its last bit flipped it does not; None when both are so."""
    error = untimed(_verifier(session, case, key, message, signer))
    if error is not None:
        return f"the signature does not verify: {error}"
    with last_bit_flipped(signer.signature, signer.size.value):
        flipped = untimed(_verifier(session, case, key, message, signer))
    return "a signature with a flipped bit verifies too" if flipped is None else None


def _right_sizes(each: ParameterSet, room: int) -> tuple[int, int]:
    if each.family == "provider":
        return 1, room
    if each.der_signature_bytes is not None:
        return 8, each.der_signature_bytes
    return each.signature_bytes or 0, each.signature_bytes or 0


def _digest(each: ParameterSet) -> str | None:
    return DIGEST if each.family in ("RSA", "ECDSA") else None


def _variant(case: Case) -> str:
    digest = _digest(case.parameter_set)
    size = f"message_bytes={len(case.message)}"
    return f"{size},digest={digest}" if digest else size
