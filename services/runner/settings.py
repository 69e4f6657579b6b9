"""Settings of the runner."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from bus.settings import PublisherSettings
from runner.campaign_file import MOST
from runner.job import MOST_MESSAGE_BYTES
from runner.segments import PresetName
from schemas.base import DutName, Identifier


class RunnerSettings(PublisherSettings):
    """What to measure, on which board, and how long."""

    dut: DutName = Field(description="name of this board")
    instance: Identifier | None = Field(
        None, description="name of this service in its status topic; else that of the board"
    )
    openssl: str | None = Field(
        None, description="openssl program; else PATH's from 3.5 on, else one in the user's cache"
    )
    plan: str = Field(
        "continuous",
        description="what to run: a campaign's name (all, continuous, demo, study-1 ...), a campaign file, items "
        "such as keygen:ML-KEM-768,lib/sign:ML-DSA-65,null,sham, or wait: only what commands ask for",
    )
    then: Literal["exit", "wait"] = Field("exit", description="after the plan: end, or wait for commands")
    rounds: int | None = Field(
        None,
        ge=0,
        le=MOST,
        description="how often the plan is run, each time in another order; 0: for ever; else the plan's",
    )
    train_s: float | None = Field(
        None, ge=1, le=86_400, description="length of a train in s, longer where repetitions are long; else the plan's"
    )
    preset: PresetName | None = Field(
        None,
        description="lengths of segments and guard, by the settling time of the power supply: short, medium or long "
        "for 17, 40 or 200 ms; else the plan's",
    )
    start_delay_s: float = Field(10.0, ge=0, le=3600, description="wait before a campaign's first train, in s")
    gap_s: float | None = Field(
        None, ge=0.5, le=86_400, description="wait between trains, in s, 2 or more with a meter; else the plan's"
    )
    message_bytes: int | None = Field(
        None,
        ge=1,
        le=MOST_MESSAGE_BYTES,
        description="size of the message that is signed, 67,108,864 at most; else the plan's",
    )
    message_file: Path | None = Field(None, description="file that is signed; else random bytes of that size")
    seed: int | None = Field(
        None, ge=0, lt=2**53, description="makes a run repeatable: order of trains, segments, message; else the plan's"
    )
    governor: Literal["performance", "unchanged"] = Field(
        "performance", description="CPU frequency governor in trains, where it may be changed"
    )
    core: int | None = Field(None, ge=0, le=4095, description="run operations on this processor only")
    busy_cores: float = Field(
        0.25, ge=0, le=4096, description="a machine is busy when others keep more processors than this at work"
    )
    busy_wait_s: float = Field(
        30.0, ge=0, le=86_400, description="how long a train waits for a busy machine, in s; then it is marked"
    )
    confirm_s: float = Field(
        30.0, ge=0, le=86_400, description="wait at the end of the plan for the aggregator's receipts, in s"
    )
    spool_limit_bytes: int = Field(64_000_000, ge=1_000_000, description="most that waits on disk for the aggregator")

    @property
    def instance_name(self) -> str:
        """The instance in topics."""
        return self.instance or self.dut
