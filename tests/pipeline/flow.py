"""A board whose every joule is known, a meter that sees its power, and the services between them and the results.

Real: the train loop and the events of the runner, the batches of the meter, the spools, the whole aggregator. Stand-ins
are the operations, the clock that they move, and the power that they cost.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from uuid import UUID

from aggregator.settings import AggregatorSettings
from bus import MemoryBus, Spool, SpoolingPublisher
from clock import ServiceClock
from meter.batching import Batcher, BatchLimits
from meter.readings import Reading, Stream
from runner.events import Identity, Measured, operation_event
from runner.identifiers import uuid7
from runner.job import Job
from runner.operations import Usage
from runner.segments import PRESETS, plan_train
from runner.train import Repetition, run_train
from schemas import Board, Disturbance, EnergyResult, OperationEvent, SampleBatch
from tests.aggregator.conftest import Lab

SITE, DUT, METER = "lab", "pi4", "m1"
IDLE_W = 2.0
REPETITION_NS = 4_000_000
PERIOD_NS = 10_000_000
NOISE_W = 0.03
TRAIN_S = 8.0
SPOOL_BYTES = 10**8
NULL_VARIANT = "processes=2"


@dataclass
class KnownBoard:
    """Time passes only by what it does. `spent` holds what ran: start, end, watts above idle."""

    now_ns: int = 5_000_000_000_000
    watts: float = 0.0
    fail_every: int = 0
    spent: list[tuple[int, int, float]] = field(default_factory=list)
    repetitions: int = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wait_until(self, t_ns: int) -> None:
        self.now_ns = max(self.now_ns, t_ns)

    def repeat(self) -> Repetition:
        """One operation: `watts` above idle for `REPETITION_NS`, in vain each time that `fail_every` says."""
        self.spent.append((self.now_ns, self.now_ns + REPETITION_NS, self.watts))
        self.now_ns += REPETITION_NS
        self.repetitions += 1
        failed = self.fail_every and self.repetitions % self.fail_every == 0
        return Repetition("exit 1" if failed else None, REPETITION_NS / 1e9)

    def power_w(self, times_ns: range) -> Iterator[float]:
        """PBUS at each of these times."""
        spent = iter(self.spent)
        start_ns, end_ns, watts = next(spent, (0, 0, 0.0))
        for t_ns in times_ns:
            while end_ns <= t_ns and (following := next(spent, None)):
                start_ns, end_ns, watts = following
            yield IDLE_W + (watts if start_ns <= t_ns < end_ns else 0.0)


class Flow:
    """Runner, meter and aggregator on one bus in memory. Each service has a timeline of its own, as processes have.

    `patience_s` is the publishers' clock: what has no receipt 30 s after it was sent is sent again.
    """

    def __init__(self, lab: Lab, meter_kind: Literal["measured", "simulated"] = "measured") -> None:
        self.lab = lab
        self.board = KnownBoard()
        self.patience_s = 0.0
        self._buses = [lab.bus]
        self._begin_ns = self.board.now_ns
        self._runner_clock = ServiceClock(1_800_000_000 * 10**9, "runner-1", "boot-1")
        self._meter_clock = ServiceClock(1_800_000_007 * 10**9, "meter-1", "boot-1")
        self._meter_kind = meter_kind
        self._seeds = random.Random(1)
        self.runner = self._publisher("runner")
        self.meter = self._publisher("meter")

    def run_train(self, operation: str, parameter_set: str, watts: float) -> OperationEvent:
        """[1] The runner measures one train, in silence, and then says what happened when."""
        self.board.watts = watts
        job = Job(operation, parameter_set)  # type: ignore[arg-type]
        seed = self._seeds.randrange(2**32)
        sham = operation == "sham"
        plan = plan_train(seed, TRAIN_S, 0.0 if sham else REPETITION_NS / 1e9, PRESETS["short"])
        record = run_train(plan, None if sham else self.board.repeat, 1, self.board.wait_until, self.board.monotonic_ns)
        board = Board(model="known board", architecture="none", bits=64, openssl="3.5.0")
        variant = NULL_VARIANT if operation == "null" else ""
        null_variant = "" if operation in ("null", "sham") else NULL_VARIANT
        measured = Measured(
            job, record, seed, variant, 0 if sham else 2, {}, None, Usage(), Disturbance(), null_variant
        )
        event = operation_event(self._event_id(), Identity(SITE, DUT, "run-1", board), measured, self._runner_clock)
        self.runner.put(event)
        self.board.wait_until(self.board.now_ns + 1_000_000_000)
        return event

    def read_meter(self) -> list[SampleBatch]:
        """[2] The meter has sampled all the while, and batches what it saw."""
        host = self._meter_clock.host_clock
        stream = Stream(SITE, DUT, METER, "simulated", self._meter_kind, "meter-1", host, PERIOD_NS)
        batcher = Batcher(stream, BatchLimits(100, 1_000_000_000))
        noise = random.Random(2)
        times_ns = range(self._begin_ns - 1_000_000_000, self.board.now_ns, PERIOD_NS)
        readings = [
            Reading(self._meter_clock.at_ns(t_ns), power_w + noise.gauss(0, NOISE_W))
            for t_ns, power_w in zip(times_ns, self.board.power_w(times_ns), strict=True)
        ]
        batches = [*batcher.add(readings), *batcher.flush()]
        for batch in batches:
            self.meter.put(batch)
        return batches

    def deliver(self) -> None:
        """[3] Publishers send, the aggregator commits, joins, computes and publishes, receipts come back."""
        published = self.lab.broker.published
        before = -1
        while before != len(published):
            before = len(published)
            self.runner.step()
            self.meter.step()
            self.lab.run()

    @property
    def pending(self) -> int:
        """Messages that wait in the spools."""
        return self.runner.pending + self.meter.pending

    def reconnect(self) -> None:
        """Every client finds its way back to the broker."""
        for bus in self._buses:
            assert bus.connect(0.0)

    def published(self) -> list[EnergyResult]:
        """What a subscriber of the results topics has seen."""
        return [EnergyResult.model_validate_json(payload) for payload in self.lab.published("/results")]

    def _publisher(self, name: str) -> SpoolingPublisher:
        bus = MemoryBus(self.lab.broker, name)
        self._buses.append(bus)
        publisher = SpoolingPublisher(bus, Spool(None, SPOOL_BYTES), SITE, (DUT,), monotonic=lambda: self.patience_s)
        assert bus.connect(0.0)
        return publisher

    def _event_id(self) -> UUID:
        return uuid7(self._runner_clock.at_ns(self.board.now_ns), self._seeds.randbytes(10))


def make_lab(folder: Path, **settings: object) -> Lab:
    """An aggregator with its journal in a folder."""
    return Lab(folder, AggregatorSettings.model_validate({"state_dir": folder, "group_s": 0.0} | settings))
