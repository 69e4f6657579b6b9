"""An aggregator on a broker in memory, whose process can be killed and started again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from aggregator.journal import Journal
from aggregator.journal_tables import ResultFilter
from aggregator.service import Aggregator
from aggregator.settings import AggregatorSettings
from bus import MemoryBroker, MemoryBus
from clock import ServiceClock
from schemas import EnergyResult, Journaled, OperationEvent, Rejected, SampleBatch


@dataclass
class Lab:
    """A broker, an aggregator and a client beside it. `now_ns` is what the aggregator's clock says."""

    folder: Path
    settings: AggregatorSettings
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    now_ns: int = 1_800_000_000_000_000_000
    aggregator: Aggregator | None = None

    def __post_init__(self) -> None:
        self.broker.monotonic_ns = lambda: self.now_ns
        self.client = MemoryBus(self.broker, "client")
        self.client.connect(1)
        self.start()

    def start(self) -> None:
        """A new aggregator process on the same journal and session."""
        clock = ServiceClock(wall_minus_monotonic_ns=0, timeline_id="aggregator", boot_id=None)
        object.__setattr__(self, "journal", Journal(self.settings.journal_path))
        self.bus = MemoryBus(self.broker, "aggregator", persistent=True, manual_ack=True)
        self.aggregator = Aggregator(self.bus, self.journal, _Stopped(clock, self), self.settings)
        self.aggregator.resume()
        self.aggregator.subscribe()
        self.bus.connect(1)

    def kill(self) -> None:
        """The process is gone: no farewell, nothing flushed."""
        self.bus.drop()
        self.journal.close()

    journal: Journal = field(init=False)

    def send(self, *messages: SampleBatch | OperationEvent) -> None:
        """Publish as the services do."""
        for message in messages:
            kind = "samples" if isinstance(message, SampleBatch) else "operations"
            self.client.publish(kind, message.site, message, dut=message.dut)  # type: ignore[arg-type]

    def run(self) -> None:
        """Steps until nothing more comes."""
        assert self.aggregator is not None
        before = -1
        while before != len(self.broker.published):
            before = len(self.broker.published)
            self.aggregator.step(0)

    def results(self, **wanted: str) -> list[EnergyResult]:
        """Last revisions in the journal."""
        return list(self.journal.results.find(ResultFilter(**wanted)))  # type: ignore[arg-type]

    def published(self, ending: str) -> list[bytes]:
        """Payloads on topics with this ending, in order."""
        return [message.payload for message in self.broker.published if message.topic.endswith(ending)]

    def receipts(self) -> list[Journaled]:
        """Receipts that went out."""
        return [Journaled.model_validate_json(payload) for payload in self.published("/journaled")]

    def rejects(self) -> list[Rejected]:
        """Refusals that went out."""
        return [Rejected.model_validate_json(payload) for payload in self.published("/rejected")]


class _Stopped(ServiceClock):
    """The lab's clock. (A frozen dataclass: the lab is put in past its guard.)"""

    def __init__(self, clock: ServiceClock, lab: Lab) -> None:
        super().__init__(clock.wall_minus_monotonic_ns, clock.timeline_id, clock.boot_id)
        object.__setattr__(self, "lab", lab)

    lab: Lab

    def now_ns(self) -> int:
        return self.lab.now_ns


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Makes labs; their journals are closed at the end."""
    labs: list[Lab] = []

    def make(**settings: object) -> Lab:
        given = {"state_dir": tmp_path / str(len(labs)), "group_s": 0.0} | settings
        labs.append(Lab(tmp_path, AggregatorSettings.model_validate(given)))
        return labs[-1]

    yield make
    for lab in labs:
        lab.journal.close()


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """One lab with default settings."""
    return make_lab()
