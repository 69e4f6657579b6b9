"""RSA-OAEP with SHA-256 of a short message, such as a key: what key encapsulation replaces."""

from dataclasses import dataclass
from random import Random
from typing import Any

from errors import SettingsError
from runner.openssl.lib import Session, buffer, key_context, new_key, reference, size_cell
from runner.openssl.lib.repetitions import Call, Written, writing
from runner.operations.lib.case import Case, checking, last_bit_flipped, lib_work, must_work, untimed
from runner.operations.work import Work
from runner.train import Repeat

PLAINTEXT_BYTES = 32
"""A key of AES-256, as long as the secret of ML-KEM."""
VARIANT = f"oaep-sha256,message_bytes={PLAINTEXT_BYTES}"
_SETTINGS = ((b"rsa_padding_mode", b"oaep"), (b"rsa_oaep_md", b"sha256"))


@dataclass(frozen=True, slots=True)
class _Output:
    repeat: Repeat
    memory: Any
    size: Any

    @property
    def content(self) -> bytes:
        """What the last repetition wrote."""
        return bytes(self.memory.raw[: self.size.value])


def prepare_encrypt(session: Session, case: Case) -> Work:
    """Every repetition writes a new ciphertext of the same plaintext."""
    key, plaintext = new_key(session, case.parameter_set), _plaintext(case)
    encryption = _encryption(session, case, key, plaintext)
    must_work(case, encryption.repeat)

    def check(fresh: Session) -> str | None:
        encryption.memory.raw = bytes(len(encryption.memory))
        error = untimed(encryption.repeat)
        return error or _error(_decryption(fresh, case, key, encryption), encryption, plaintext)

    sizes = {"ciphertext": int(encryption.size.value)}
    return lib_work(case, VARIANT, encryption.repeat, sizes, checking(session.crypto, check))


def prepare_decrypt(session: Session, case: Case) -> Work:
    """Every repetition decrypts the same ciphertext."""
    key, plaintext = new_key(session, case.parameter_set), _plaintext(case)
    encryption = _encryption(session, case, key, plaintext)
    must_work(case, encryption.repeat)
    decryption = _decryption(session, case, key, encryption)
    must_work(case, decryption.repeat)
    check = lambda _: _error(decryption, encryption, plaintext)  # noqa: E731
    sizes = {"plaintext": len(plaintext)}
    return lib_work(case, VARIANT, decryption.repeat, sizes, checking(session.crypto, check))


def _encryption(session: Session, case: Case, key: int, plaintext: bytes) -> _Output:
    each = case.parameter_set
    context = _context(session, case, key, "encrypt")
    room = int(session.crypto["EVP_PKEY_get_size"](key))
    if each.family != "provider" and room != each.ciphertext_bytes:
        raise SettingsError(f"{each.name}: ciphertext of {room} bytes")
    return _output(session, case, (context, "encrypt", buffer(len(plaintext), plaintext)), room, room)


def _decryption(session: Session, case: Case, key: int, encryption: _Output) -> _Output:
    context = _context(session, case, key, "decrypt")
    room = int(session.crypto["EVP_PKEY_get_size"](key))
    return _output(session, case, (context, "decrypt", encryption.memory), room, PLAINTEXT_BYTES)


def _output(session: Session, case: Case, call: tuple[int, str, Any], room: int, right: int) -> _Output:
    context, verb, given = call
    memory, size = buffer(room), size_cell(room)
    arguments = (context, reference(memory), reference(size), reference(given), len(given))
    kind = "ciphertext" if verb == "encrypt" else "plaintext"
    written = Written(kind, size, room, right, right)
    function = session.crypto[f"EVP_PKEY_{verb}"]
    return _Output(writing(session.crypto, Call(case.what, function, arguments), written), memory, size)


def _context(session: Session, case: Case, key: int, verb: str) -> int:
    crypto = session.crypto
    context = key_context(session, key, case.what)
    crypto.demand(crypto[f"EVP_PKEY_{verb}_init"](context), case.what)
    for setting in _SETTINGS if case.parameter_set.family == "RSA" else ():
        crypto.demand(crypto["EVP_PKEY_CTX_ctrl_str"](context, *setting), case.what)
    return context


def _plaintext(case: Case) -> bytes:
    return Random(case.seed).randbytes(PLAINTEXT_BYTES)


def _error(decryption: _Output, encryption: _Output, plaintext: bytes) -> str | None:
    """What was encrypted decrypts to the plaintext, and with a flipped bit it does not."""
    error = _plaintext_error(decryption, plaintext)
    if error is not None:
        return error
    with last_bit_flipped(encryption.memory, encryption.size.value):
        same = _plaintext_error(decryption, plaintext) is None
    return "a ciphertext with a flipped bit decrypts too" if same else None


def _plaintext_error(decryption: _Output, plaintext: bytes) -> str | None:
    decryption.memory.raw = bytes(len(decryption.memory))
    error = untimed(decryption.repeat)
    if error is not None:
        return error
    return None if decryption.content == plaintext else "what is decrypted is not what was encrypted"
