"""Where the broker is and how to enter."""

import hashlib
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from errors import SettingsError

PORTS = {"mqtt": 1883, "mqtts": 8883}
"""URL schemes and their ports as registered with IANA (mqtt, secure-mqtt)."""


class ClosingSocket(ssl.SSLSocket):
    """Closes itself when its handshake fails: paho forgets it then."""

    def do_handshake(self, block: bool = False) -> None:
        """As ever. Raises OSError."""
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, with the credentials for it."""

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def __str__(self) -> str:
        """As a URL, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"

    @classmethod
    def parse(
        cls,
        url: str,
        username: str | None = None,
        password: str | None = None,
        ca_file: Path | None = None,
        cert_file: Path | None = None,
        key_file: Path | None = None,
    ) -> Self:
        """From a URL `mqtt://HOST[:PORT]` or `mqtts://HOST[:PORT]`. Raises SettingsError."""
        scheme, host, port = _split(url)
        if password is not None and username is None:
            raise SettingsError("a broker password needs a broker user name")
        if key_file is not None and cert_file is None:
            raise SettingsError("a broker key file needs a broker certificate file")
        for what, file in (("CA file", ca_file), ("certificate file", cert_file)):
            if file is not None and scheme != "mqtts":
                raise SettingsError(f"a {what} needs a broker URL that begins with mqtts://, not {url!r}")
        return cls(host, port, scheme == "mqtts", username, password, ca_file, cert_file, key_file)

    def tls_context(self) -> ssl.SSLContext | None:
        """What checks the broker's certificate and shows our own; None without TLS. Raises SettingsError."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise SettingsError(f"CA file {self.ca_file} cannot be used: {_reason(error)}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = ClosingSocket
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, password=_no_passphrase)
            except (OSError, ValueError) as error:
                files = f"{self.cert_file} with key file {self.key_file or self.cert_file}"
                raise SettingsError(f"certificate file {files} cannot be used: {_reason(error)}") from None
        return context

    def client_id(self, name: str) -> str:
        """The name by which the broker knows a client's session.

        Whoever says a client's name to a broker takes its session over: with a password the name holds a part that
        nobody else can know.
        """
        if self.password is None:
            return name
        return f"{name}-{hashlib.sha256(f'{name} {self.password}'.encode()).hexdigest()[:16]}"


def _no_passphrase() -> str:
    """Without it OpenSSL would ask at the terminal."""
    raise ValueError("the key must not need a passphrase")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no PEM file of that kind").lower().replace("_", " ")
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _split(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
        host.encode("idna")
    except ValueError as error:
        raise SettingsError(f"broker URL {url!r}: {error}") from None
    if parts.scheme not in PORTS or not host or port == 0:
        raise SettingsError(f"broker URL {url!r} must be mqtt://HOST[:PORT] or mqtts://HOST[:PORT]")
    if parts.username is not None or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise SettingsError(
            f"broker URL of host {host!r} must hold host and port only; user name and password have their own settings"
        )
    return parts.scheme, host, port if port is not None else PORTS[parts.scheme]
