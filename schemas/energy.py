"""What the aggregator says of energy: results, pooled means, comparisons."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from schemas.base import Count, DutName, Identifier, Message, Model, Quantity, Seconds, TimeNs
from schemas.operations import (
    Backend,
    Board,
    EventId,
    Handshake,
    Operation,
    ParameterSetName,
    Procedure,
    Text,
    TimeStatistics,
)
from schemas.samples import MeterKind

Quality = Literal["good", "degraded", "invalid", "time_only"]
Flag = Literal[
    "as_published",
    "busy",
    "clock_unknown",
    "counter_disagrees",
    "failed_repetitions",
    "few_segments",
    "gain_unknown",
    "gap",
    "guard_short",
    "no_baseline",
    "no_repetitions",
    "no_samples",
    "not_computable",
    "separate_timing",
    "simulated",
    "single_baseline",
    "size_unknown",
    "stuck",
    "throttled",
    "unsettled",
]
"""Named reasons beside a figure; docs/flags.md says what each means and who must act."""


class BudgetPart(Model):
    """One source of uncertainty of the net energy per operation (of the mean power of a sham train)."""

    name: Literal["scatter", "clock", "gain"]
    u: Annotated[float, Field(ge=0)]
    dof: Annotated[float | None, Field(gt=0)] = None
    source: Text


class ClockState(Model):
    """How the train was placed on the meter's timeline."""

    method: Literal["same_timeline", "same_host", "exchange", "assumed"]
    offset_ns: Annotated[int, Field(description="added to the runner's times")]
    drift_ppm: Annotated[float, Field(description="the offset is that of the middle of the train, and grows so")] = 0.0
    bound_s: Annotated[Seconds | None, Field(description="largest error; null means unknown")] = None


class PowerStatistics(Model):
    """Of the samples in load segments without guard and in guarded idle segments. Never used for energy."""

    load_trimmed_mean_w: float
    load_median_w: float
    load_sd_w: float
    idle_trimmed_mean_w: float
    idle_median_w: float
    idle_sd_w: float


class CounterCheck(Model):
    """The meter's own energy counter beside the integral of its samples, both gross and over the same `span_s`."""

    span_s: Annotated[Seconds, Field(description="from the first to the last reading of the counter in the train")]
    counter_j: Quantity
    integral_j: Annotated[Quantity | None, Field(description="without gain error; null where samples are missing")] = (
        None
    )


class EnergyResult(Message):
    """The energy of one train at one meter.

    A later revision replaces an earlier one of the same `event_id` and `meter`, and one without a meter. An invalid
    result carries no energy. A sham train has no repetitions: its figure is `net_power_w`.
    """

    event_id: EventId
    revision: Annotated[int, Field(ge=1)]
    site: Identifier
    dut: DutName
    run_id: Text
    origin: Literal["runner", "import"]
    operation: Operation
    parameter_set: ParameterSetName
    algorithm: Text
    category: Annotated[int | None, Field(ge=1, le=5, description="NIST security category")] = None
    variant: Annotated[str, Field(max_length=128)]
    procedure: Procedure = "train"
    null_variant: Annotated[str, Field(max_length=128)] = ""
    backend: Backend
    processes_per_repetition: Count
    board: Board
    meter: Identifier | None
    meter_model: Text | None
    meter_kind: MeterKind | None
    simulated: bool
    start_ns: TimeNs
    end_ns: TimeNs
    start_time: Annotated[str, Field(description="start_ns as RFC 3339, UTC")]
    end_time: Annotated[str, Field(description="end_ns as RFC 3339, UTC")]
    quality: Quality
    flags: tuple[Flag, ...]
    reason: Annotated[str, Field(max_length=500, description="one line for a person; empty when good")] = ""
    repetitions: Annotated[Count, Field(description="verified, in the load segments that the energy covers")]
    repetitions_failed: Count
    load_segments: Count
    load_segments_used: Count
    guard_s: Seconds
    load_s: Annotated[Seconds, Field(description="length of the load segments used")]
    time_per_repetition: TimeStatistics | None
    output_bytes: dict[str, Count] = Field(default_factory=dict, description="sizes seen, by kind of output")
    peak_memory_bytes: Count | None = None
    cpu_time_s: Seconds | None = None
    handshake: Handshake | None = None
    net_j_per_op: Quantity | None = None
    crypto_j_per_op: Quantity | None = None
    null_event_id: EventId | None = None
    net_power_w: Quantity | None = None
    net_j: Quantity | None = None
    plateau_j: float | None = None
    transient_j: Quantity | None = None
    gross_j: float | None = None
    baseline_w: float | None = None
    load_w: float | None = None
    statistics: PowerStatistics | None = None
    counter: Annotated[
        CounterCheck | None, Field(description="null where the meter has no counter, or it was cleared in the train")
    ] = None
    budget: tuple[BudgetPart, ...] = ()
    clock: ClockState | None = None
    samples: Annotated[Count, Field(description="in the segments")] = 0
    new_values: Annotated[
        Count | None, Field(description="samples that differ from the one before; held ones are no measurement")
    ] = None
    missing_s: Annotated[Seconds | None, Field(description="time in the segments that no sample covers")] = None
    software: Text

    @model_validator(mode="after")
    def _no_bare_energy(self) -> Self:
        energies = (
            self.net_j_per_op,
            self.crypto_j_per_op,
            self.net_power_w,
            self.net_j,
            self.transient_j,
            self.gross_j,
            self.counter,
        )
        if self.quality in ("invalid", "time_only") and any(energy is not None for energy in energies):
            raise ValueError(f"a result that is {self.quality} carries no energy")
        if self.net_j is not None and not self.budget:
            raise ValueError("an energy needs the budget of its uncertainty")
        return self


class PooledEnergy(Message):
    """Mean over trains of one operation, parameter set and variant on one DUT (random effects, Hartung-Knapp).

    The trains are of one board, one OpenSSL and one meter. Fields with a default came later than the others.
    """

    site: Identifier
    dut: DutName
    operation: Operation
    parameter_set: ParameterSetName
    variant: Annotated[str, Field(max_length=128)]
    backend: Backend
    board: Board | None = None
    meter: Identifier | None = None
    meter_model: Text | None = None
    net_j_per_op: Quantity
    between_trains_j: Annotated[float, Field(ge=0, description="standard deviation of trains beyond their own u")]
    trains: Annotated[int, Field(ge=1)]
    flags: Annotated[tuple[Flag, ...], Field(description="of any of the trains")] = ()
    simulated: bool
    last_ns: Annotated[TimeNs, Field(description="start of the last train")]
    last_time: Annotated[str, Field(description="last_ns as RFC 3339, UTC")] = ""


class Comparison(Message):
    """Ratio of two pooled energies, and whether they can be told apart."""

    site: Identifier
    numerator: Text
    denominator: Text
    ratio: float
    low: float
    high: float
    verdict: Literal["higher", "lower", "not distinguishable"]
    simulated: bool
    last_ns: TimeNs

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.ratio <= self.high:
            raise ValueError("a ratio lies in its interval")
        return self
