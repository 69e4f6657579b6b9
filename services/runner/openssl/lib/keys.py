"""Keys of libcrypto: made, measured, written out and loaded again."""

from contextlib import ExitStack
from dataclasses import dataclass

from errors import SettingsError
from runner.openssl.commands import key_manager
from runner.openssl.lib.binding import Crypto, address_of, buffer, pointer_cell, reference, size_cell
from schemas import ParameterSet


@dataclass(frozen=True, slots=True)
class Session:
    """A libcrypto and what must be given back to it: `resources` frees all that was made, in reverse."""

    crypto: Crypto
    resources: ExitStack

    def keep(self, address: int | None, free: str, what: str) -> int:
        """An object, to be freed by the function of that name. Raises SettingsError when it is NULL."""
        kept = self.crypto.pointer(address, what)
        self.resources.callback(self.crypto[free], kept)
        return kept


def generation_context(session: Session, each: ParameterSet) -> int:
    """A context that makes keys of the set. Raises SettingsError when libcrypto cannot."""
    crypto, what = session.crypto, f"keygen {each.name}"
    name = key_manager(each)
    made = crypto["EVP_PKEY_CTX_new_from_name"](None, name.encode(), None)
    context = session.keep(made, "EVP_PKEY_CTX_free", what)
    crypto.demand(crypto["EVP_PKEY_keygen_init"](context), what)
    setting = _setting(each, name)
    if setting is not None:
        crypto.demand(crypto["EVP_PKEY_CTX_ctrl_str"](context, *setting), what)
    return context


def generate(session: Session, context: int, what: str) -> int:
    """A new key. Raises SettingsError when libcrypto cannot."""
    cell = pointer_cell()
    session.crypto.demand(session.crypto["EVP_PKEY_generate"](context, reference(cell)), what)
    return session.keep(cell.value, "EVP_PKEY_free", what)


def new_key(session: Session, each: ParameterSet) -> int:
    """A new key of the set. Raises SettingsError when libcrypto cannot."""
    return generate(session, generation_context(session, each), f"keygen {each.name}")


def key_context(session: Session, key: int, what: str) -> int:
    """A context for operations with a key."""
    made = session.crypto["EVP_PKEY_CTX_new_from_pkey"](None, key, None)
    return session.keep(made, "EVP_PKEY_CTX_free", what)


def public_key_bytes(crypto: Crypto, each: ParameterSet, key: int) -> int | None:
    """Size of the public key as the catalogue counts it: modulus, uncompressed point or raw key; None: not known."""
    match each.family:
        case "RSA":
            return int(crypto["EVP_PKEY_get_bits"](key)) // 8
        case "ECDSA" | "ECDH":
            return _encoded_bytes(crypto, key)
        case _:
            return _raw_bytes(crypto, "EVP_PKEY_get_raw_public_key", key) or _encoded_bytes(crypto, key)


def private_key_bytes(crypto: Crypto, each: ParameterSet, key: int) -> int | None:
    """Size of the private key as the catalogue counts it: modulus, scalar or raw key; None: not known."""
    match each.family:
        case "RSA":
            return int(crypto["EVP_PKEY_get_bits"](key)) // 8
        case "ECDSA" | "ECDH":
            return (int(crypto["EVP_PKEY_get_bits"](key)) + 7) // 8
        case _:
            return _raw_bytes(crypto, "EVP_PKEY_get_raw_private_key", key)


def load_error(crypto: Crypto, key: int) -> str | None:
    """Write both keys as DER and load them again: one line when that fails or gives another key.

    A provider's key may load under another name of its type: what it is written as then counts.
    """
    for kind, loader, writer in (
        ("private", "d2i_AutoPrivateKey", "i2d_PrivateKey"),
        ("public", "d2i_PUBKEY", "i2d_PUBKEY"),
    ):
        try:
            der = _written(crypto, writer, key)
        except SettingsError as error:
            return str(error)
        loaded = _load(crypto, loader, der)
        if loaded is None:
            return f"the {kind} key does not load: {crypto.error()}"
        try:
            same = crypto["EVP_PKEY_eq"](key, loaded) == 1 or _written(crypto, writer, loaded) == der
        finally:
            crypto["EVP_PKEY_free"](loaded)
            crypto.error()
        if not same:
            return f"the {kind} key loads as another key"
    return None


def _setting(each: ParameterSet, manager: str) -> tuple[bytes, bytes] | None:
    if manager == "RSA":
        return b"rsa_keygen_bits", str(8 * each.public_key_bytes).encode()
    if manager == "EC":
        return b"ec_paramgen_curve", each.name.split("-", 1)[1].encode()
    return None


def _raw_bytes(crypto: Crypto, function: str, key: int) -> int | None:
    size = size_cell()
    if crypto[function](key, None, reference(size)) != 1:
        crypto.error()
        return None
    return int(size.value)


def _encoded_bytes(crypto: Crypto, key: int) -> int | None:
    cell = pointer_cell()
    size = int(crypto["EVP_PKEY_get1_encoded_public_key"](key, reference(cell)))
    if not size:
        crypto.error()
        return None
    crypto["CRYPTO_free"](cell.value, None, 0)
    return size


def _written(crypto: Crypto, function: str, key: int) -> bytes:
    size = int(crypto[function](key, None))
    if size <= 0:
        raise SettingsError(f"{function}: {crypto.error()}")
    memory = buffer(size)
    written = int(crypto[function](key, reference(pointer_cell(address_of(memory)))))
    return bytes(memory.raw[:written])


def _load(crypto: Crypto, function: str, der: bytes) -> int | None:
    memory = buffer(len(der), der)
    loaded: int | None = crypto[function](None, reference(pointer_cell(address_of(memory))), len(der))
    return loaded
