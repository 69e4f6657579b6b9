"""A runner on a broker in memory, with trains of half a second, and what it did inside them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bus import MemoryBroker, MemoryBus, Spool, SpoolingPublisher
from clock import ServiceClock
from runner import one_train
from runner.campaign import Executor
from runner.description import device
from runner.governor import Governor
from runner.link import Link
from runner.machine import read_machine
from runner.offer import whole_offer
from runner.one_train import Bay
from runner.openssl import OpenSsl
from runner.orders import own_campaign
from runner.plan import expand
from runner.segments import Preset, TrainPlan
from runner.settings import RunnerSettings
from runner.stopping import Stop
from runner.target import PooledBook
from runner.train import MonotonicNs, Repeat, TrainRecord, WaitUntil, run_train
from runner.trains_under_way import TrainsUnderWay
from schemas import OperationEvent, ServiceStatus, parse_topic
from schemas.status import CampaignState

TINY = {"short": Preset(0.03, 0.06, 0.01)}


@dataclass
class Stage:
    """A runner and its broker. `halted` is asked between trains."""

    openssl: OpenSsl
    folder: Path
    stop: Stop
    halted: Callable[[], bool] = lambda: False
    book: PooledBook | None = None
    connected_inside: list[bool] = field(default_factory=list)
    published_inside: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = RunnerSettings.model_validate(
            {
                "dut": "pi4",
                "train_s": 1,
                "gap_s": 0.5,
                "seed": 11,
                "busy_wait_s": 0,
                "start_delay_s": 0,
                "state_dir": self.folder,
            }
        )
        self.broker, clock, machine = MemoryBroker(), ServiceClock(), read_machine()
        self.bus = MemoryBus(self.broker, "runner", persistent=True)
        publisher = SpoolingPublisher(self.bus, Spool(None, 10**6), "lab", ("pi4",))
        self.offer = whole_offer(self.openssl, "not asked for")
        description = device("lab", "pi4", machine, self.openssl, self.offer, "not asked for")
        self.link = Link(self.bus, publisher, clock, description, "pi4", self.stop)
        self.under_way = TrainsUnderWay(self.folder / "runner-pi4")
        governor = Governor(self.folder / "governor", root=self.folder)
        bay = Bay(self.openssl, self.offer.parameter_sets, clock, self.stop, self.link, governor, self.under_way)
        board = machine.board(self.openssl.version)
        self.executor = Executor(self.settings, board, bay, self._halted, self.book)

    def _halted(self) -> bool:
        return self.halted()

    def run(self, plan: str, **changes: object) -> CampaignState:
        """Run a plan; `changes` are keys of its campaign."""
        campaign = own_campaign(self.settings.model_copy(update={"plan": plan}))
        assert campaign is not None
        campaign = campaign.model_copy(update=changes)
        return self.executor.run(campaign, expand(campaign, self.offer))

    def watch_trains(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note what reaches the broker inside trains, and make segments tiny."""

        def watched(
            plan: TrainPlan, repeat: Repeat | None, every: int, wait_until: WaitUntil, monotonic_ns: MonotonicNs
        ) -> TrainRecord:
            before = len(self.broker.published)
            record = run_train(plan, repeat, every, wait_until, monotonic_ns)
            self.connected_inside.append(self.bus.connected)
            self.published_inside.append(len(self.broker.published) - before)
            return record

        monkeypatch.setattr(one_train, "PRESETS", TINY)
        monkeypatch.setattr(one_train, "run_train", watched)

    def said(self, kind: str) -> list[bytes]:
        """Payloads of one kind of message."""
        addresses = ((parse_topic(message.topic), message.payload) for message in self.broker.published)
        return [payload for address, payload in addresses if address is not None and address.kind == kind]

    @property
    def events(self) -> list[OperationEvent]:
        """What it reported, each once."""
        events = [OperationEvent.model_validate_json(payload) for payload in self.said("operations")]
        return list({event.event_id: event for event in events}.values())

    @property
    def statuses(self) -> list[ServiceStatus]:
        """All that it said of itself."""
        return [ServiceStatus.model_validate_json(payload) for payload in self.said("status")]

    @property
    def states(self) -> list[str]:
        """Its states in order, repeated ones once."""
        states = [status.state for status in self.statuses]
        return [state for index, state in enumerate(states) if index == 0 or states[index - 1] != state]
