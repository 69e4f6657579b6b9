"""What every service must know to reach the broker; their settings derive from this."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field

from bus.address import BrokerAddress
from configure import Settings
from errors import SettingsError
from schemas.base import Identifier


def default_state_dir() -> Path:
    """`$XDG_STATE_HOME/opjoule`, else `~/.local/state/opjoule` (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "state"
    return base / "opjoule"


class BrokerSettings(Settings):
    """Broker, site, log level and where files are kept."""

    broker_url: str = Field(
        "mqtt://127.0.0.1:1883", description="MQTT broker: mqtt://HOST[:PORT] or mqtts://HOST[:PORT]"
    )
    broker_username: str | None = Field(None, description="user name for the broker")
    broker_password_file: Path | None = Field(None, description="file whose first line is the password for the broker")
    broker_ca_file: Path | None = Field(
        None, description="certificates that the broker is checked against with mqtts (PEM); else those of the system"
    )
    broker_cert_file: Path | None = Field(
        None, description="certificate that this client shows to the broker with mqtts (PEM)"
    )
    broker_key_file: Path | None = Field(
        None, description="private key of that certificate (PEM); else in the certificate's file"
    )
    site: Identifier = Field("lab", description="the site, first level of every topic")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level that is logged")
    state_dir: Path = Field(default_factory=default_state_dir, description="folder for spool, journal and caches")

    def address(self) -> BrokerAddress:
        """Where the broker is. Raises SettingsError for a bad URL or a password file that cannot be read."""
        return BrokerAddress.parse(
            self.broker_url,
            self.broker_username,
            self._password(),
            self.broker_ca_file,
            self.broker_cert_file,
            self.broker_key_file,
        )

    def _password(self) -> str | None:
        if self.broker_password_file is None:
            return None
        try:
            lines = self.broker_password_file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SettingsError(f"broker password file {self.broker_password_file} cannot be read: {reason}") from None
        if not lines or not lines[0]:
            raise SettingsError(f"broker password file {self.broker_password_file} is empty")
        return lines[0]


class PublisherSettings(BrokerSettings):
    """Of a service whose messages must not be lost."""

    resend_s: float = Field(
        30.0, gt=0, le=86_400, description="what no aggregator has confirmed is sent again after so long, in s"
    )
