"""The settings of the meter service; `python -m meter --help` lists them."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bus.settings import PublisherSettings
from schemas.base import DutName, Identifier


class MeterSettings(PublisherSettings):
    """One meter, or one playlist of recordings."""

    source: Literal["simulated", "recording"] = Field(description="where the power readings come from")
    dut: DutName | None = Field(None, description="the DUT that the meter feeds; a playlist names its own")
    meter: Identifier | None = Field(None, description="name of the meter; a playlist names its own")
    meter_model: str = Field(
        "unknown",
        max_length=64,
        description="model of the meter that made --recording, e.g. FNB58; says its gain error",
    )
    instance: Identifier | None = Field(
        None, description="name of this process in topics; else the meter's name, else 'playlist'"
    )
    recording: Path | None = Field(None, description="a .cfn or .csv file to play, starting now")
    playlist: Path | None = Field(
        None, description="JSON list of recordings: path, dut, meter, meter_model, timeline_id, start_ns (of row 0)"
    )
    speed: float = Field(1.0, ge=0, description="of recordings: 1 is real time, 0 as fast as the aggregator confirms")
    exit_at_end: bool = Field(False, description="end when the recordings have been played and confirmed")
    confirm_timeout_s: float = Field(
        60.0, gt=0, description="with --exit-at-end: give up when nothing is confirmed for so long"
    )
    unconfirmed_batches: int = Field(
        256, ge=1, description="with --speed 0: recordings wait while more batches are unconfirmed"
    )
    simulated_pid: int | None = Field(
        None, gt=0, description="process whose CPU time (with descendants) becomes power; none: the whole machine"
    )
    simulated_rate_hz: float = Field(100.0, ge=1, le=1000, description="samples per second")
    simulated_idle_w: float = Field(
        2.3, ge=0, le=100, description="idle power; invented, about that of a Raspberry Pi 4"
    )
    simulated_watts_per_cpu_s: float = Field(
        1.1, ge=0, le=100, description="W for each CPU second per second; invented, about a core of a Raspberry Pi 4"
    )
    simulated_noise_w: float = Field(
        0.05, ge=0, le=10, description="standard deviation of the noise; invented; 0: none"
    )
    simulated_seed: int = Field(1, ge=0, lt=2**53, description="seed of the noise; published in the status")
    batch_samples: int = Field(100, ge=1, le=100_000, description="most samples in a batch")
    batch_s: float = Field(1.0, gt=0, le=3600, description="longest time a sample waits for its batch to fill")
    spool_limit_mb: float = Field(256.0, gt=0, description="most disk for unconfirmed batches; the oldest go first")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.source == "recording" and (self.recording is None) == (self.playlist is None):
            raise ValueError("--source recording needs either --recording or --playlist")
        if self.source != "recording" and (self.recording or self.playlist):
            raise ValueError("--recording and --playlist need --source recording")
        if self.playlist is None and (self.dut is None or self.meter is None):
            raise ValueError("--dut and --meter must be given, unless a --playlist names them")
        return self

    @property
    def instance_name(self) -> str:
        """The name of this process in topics."""
        return self.instance or self.meter or "playlist"
