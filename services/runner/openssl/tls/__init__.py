"""TLS 1.3 handshakes by libssl: certificate, contexts, the handshake itself and what it took."""

from runner.openssl.tls.binding import TlsError, TlsLibrary
from runner.openssl.tls.certificate import certificate_bytes, make_credentials
from runner.openssl.tls.checks import agreement_error, check_error
from runner.openssl.tls.contexts import Contexts, Credentials, open_contexts
from runner.openssl.tls.counting import Means, count_many, segments
from runner.openssl.tls.handshake import Handshaker
from runner.openssl.tls.loopback import Loopback
from runner.openssl.tls.offered import Offered, offered

__all__ = [
    "Contexts",
    "Credentials",
    "Handshaker",
    "Loopback",
    "Means",
    "Offered",
    "TlsError",
    "TlsLibrary",
    "agreement_error",
    "certificate_bytes",
    "check_error",
    "count_many",
    "make_credentials",
    "offered",
    "open_contexts",
    "segments",
]
