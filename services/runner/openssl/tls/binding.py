"""The functions of libssl and libcrypto that a handshake needs, bound by ctypes.

Constants are those of OpenSSL's `ssl.h` and `tls1.h`; they are part of its binary interface and the same in all of 3.x.
"""

from collections.abc import Callable, Mapping
from ctypes import CDLL, byref, c_char_p, c_int, c_long, c_size_t, c_uint64, c_ulong, c_void_p, string_at
from types import MappingProxyType
from typing import Any, NoReturn

from errors import SettingsError
from runner.openssl.libraries import Libraries
from runner.openssl.process import serves

TLS1_3_VERSION = 0x0304
SSL_FILETYPE_PEM = 1
SSL_VERIFY_PEER = 1
SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE = 2, 3
SSL_CTRL_SET_SESS_CACHE_MODE = 44
SSL_CTRL_SET_TLSEXT_HOSTNAME = 55
SSL_CTRL_SET_GROUPS_LIST = 92
SSL_CTRL_SET_SIGALGS_LIST = 98
SSL_CTRL_SET_MIN_PROTO_VERSION, SSL_CTRL_SET_MAX_PROTO_VERSION = 123, 124
SSL_CTRL_GET_NEGOTIATED_GROUP = 134
SSL_CTRL_GET0_IMPLEMENTED_GROUPS = 139
SSL_CTRL_GET_PEER_SIGNATURE_NAME = 141
SSL_SESS_CACHE_OFF = 0

Prototype = tuple[Any, tuple[Any, ...]]
"""What a function gives and what it takes."""
_SSL: Mapping[str, Prototype] = MappingProxyType(
    {
        "TLS_client_method": (c_void_p, ()),
        "TLS_server_method": (c_void_p, ()),
        "SSL_CTX_new": (c_void_p, (c_void_p,)),
        "SSL_CTX_free": (None, (c_void_p,)),
        "SSL_CTX_ctrl": (c_long, (c_void_p, c_int, c_long, c_void_p)),
        "SSL_CTX_set_ciphersuites": (c_int, (c_void_p, c_char_p)),
        "SSL_CTX_set_num_tickets": (c_int, (c_void_p, c_size_t)),
        "SSL_CTX_get_num_tickets": (c_size_t, (c_void_p,)),
        "SSL_CTX_set_verify": (None, (c_void_p, c_int, c_void_p)),
        "SSL_CTX_load_verify_file": (c_int, (c_void_p, c_char_p)),
        "SSL_CTX_use_certificate_file": (c_int, (c_void_p, c_char_p, c_int)),
        "SSL_CTX_use_PrivateKey_file": (c_int, (c_void_p, c_char_p, c_int)),
        "SSL_CTX_check_private_key": (c_int, (c_void_p,)),
        "SSL_new": (c_void_p, (c_void_p,)),
        "SSL_free": (None, (c_void_p,)),
        "SSL_ctrl": (c_long, (c_void_p, c_int, c_long, c_void_p)),
        "SSL_set1_host": (c_int, (c_void_p, c_char_p)),
        "SSL_set_fd": (c_int, (c_void_p, c_int)),
        "SSL_connect": (c_int, (c_void_p,)),
        "SSL_accept": (c_int, (c_void_p,)),
        "SSL_get_error": (c_int, (c_void_p, c_int)),
        "SSL_get_verify_result": (c_long, (c_void_p,)),
        "SSL_get_wbio": (c_void_p, (c_void_p,)),
        "SSL_group_to_name": (c_char_p, (c_void_p, c_int)),
        "SSL_session_reused": (c_int, (c_void_p,)),
        "SSL_read": (c_int, (c_void_p, c_void_p, c_int)),
        "SSL_write": (c_int, (c_void_p, c_void_p, c_int)),
    }
)
_CRYPTO: Mapping[str, Prototype] = MappingProxyType(
    {
        "BIO_number_written": (c_uint64, (c_void_p,)),
        "ERR_clear_error": (None, ()),
        "ERR_get_error": (c_ulong, ()),
        "ERR_reason_error_string": (c_char_p, (c_ulong,)),
        "X509_verify_cert_error_string": (c_char_p, (c_long,)),
        "OPENSSL_sk_num": (c_int, (c_void_p,)),
        "OPENSSL_sk_value": (c_void_p, (c_void_p, c_int)),
        "OPENSSL_sk_new_null": (c_void_p, ()),
        "OPENSSL_sk_free": (None, (c_void_p,)),
    }
)


class TlsError(Exception):
    """One end of a handshake gave up; the text is OpenSSL's reason in one line."""


class TlsLibrary:
    """One loaded libssl with its libcrypto. Raises SettingsError where a library cannot be used."""

    def __init__(self, libraries: Libraries) -> None:
        if not serves(libraries):
            raise SettingsError(f"handshakes need a Python that runs on {libraries.ssl}")
        try:
            crypto, ssl = CDLL(str(libraries.crypto)), CDLL(str(libraries.ssl))
            self._functions = {**_bound(crypto, _CRYPTO), **_bound(ssl, _SSL)}
        except (OSError, AttributeError) as error:
            raise SettingsError(f"handshakes need a libssl that loads: {error}") from None

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function by its name in OpenSSL."""
        return self._functions[name]

    def reason(self) -> str:
        """The first reason in OpenSSL's queue of errors, which is emptied; empty where there is none."""
        code = self._functions["ERR_get_error"]()
        self._functions["ERR_clear_error"]()
        text: bytes | None = self._functions["ERR_reason_error_string"](code)
        return text.decode(errors="replace") if text else (f"error {code:08X}" if code else "")

    def fail(self, ssl: int, what: str) -> NoReturn:
        """Raise TlsError with OpenSSL's reason, and with what verification found where that is the reason."""
        result = self._functions["SSL_get_verify_result"](ssl)
        found = self._functions["X509_verify_cert_error_string"](result).decode() if result else ""
        reason = self.reason() or ("" if found else "the connection broke")
        raise TlsError(": ".join(each for each in (what, reason, found) if each))

    def peer_scheme(self, ssl: int) -> str | None:
        """The signature scheme that the peer signed with; None where the library cannot tell (before OpenSSL 3.5)."""
        name = c_char_p()
        if self._functions["SSL_ctrl"](ssl, SSL_CTRL_GET_PEER_SIGNATURE_NAME, 0, byref(name)) != 1 or not name.value:
            return None
        return name.value.decode()

    def group(self, ssl: int) -> str:
        """The group that was agreed on."""
        number = self._functions["SSL_ctrl"](ssl, SSL_CTRL_GET_NEGOTIATED_GROUP, 0, None)
        name: bytes | None = self._functions["SSL_group_to_name"](ssl, number)
        return name.decode() if name else f"group {number:#06x}"

    def implemented_groups(self, context: int) -> tuple[str, ...]:
        """Names of all groups that the library and its providers implement; empty before OpenSSL 3.5."""
        stack = c_void_p(self._functions["OPENSSL_sk_new_null"]())
        try:
            if self._functions["SSL_CTX_ctrl"](context, SSL_CTRL_GET0_IMPLEMENTED_GROUPS, 0, stack) <= 0:
                return ()
            count = self._functions["OPENSSL_sk_num"](stack)
            return tuple(string_at(self._functions["OPENSSL_sk_value"](stack, i)).decode() for i in range(count))
        finally:
            self._functions["OPENSSL_sk_free"](stack)


def _bound(library: CDLL, prototypes: Mapping[str, Prototype]) -> dict[str, Callable[..., Any]]:
    functions: dict[str, Callable[..., Any]] = {}
    for name, (result, arguments) in prototypes.items():
        function = library[name]
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions
