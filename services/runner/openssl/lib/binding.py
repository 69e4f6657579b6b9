"""libcrypto in this process: its functions by name, with their C types, and its own words for what went wrong.

The functions and their types are those of the manual pages EVP_PKEY_*(3), EVP_Digest*(3) and ERR_*(3) of OpenSSL 3.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Mapping
from ctypes import c_char_p as _text
from ctypes import c_int as _int
from ctypes import c_long as _long
from ctypes import c_size_t as _size
from ctypes import c_ulong as _ulong
from ctypes import c_void_p as _pointer
from pathlib import Path
from types import MappingProxyType
from typing import Any

from errors import SettingsError

Function = Callable[..., Any]
"""A pointer that it returns is an address, None for NULL; a status is 1 where the call succeeded."""

_NEW_CONTEXT = (_pointer, _pointer, _text, _text)
_NEW_OF_KEY = (_pointer, _pointer, _pointer, _text)
_FETCH = (_pointer, _pointer, _text, _text)
_FREE = (None, _pointer)
_INIT = (_int, _pointer, _pointer)
_TRANSFORM = (_int, _pointer, _pointer, _pointer, _pointer, _size)
_VERIFY = (_int, _pointer, _pointer, _size, _pointer, _size)
_DIGEST_INIT = (_int, _pointer, _pointer, _text, _pointer, _text, _pointer, _pointer)
_MESSAGE_INIT = (_int, _pointer, _pointer, _pointer)
_RAW_KEY = (_int, _pointer, _pointer, _pointer)

SIGNATURES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "OpenSSL_version": (_text, _int),
        "ERR_get_error": (_ulong,),
        "ERR_error_string_n": (None, _ulong, _pointer, _size),
        "CRYPTO_memcmp": (_int, _pointer, _pointer, _size),
        "CRYPTO_free": (None, _pointer, _text, _int),
        "EVP_PKEY_CTX_new_from_name": _NEW_CONTEXT,
        "EVP_PKEY_CTX_new_from_pkey": _NEW_OF_KEY,
        "EVP_PKEY_CTX_free": _FREE,
        "EVP_PKEY_CTX_ctrl_str": (_int, _pointer, _text, _text),
        "EVP_PKEY_free": _FREE,
        "EVP_PKEY_keygen_init": (_int, _pointer),
        "EVP_PKEY_generate": (_int, _pointer, _pointer),
        "EVP_PKEY_get_bits": (_int, _pointer),
        "EVP_PKEY_get_size": (_int, _pointer),
        "EVP_PKEY_eq": (_int, _pointer, _pointer),
        "EVP_PKEY_get_raw_public_key": _RAW_KEY,
        "EVP_PKEY_get_raw_private_key": _RAW_KEY,
        "EVP_PKEY_get1_encoded_public_key": (_size, _pointer, _pointer),
        "i2d_PrivateKey": (_int, _pointer, _pointer),
        "i2d_PUBKEY": (_int, _pointer, _pointer),
        "d2i_AutoPrivateKey": (_pointer, _pointer, _pointer, _long),
        "d2i_PUBKEY": (_pointer, _pointer, _pointer, _long),
        "EVP_PKEY_encapsulate_init": _INIT,
        "EVP_PKEY_encapsulate": (_int, _pointer, _pointer, _pointer, _pointer, _pointer),
        "EVP_PKEY_decapsulate_init": _INIT,
        "EVP_PKEY_decapsulate": _TRANSFORM,
        "EVP_PKEY_derive_init": (_int, _pointer),
        "EVP_PKEY_derive_set_peer": (_int, _pointer, _pointer),
        "EVP_PKEY_derive": (_int, _pointer, _pointer, _pointer),
        "EVP_PKEY_encrypt_init": (_int, _pointer),
        "EVP_PKEY_encrypt": _TRANSFORM,
        "EVP_PKEY_decrypt_init": (_int, _pointer),
        "EVP_PKEY_decrypt": _TRANSFORM,
        "EVP_PKEY_sign_message_init": _MESSAGE_INIT,
        "EVP_PKEY_sign": _TRANSFORM,
        "EVP_PKEY_verify_message_init": _MESSAGE_INIT,
        "EVP_PKEY_verify": _VERIFY,
        "EVP_MD_CTX_new": (_pointer,),
        "EVP_MD_CTX_free": _FREE,
        "EVP_DigestSignInit_ex": _DIGEST_INIT,
        "EVP_DigestSign": _TRANSFORM,
        "EVP_DigestVerifyInit_ex": _DIGEST_INIT,
        "EVP_DigestVerify": _VERIFY,
        "EVP_KEYMGMT_fetch": _FETCH,
        "EVP_KEYMGMT_free": _FREE,
        "EVP_KEM_fetch": _FETCH,
        "EVP_KEM_free": _FREE,
        "EVP_KEYEXCH_fetch": _FETCH,
        "EVP_KEYEXCH_free": _FREE,
        "EVP_ASYM_CIPHER_fetch": _FETCH,
        "EVP_ASYM_CIPHER_free": _FREE,
        "EVP_SIGNATURE_fetch": _FETCH,
        "EVP_SIGNATURE_free": _FREE,
    }
)
"""Type of the result, then those of the arguments. `EVP_PKEY_sign_message_init` is there from OpenSSL 3.4 on."""

_ERROR_BYTES = 256


class Crypto:
    """One loaded libcrypto. `crypto["EVP_PKEY_free"]` is a function. Raises SettingsError where it lacks one."""

    def __init__(self, path: Path) -> None:
        """Raises SettingsError when it cannot be loaded."""
        apart: int = getattr(os, "RTLD_DEEPBIND", 0) if sys.platform == "linux" else 0
        try:
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL | os.RTLD_NOW | apart)
        except OSError as error:
            raise SettingsError(f"libcrypto cannot be loaded into this process: {error}") from None
        self.path = path
        self._functions: dict[str, Function] = {}
        self._error_text = ctypes.create_string_buffer(_ERROR_BYTES)
        words = self["OpenSSL_version"](0).decode().split()
        self.version: str = words[1] if words[:1] == ["OpenSSL"] else " ".join(words)

    def __getitem__(self, name: str) -> Function:
        if name not in self._functions:
            self._functions[name] = self._bind(name)
        return self._functions[name]

    def has(self, name: str) -> bool:
        """Whether this version has the function."""
        return hasattr(self._library, name)

    def error(self) -> str:
        """The oldest error that libcrypto keeps, in its own words; all are forgotten."""
        code = first = self["ERR_get_error"]()
        while code:
            code = self["ERR_get_error"]()
        if not first:
            return "libcrypto gives no reason"
        self["ERR_error_string_n"](first, self._error_text, _ERROR_BYTES)
        _, _, library, _, reason = self._error_text.value.decode(errors="replace").split(":", 4)
        return f"{reason} ({library})"

    def demand(self, status: int | None, what: str) -> None:
        """Raises SettingsError with libcrypto's words unless the status is 1."""
        if status != 1:
            raise SettingsError(f"libcrypto {self.version}: {what}: {self.error()}")

    def pointer(self, address: int | None, what: str) -> int:
        """The address; NULL raises SettingsError with libcrypto's words."""
        if not address:
            raise SettingsError(f"libcrypto {self.version}: {what}: {self.error()}")
        return address

    def _bind(self, name: str) -> Function:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise SettingsError(f"libcrypto {self.version} lacks {name}: a newer one is needed") from None
        function.restype, *function.argtypes = SIGNATURES[name]
        return function  # type: ignore[no-any-return]


@functools.cache
def load(path: Path) -> Crypto:
    """The libcrypto of this path, loaded once; never unloaded."""
    return Crypto(path)


def buffer(size_bytes: int, content: bytes = b"") -> Any:
    """Bytes that libcrypto reads or writes; `.raw` are its contents."""
    return ctypes.create_string_buffer(content, size_bytes)


def size_cell(value: int = 0) -> Any:
    """A size that libcrypto reads and writes: `.value`."""
    return ctypes.c_size_t(value)


def pointer_cell(address: int | None = None) -> Any:
    """A pointer that libcrypto writes or moves on: `.value`."""
    return ctypes.c_void_p(address)


def reference(cell: Any) -> Any:
    """The address of a cell or buffer, as an argument."""
    return ctypes.byref(cell)


def address_of(memory: Any) -> int:
    """The address of a buffer, as a number."""
    return ctypes.addressof(memory)
