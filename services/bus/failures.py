"""Why there is no connection to a broker, in one line that says who must act. Pure."""

import ssl

from bus.address import BrokerAddress

_NOT_YET_VALID = 9
_EXPIRED = 10
_FOREIGN = (7, 18, 19, 20, 21)
"""Signature that does not fit, self-signed, issuer unknown."""
_OTHER_HOST = (62, 64)
"""Names, addresses. All as in OpenSSL's x509_vfy.h."""
_NO_ENTRY = ("Not authorized", "Bad user name or password")
"""Reason codes 0x87 and 0x86 as paho names them."""


def cannot_reach(error: OSError, address: BrokerAddress, today: str) -> str:
    """Of an attempt to open a connection. `today` is the date by this machine's clock."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"cannot be trusted: {_of_certificate(error, address, today)}"
    if isinstance(error, ssl.SSLError) or (address.tls and isinstance(error, ConnectionResetError)):
        said = getattr(error, "reason", None) or error.strerror or str(error)
        reason = said.lower().replace("_", " ")
        return f"cannot agree on TLS with it ({reason}); does it speak TLS 1.2 or newer on this port?"
    return f"cannot reach it: {error.strerror or error}"


def refused(reason: str) -> str:
    """Of an answer to CONNECT."""
    if reason in _NO_ENTRY:
        return f"refuses the connection: {reason}; who runs it must add this account (opjoule fleet add)"
    return f"refuses the connection: {reason}"


def closed(accepted: bool, address: BrokerAddress) -> str:
    """Of a connection that ended without a word."""
    if accepted:
        return "connection lost"
    if address.tls:
        return (
            "closed without an answer; does it accept this client's certificate (who runs it can add one with "
            "opjoule fleet add), and does it speak MQTT 5?"
        )
    return "closed without an answer; does it speak MQTT 5?"


def _of_certificate(error: ssl.SSLCertVerificationError, address: BrokerAddress, today: str) -> str:
    if error.verify_code == _NOT_YET_VALID:
        return f"its certificate is not valid yet by this machine's clock, which says {today}: set the clock"
    if error.verify_code == _EXPIRED:
        return (
            f"its certificate has expired by this machine's clock, which says {today}: who runs the broker must renew "
            "it (opjoule fleet renew)"
        )
    if error.verify_code in _FOREIGN:
        known = f"in {address.ca_file}" if address.ca_file else "of this system"
        return f"its certificate is of an authority that is not {known}: install this fleet's ca.pem there"
    if error.verify_code in _OTHER_HOST:
        return (
            f"its certificate is not for {address.host}: use a name that it is for, or who runs the broker must add "
            "this one (opjoule fleet renew --host)"
        )
    return error.verify_message
