"""What a libcrypto can do, asked without a key where that is enough."""

from collections.abc import Mapping
from contextlib import ExitStack
from types import MappingProxyType

from errors import SettingsError
from runner.openssl.commands import key_manager
from runner.openssl.lib.binding import Crypto
from runner.openssl.lib.keys import Session, new_key
from schemas import Operation, ParameterSet

_METHODS: Mapping[Operation, str] = MappingProxyType(
    {
        "encaps": "KEM",
        "decaps": "KEM",
        "derive": "KEYEXCH",
        "sign": "SIGNATURE",
        "verify": "SIGNATURE",
        "encrypt": "ASYM_CIPHER",
        "decrypt": "ASYM_CIPHER",
    }
)


def offer_error(crypto: Crypto, operation: Operation, each: ParameterSet) -> str | None:
    """None when libcrypto offers the operation for the set, else one line why not.

    Curves are tried with a key: a build may lack some that it has names for.
    """
    if operation in ("null", "sham"):
        return None
    if operation != "keygen" and operation not in _METHODS:
        return f"the lib backend has no {operation}"
    if each.family != "provider" and operation not in each.operations:
        return f"{each.name} has no {operation}"
    manager = key_manager(each)
    if not _fetches(crypto, "KEYMGMT", manager):
        return _lacks(crypto, each)
    if operation != "keygen" and not _fetches(crypto, _METHODS[operation], _method_name(each, operation)):
        return f"{_lacks(crypto, each)} for {operation}"
    return _key_error(crypto, each) if manager == "EC" else None


def _fetches(crypto: Crypto, kind: str, name: str) -> bool:
    fetched = crypto[f"EVP_{kind}_fetch"](None, name.encode(), None)
    if not fetched:
        crypto.error()
        return False
    crypto[f"EVP_{kind}_free"](fetched)
    return True


def _method_name(each: ParameterSet, operation: Operation) -> str:
    if each.family in ("ECDSA", "ECDH"):
        return "ECDH" if operation == "derive" else "ECDSA"
    return key_manager(each)


def _key_error(crypto: Crypto, each: ParameterSet) -> str | None:
    with ExitStack() as resources:
        try:
            new_key(Session(crypto, resources), each)
        except SettingsError as error:
            return str(error)
    return None


def _lacks(crypto: Crypto, each: ParameterSet) -> str:
    return f"libcrypto {crypto.version} lacks {each.name}"
