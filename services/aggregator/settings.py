"""Settings of the aggregator."""

from pathlib import Path

from pydantic import Field

from bus import BrokerSettings
from schemas.base import DutName, Identifier


class AggregatorSettings(BrokerSettings):
    """Read once, in `__main__`."""

    instance: Identifier = Field("main", description="name of this aggregator; two with one name cannot both connect")
    journal: Path | None = Field(None, description="the journal file; by default journal.sqlite in the state directory")
    sites: tuple[Identifier, ...] = Field((), description="sites to serve; empty means all")
    without_meter: tuple[DutName, ...] = Field((), description="DUTs that have no meter: times only, no energy")
    group_s: float = Field(0.25, ge=0, le=10, description="messages of this time are committed together, in s")
    hold_s: float = Field(90.0, gt=0, description="how long a train waits for its samples before it is marked, in s")
    keep_samples_days: float = Field(7.0, gt=0, description="how long raw samples are kept, in days")

    @property
    def journal_path(self) -> Path:
        """Where the journal lies."""
        return self.journal or self.state_dir / "journal.sqlite"
