"""The two ends of a handshake, pinned: one group, one signature scheme, TLS 1.3 only, no tickets, no resumption."""

from ctypes import c_char_p, c_void_p, cast
from dataclasses import dataclass
from pathlib import Path

from errors import SettingsError
from runner.openssl.tls import binding
from runner.openssl.tls.binding import TlsLibrary

HOST = "localhost"
"""The name in the certificate, which the client asks for and checks."""
CIPHERSUITES = b"TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"
"""OpenSSL's own default, written out so that no configuration file changes it; the first is agreed on."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The server's self-signed certificate and its key, PEM files."""

    certificate: Path
    private_key: Path


@dataclass(frozen=True, slots=True)
class Contexts:
    """A client and a server that agree on nothing but this group and this scheme (TLS names)."""

    library: TlsLibrary
    client: int
    server: int
    group: str
    scheme: str

    def close(self) -> None:
        """Give both back."""
        self.library["SSL_CTX_free"](self.client)
        self.library["SSL_CTX_free"](self.server)


def open_contexts(library: TlsLibrary, group: str, scheme: str, credentials: Credentials) -> Contexts:
    """Both ends. Raises SettingsError with what the library lacks."""
    server = new_context(library, group, scheme, server=True)
    try:
        _serve(library, server, credentials)
        client = new_context(library, group, scheme, server=False)
    except SettingsError:
        library["SSL_CTX_free"](server)
        raise
    if library["SSL_CTX_load_verify_file"](client, bytes(credentials.certificate)) != 1:
        reason = library.reason()
        library["SSL_CTX_free"](client)
        library["SSL_CTX_free"](server)
        raise SettingsError(f"the certificate cannot be trusted: {reason}")
    return Contexts(library, client, server, group, scheme)


def new_context(library: TlsLibrary, group: str, scheme: str, *, server: bool) -> int:
    """One end, which trusts nobody yet and has no certificate. Raises SettingsError with what the library lacks."""
    context: int | None = library["SSL_CTX_new"](library["TLS_server_method" if server else "TLS_client_method"]())
    if not context:
        raise SettingsError(f"libssl makes no context: {library.reason()}")
    ctrl = library["SSL_CTX_ctrl"]
    steps = (
        ("TLS 1.3", ctrl(context, binding.SSL_CTRL_SET_MIN_PROTO_VERSION, binding.TLS1_3_VERSION, None)),
        ("TLS 1.3", ctrl(context, binding.SSL_CTRL_SET_MAX_PROTO_VERSION, binding.TLS1_3_VERSION, None)),
        ("cipher suites", library["SSL_CTX_set_ciphersuites"](context, CIPHERSUITES)),
        (f"group {group}", knows_group(library, context, group)),
        (f"signature scheme {scheme}", knows_scheme(library, context, scheme)),
        ("way to go without tickets", library["SSL_CTX_set_num_tickets"](context, 0)),
    )
    lacking = next((what for what, done in steps if not done), None)
    if lacking is not None:
        library["SSL_CTX_free"](context)
        raise SettingsError(f"this libssl has no {lacking}")
    ctrl(context, binding.SSL_CTRL_SET_SESS_CACHE_MODE, binding.SSL_SESS_CACHE_OFF, None)
    if not server:
        library["SSL_CTX_set_verify"](context, binding.SSL_VERIFY_PEER, None)
    return context


def knows_group(library: TlsLibrary, context: int, group: str) -> bool:
    """Pins the group, if the library has it."""
    return _set_list(library, context, binding.SSL_CTRL_SET_GROUPS_LIST, group)


def knows_scheme(library: TlsLibrary, context: int, scheme: str) -> bool:
    """Pins the signature scheme, if the library has it."""
    return _set_list(library, context, binding.SSL_CTRL_SET_SIGALGS_LIST, scheme)


def _set_list(library: TlsLibrary, context: int, command: int, name: str) -> bool:
    done: int = library["SSL_CTX_ctrl"](context, command, 0, cast(c_char_p(name.encode()), c_void_p))
    library["ERR_clear_error"]()
    return done == 1


def _serve(library: TlsLibrary, server: int, credentials: Credentials) -> None:
    use = (
        library["SSL_CTX_use_certificate_file"](server, bytes(credentials.certificate), binding.SSL_FILETYPE_PEM),
        library["SSL_CTX_use_PrivateKey_file"](server, bytes(credentials.private_key), binding.SSL_FILETYPE_PEM),
        library["SSL_CTX_check_private_key"](server),
    )
    if use != (1, 1, 1):
        raise SettingsError(f"libssl cannot serve this certificate: {library.reason()}")
