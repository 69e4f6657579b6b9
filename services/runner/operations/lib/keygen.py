"""Key generation: one pair per repetition, freed at once."""

from errors import SettingsError
from runner.openssl.lib import Session, generate, generation_context, load_error
from runner.openssl.lib.keys import private_key_bytes, public_key_bytes
from runner.openssl.lib.repetitions import generating
from runner.operations.lib.case import Case, checking, lib_work
from runner.operations.work import Work


def prepare_keygen(session: Session, case: Case) -> Work:
    """Before the train and after it a fresh pair has the standard's sizes and loads again from its DER."""
    crypto = session.crypto
    context = generation_context(session, case.parameter_set)

    def error_of(fresh: Session) -> tuple[str | None, dict[str, int]]:
        key = generate(fresh, context, case.what)
        sizes = _sizes(fresh, case, key)
        return _size_error(sizes, case) or load_error(fresh.crypto, key), sizes

    error, sizes = error_of(session)
    if error is not None:
        raise SettingsError(f"{case.what}: {error}")
    repeat = generating(crypto, context, case.what)
    return lib_work(case, "", repeat, sizes, checking(crypto, lambda fresh: error_of(fresh)[0]))


def _sizes(session: Session, case: Case, key: int) -> dict[str, int]:
    each = case.parameter_set
    found = {
        "private_key": private_key_bytes(session.crypto, each, key),
        "public_key": public_key_bytes(session.crypto, each, key),
    }
    return {kind: size for kind, size in found.items() if size is not None}


def _size_error(sizes: dict[str, int], case: Case) -> str | None:
    each = case.parameter_set
    if each.family == "provider":
        return None
    for kind, right in (("private_key", each.private_key_bytes), ("public_key", each.public_key_bytes)):
        if sizes.get(kind) != right:
            return f"{kind.replace('_', ' ')} of {sizes.get(kind)} bytes, not {right}"
    return None
