"""Key agreement: the shared secret of one's own key and the peer's, which is set once, as in `openssl speed`."""

from dataclasses import dataclass
from typing import Any

from errors import SettingsError
from runner.openssl.lib import Session, buffer, key_context, new_key, reference, size_cell
from runner.openssl.lib.repetitions import Call, Written, writing
from runner.operations.lib.case import Case, checking, lib_work, must_work, untimed
from runner.operations.work import Work
from runner.train import Repeat


@dataclass(frozen=True, slots=True)
class _Side:
    repeat: Repeat
    secret: Any


def prepare_derive(session: Session, case: Case) -> Work:
    """Both keys are made before; every repetition writes the same secret."""
    key, peer = new_key(session, case.parameter_set), new_key(session, case.parameter_set)
    own = _side(session, case, key, peer)
    must_work(case, own.repeat)

    def check(fresh: Session) -> str | None:
        """The peer derives the same secret, and with another key of the peer it changes."""
        other = _side(fresh, case, peer, key)
        own.secret.raw, other.secret.raw = bytes(len(own.secret)), b"\xff" * len(own.secret)
        error = untimed(own.repeat) or untimed(other.repeat)
        if error is not None:
            return error
        if own.secret.raw != other.secret.raw:
            return "the two sides derive different secrets"
        stranger = _side(fresh, case, key, new_key(fresh, case.parameter_set))
        error = untimed(stranger.repeat)
        if error is None and stranger.secret.raw == own.secret.raw:
            return "another key of the peer gives the same secret"
        return error

    return lib_work(case, "", own.repeat, {"shared_secret": len(own.secret)}, checking(session.crypto, check))


def _side(session: Session, case: Case, key: int, peer: int) -> _Side:
    crypto, each = session.crypto, case.parameter_set
    context, size = key_context(session, key, case.what), size_cell()
    crypto.demand(crypto["EVP_PKEY_derive_init"](context), case.what)
    crypto.demand(crypto["EVP_PKEY_derive_set_peer"](context, peer), case.what)
    derive = crypto["EVP_PKEY_derive"]
    crypto.demand(derive(context, None, reference(size)), case.what)
    if each.family != "provider" and size.value != each.shared_secret_bytes:
        raise SettingsError(f"{each.name}: shared secret of {size.value} bytes")
    secret = buffer(size.value)
    call = Call(case.what, derive, (context, reference(secret), reference(size)))
    return _Side(writing(crypto, call, Written("shared secret", size, len(secret), len(secret), len(secret))), secret)
