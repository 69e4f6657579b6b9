"""Settings of the aggregator."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from bus import BrokerSettings
from configure import Settings
from errors import SettingsError
from schemas.base import DutName, Identifier


class InfluxSettings(Settings):
    """The time series store: InfluxDB 2.x, or another that has its `/api/v2/write`."""

    influx_url: str | None = Field(
        None, description="InfluxDB: http://HOST[:PORT] or https://...; without it the journal is the only store"
    )
    influx_org: str = Field("opjoule", min_length=1, description="organisation in InfluxDB 2.x; others ignore it")
    influx_bucket: str = Field(
        "opjoule",
        min_length=1,
        description="bucket; with InfluxDB 1.8 and 3 Core DATABASE or DATABASE/RETENTION_POLICY",
    )
    influx_token_file: Path | None = Field(
        None, description="file whose first line is a token that may write (1.8: USER:PASSWORD)"
    )
    influx_timeout_s: float = Field(10.0, gt=0, le=300, description="longest wait for an answer of InfluxDB, in s")

    @field_validator("influx_url")
    @classmethod
    def _is_http(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not url.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        if not _has_address(url):
            raise ValueError("must be http://HOST[:PORT] or https://HOST[:PORT], with a port from 1 to 65535")
        return url.rstrip("/")

    def influx_token(self) -> str:
        """The token; empty where none is set. Raises SettingsError for a file that cannot be read or is empty."""
        if self.influx_token_file is None:
            return ""
        try:
            lines = self.influx_token_file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SettingsError(f"InfluxDB token file {self.influx_token_file} cannot be read: {reason}") from None
        if not lines or not lines[0].strip():
            raise SettingsError(f"InfluxDB token file {self.influx_token_file} is empty")
        return lines[0].strip()


def _has_address(url: str) -> bool:
    """Whether a server could be there: a host, a port if any, a path if any, nothing else."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        return False
    return bool(host) and port != 0 and not parts.query and not parts.fragment and not re.search(r"[\s\x00-\x1f]", url)


_GAIN = re.compile(r"[^=]+=0(\.\d+)?")


class AggregatorSettings(BrokerSettings, InfluxSettings):
    """Read once, in `__main__`."""

    instance: Identifier = Field(
        "main", description="name of this aggregator; of two with one name at one broker the later ends"
    )
    journal: Path | None = Field(None, description="the journal file; by default journal.sqlite in the state directory")
    sites: tuple[Identifier, ...] = Field((), description="sites to serve; empty means all")
    without_meter: tuple[DutName, ...] = Field((), description="DUTs that have no meter: times only, no energy")
    group_s: float = Field(0.25, ge=0, le=10, description="messages of this time are committed together, in s")
    hold_s: float = Field(
        90.0, gt=0, description="how long a train waits for its samples and clocks before it is marked, in s"
    )
    keep_samples_days: float = Field(7.0, gt=0, description="how long raw samples are kept, in days")
    meter_gain_u: tuple[str, ...] = Field(
        (),
        description="relative standard uncertainty of calibrated meters: SITE/METER=U or MODEL=U, e.g. lab/m1=0.001",
    )
    home_assistant: bool = Field(
        False, description="announce boards and services to Home Assistant by MQTT discovery; false takes it back"
    )
    outbox_limit_mb: float = Field(
        1024.0,
        gt=0,
        description="most power and health lines that wait for InfluxDB; the oldest go first, energy never",
    )

    @field_validator("meter_gain_u")
    @classmethod
    def _are_gains(cls, gains: tuple[str, ...]) -> tuple[str, ...]:
        for each in gains:
            if not _GAIN.fullmatch(each):
                raise ValueError("must be SITE/METER=U or MODEL=U, U from 0 to below 1, as in lab/m1=0.001")
        return gains

    @property
    def gain_u_by_meter(self) -> dict[str, float]:
        """What the operator states of meters, by SITE/METER or by model."""
        return {name: float(u) for name, _, u in (each.rpartition("=") for each in self.meter_gain_u)}

    @property
    def journal_path(self) -> Path:
        """Where the journal lies."""
        return self.journal or self.state_dir / "journal.sqlite"

    @property
    def home_assistant_path(self) -> Path:
        """Where it is kept what Home Assistant was told."""
        return self.state_dir / f"home-assistant-{self.instance}.json"
