"""Where the broker is and how to enter."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from errors import SettingsError

PORTS = {"mqtt": 1883, "mqtts": 8883}
"""URL schemes and their ports as registered with IANA (mqtt, secure-mqtt)."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, with the credentials for it."""

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None

    def __str__(self) -> str:
        """As a URL, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"

    @classmethod
    def parse(
        cls, url: str, username: str | None = None, password: str | None = None, ca_file: Path | None = None
    ) -> Self:
        """From a URL `mqtt://HOST[:PORT]` or `mqtts://HOST[:PORT]`. Raises SettingsError."""
        scheme, host, port = _split(url)
        if password is not None and username is None:
            raise SettingsError("a broker password needs a broker user name")
        if ca_file is not None and scheme != "mqtts":
            raise SettingsError(f"a CA file needs a broker URL that begins with mqtts://, not {url!r}")
        return cls(host, port, scheme == "mqtts", username, password, ca_file)

    def tls_context(self) -> ssl.SSLContext | None:
        """What checks the broker's certificate; None without TLS. Raises SettingsError for an unusable CA file."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise SettingsError(f"CA file {self.ca_file} cannot be used: {error.strerror or error}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


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
