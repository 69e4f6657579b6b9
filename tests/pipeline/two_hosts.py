"""The flow of `flow.py` on three hosts: clocks hours apart that drift, and a network that takes its time each way."""

import random
from typing import Literal

from bus.outbox import Outgoing
from clock import ServiceClock
from schemas import EnergyResult, OperationEvent, ServiceStatus
from schemas.status import Service
from tests.aggregator.conftest import Lab
from tests.pipeline.flow import DUT, SITE, Flow, KnownBoard

HOUR_NS = 3600 * 10**9
STEP_NS = 250_000_000
LEAST_DELAY_NS = 2_000_000


class DriftingClock(ServiceClock):
    """A host's clock beside the board's, which is the true one here."""

    def __init__(self, constant_ns: int, timeline_id: str, boot_id: str, board: KnownBoard, drift_ppm: float) -> None:
        super().__init__(constant_ns, timeline_id, boot_id)
        object.__setattr__(self, "board", board)
        object.__setattr__(self, "drift_ppm", drift_ppm)

    board: KnownBoard
    drift_ppm: float

    def at_ns(self, monotonic_ns: int) -> int:
        return monotonic_ns + self.wall_minus_monotonic_ns + round(monotonic_ns * self.drift_ppm * 1e-6)

    def now_ns(self) -> int:
        return self.at_ns(self.board.now_ns)


class TwoHosts(Flow):
    """Runner and meter on hosts of their own, and the aggregator on a third. `answering`: they answer pings."""

    def __init__(self, lab: Lab, *, answering: bool = True, drift_ppm: float = 40.0) -> None:
        super().__init__(lab)
        self._random = random.Random(7)
        self._aggregator_ns = lab.now_ns - self.board.now_ns
        self.meter_clock = DriftingClock(
            1_800_000_000 * 10**9 + 3 * HOUR_NS, "meter-1", "boot-2", self.board, drift_ppm
        )
        self.runner_clock = DriftingClock(1_800_000_000 * 10**9, "runner-1", "boot-1", self.board, 0.0)
        self._runner_clock, self._meter_clock = self.runner_clock, self.meter_clock
        self._runner_bus, self._meter_bus = self._buses[1:3]
        lab.broker.monotonic_ns = self._now_at_aggregator
        lab.broker.on_the_way = self._travel
        if answering:
            self._runner_bus.answer_pings(SITE, "runner", DUT, self.runner_clock)
            self._meter_bus.answer_pings(SITE, "meter", "hub", self.meter_clock)

    def say(self, service: Service, state: Literal["online", "measuring", "offline"]) -> None:
        """A service tells its status, as the contract has it."""
        bus, name = (self._runner_bus, DUT) if service == "runner" else (self._meter_bus, "hub")
        status = ServiceStatus(
            service=service,
            instance=name,
            state=state,
            version="0",
            started_ns=1,
            started_time="1970-01-01T00:00:00Z",
            duts=(DUT,),
        )
        bus.set_status(SITE, status)

    def measure(self, operation: str, parameter_set: str, watts: float) -> OperationEvent:
        """A train in silence, as `runner.link` keeps it: measuring, gone, back."""
        self.say("runner", "measuring")
        self._runner_bus.disconnect()
        event = self.run_train(operation, parameter_set, watts)
        self._runner_bus.connect(0.0)
        self.say("runner", "online")
        return event

    def pass_time(self, duration_s: float) -> None:
        """The aggregator goes on with its rounds."""
        for _ in range(round(duration_s * 1e9 / STEP_NS)):
            self.board.now_ns += STEP_NS
            self.run_aggregator()

    def deliver(self) -> None:
        """As on one host, at the time that it is."""
        self.lab.now_ns = self._now_at_aggregator()
        super().deliver()

    def run_aggregator(self) -> None:
        """Rounds until nothing more comes."""
        self.lab.now_ns = self._now_at_aggregator()
        self.lab.run()

    def true_offset_ns(self, result: EnergyResult, event: OperationEvent) -> int:
        """What should have been added to the middle of the train."""
        assert result.clock is not None
        middle_ns = (event.start_ns + event.end_ns) // 2
        board_ns = middle_ns - self.runner_clock.wall_minus_monotonic_ns
        return self.meter_clock.at_ns(board_ns) - middle_ns

    def _now_at_aggregator(self) -> int:
        return self.board.now_ns + self._aggregator_ns

    def _travel(self, message: Outgoing) -> None:
        """Pings and pongs take time, each on its own; what else is sent takes none that matters."""
        if "/clock/" in message.topic:
            self.board.now_ns += LEAST_DELAY_NS + round(self._random.expovariate(1 / 3e6))
            self.lab.now_ns = self._now_at_aggregator()
