"""libcrypto in this process by ctypes: the `lib` backend's only way to it."""

from runner.openssl.lib.binding import Crypto, Function, buffer, load, reference, size_cell
from runner.openssl.lib.keys import Session, generate, generation_context, key_context, load_error, new_key
from runner.openssl.lib.offers import offer_error

__all__ = [
    "Crypto",
    "Function",
    "Session",
    "buffer",
    "generate",
    "generation_context",
    "key_context",
    "load",
    "load_error",
    "new_key",
    "offer_error",
    "reference",
    "size_cell",
]
