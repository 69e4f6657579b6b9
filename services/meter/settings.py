"""The settings of the meter service; `python -m meter --help` lists them."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator

from bus.settings import PublisherSettings
from errors import SettingsError
from meter.config import MeterEntry, read_meters
from schemas.base import DutName, Identifier

SPOOL_BYTES_PER_SAMPLE = 18
"""Of an unconfirmed sample with voltage and current, compressed, 100 in a batch, every value a new one: 16.6 measured
(tests/meter/test_spool_budget.py). The spool's file is up to a third larger, and its journal takes 0.3 MB."""
SPOOLED_SAMPLES = 360_000
"""An hour of 100 samples/s, the default for each meter."""
_SPOOL_OF_RECORDINGS_MB = 256.0


class MeterSettings(PublisherSettings):
    """One meter, a file of meters, or one playlist of recordings."""

    source: Literal["simulated", "recording", "fnirsi", "tc66c", "hwmon", "auto"] = Field(
        description="where the power readings come from; auto: from the meters that --meters names"
    )
    dut: DutName | None = Field(
        None, description="the DUT that the meter feeds; a file of meters or playlist names its own"
    )
    meter: Identifier | None = Field(None, description="name of the meter; a file of meters or playlist names its own")
    meter_model: str = Field(
        "unknown",
        min_length=1,
        max_length=64,
        description="model of the meter, e.g. FNB58; says its gain error. A meter that says its model need not be told",
    )
    meters: Path | None = Field(None, description="file of meters (TOML) for --source auto; see docs/operate.md")
    serial: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="serial number of the meter, when several of its kind are plugged in",
    )
    node: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="where the meter is plugged in: a device node, or a USB port (1-1.4)",
    )
    family: Literal["A", "B"] | None = Field(
        None,
        description="how a FNIRSI meter is started; none: what its model needs, and the other when it stays silent",
    )
    keep_alive_s: float | None = Field(
        None,
        ge=0,
        le=10,
        description="how often a FNIRSI meter is told to go on; 0: once per report; none: as its model needs",
    )
    instance: Identifier | None = Field(
        None, description="name of this process in topics; else the meter's name, else 'meters' or 'playlist'"
    )
    recording: Path | None = Field(
        None, description="a .cfn or .csv file, or one of `opjoule meter record`, to play, starting now"
    )
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
    simulated_rate_hz: float = Field(100.0, ge=10, le=1000, description="samples per second, four in a report")
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
    spool_limit_mb: float | None = Field(
        None,
        gt=0,
        description="most of unconfirmed batches, compressed (their file is up to a third larger, and 0.3 MB); the "
        "oldest go first; none: an hour of 100 samples/s per meter",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.source == "recording" and (self.recording is None) == (self.playlist is None):
            raise ValueError("--source recording needs either --recording or --playlist")
        if self.source != "recording" and (self.recording or self.playlist):
            raise ValueError("--recording and --playlist need --source recording")
        if (self.source == "auto") != (self.meters is not None):
            raise ValueError("--source auto and --meters need each other")
        if self._names_its_own and (self.dut or self.meter or self.serial or self.node):
            raise ValueError("--dut, --meter, --serial and --node are for one meter; a file of several names its own")
        if not self._names_its_own and (self.dut is None or self.meter is None):
            raise ValueError("--dut and --meter must be given, unless --meters or a --playlist names them")
        return self

    @property
    def instance_name(self) -> str:
        """The name of this process in topics."""
        return self.instance or self.meter or ("meters" if self.meters else "playlist")

    @property
    def is_live(self) -> bool:
        """Whether meters are read that go on for ever, in contrast to recordings."""
        return self.source != "recording"

    def entries(self) -> tuple[MeterEntry, ...]:
        """The meters that are plugged in, from the file or the flags. Raises SettingsError."""
        if self.meters is not None:
            return read_meters(self.meters)
        given = {
            name: getattr(self, name) for name in ("source", "dut", "meter", "serial", "node", "family", "keep_alive_s")
        }
        try:
            return (
                MeterEntry.model_validate(
                    {**given, "model": None if self.meter_model == "unknown" else self.meter_model}
                ),
            )
        except ValidationError as error:
            raise SettingsError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None

    def spool_limit_bytes(self, meters: int) -> int:
        """Most of what is unconfirmed of so many meters, compressed."""
        if self.spool_limit_mb is not None:
            return round(self.spool_limit_mb * 1e6)
        if not self.is_live:
            return round(_SPOOL_OF_RECORDINGS_MB * 1e6)
        return SPOOLED_SAMPLES * SPOOL_BYTES_PER_SAMPLE * max(1, meters)

    @property
    def _names_its_own(self) -> bool:
        return self.playlist is not None or self.meters is not None
