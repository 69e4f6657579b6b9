"""Settings of the runner."""

from pydantic import Field

from bus.settings import PublisherSettings
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
        "demo",
        description="what to run: demo, all, or items such as keygen:ML-KEM-768,sign:ML-DSA-65,null:1,null:2,sham",
    )
    rounds: int = Field(0, ge=0, description="how often the plan is run, each time in another order; 0: for ever")
    train_s: float = Field(
        60.0, ge=1, le=86_400, description="length of a train in s, longer where repetitions are long"
    )
    preset: PresetName = Field(
        "short", description="lengths of segments and guard, by the settling time of the power supply: 17, 40 or 200 ms"
    )
    start_delay_s: float = Field(10.0, ge=0, le=3600, description="wait before the first train, in s")
    gap_s: float = Field(2.0, ge=0.5, le=86_400, description="wait between trains, in s")
    message_bytes: int = Field(19_600, ge=1, le=2**30, description="size of the message that is signed")
    seed: int | None = Field(
        None, ge=0, lt=2**53, description="makes a run repeatable: order of trains, segments, message"
    )
    confirm_s: float = Field(
        30.0, ge=0, le=86_400, description="wait at the end of the plan for the aggregator's receipts, in s"
    )
    spool_limit_bytes: int = Field(64_000_000, ge=1_000_000, description="most that waits on disk for the aggregator")

    @property
    def instance_name(self) -> str:
        """The instance in topics."""
        return self.instance or self.dut
