"""An aggregator with a store, and a real InfluxQL engine to look into."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aggregator.journal import Journal
from aggregator.journal_outbox import OutboxReader, Waiting
from aggregator.service import Aggregator
from aggregator.settings import AggregatorSettings
from aggregator.sinks.influx import InfluxStore, line
from aggregator.sinks.outbox import StoreOutbox
from aggregator.sinks.sender import Pace, Sender
from bus import MemoryBus
from clock import ServiceClock
from tests.aggregator.conftest import Lab, _Stopped
from tests.influxd import DATABASE, Influxd, Shim, influxd_available

DEADLINE_S = 20.0
QUICK = Pace(idle_s=0.01, backoff_min_s=0.01, backoff_max_s=0.05, operator_s=0.05)


class StoreLab(Lab):
    """A lab whose aggregator fills an outbox."""

    outbox: StoreOutbox

    def start(self) -> None:
        """A new aggregator process on the same journal and session."""
        self.journal = Journal(self.settings.journal_path)
        clock = _Stopped(ServiceClock(wall_minus_monotonic_ns=0, timeline_id="aggregator", boot_id=None), self)
        self.outbox = StoreOutbox(self.journal, line, clock.now_ns, round(self.settings.outbox_limit_mb * 1e6))
        self.outbox.catch_up()
        self.bus = MemoryBus(self.broker, "aggregator", persistent=True, manual_ack=True)
        self.aggregator = Aggregator(self.bus, self.journal, clock, self.settings, self.outbox)
        self.aggregator.resume()
        self.aggregator.subscribe()
        self.bus.connect(1)

    def run(self) -> None:
        """Steps until nothing more comes, then health and power points, however soon."""
        super().run()
        self.outbox.put_health()
        self.outbox.put_power()

    def lines(self, kind: str = "") -> list[str]:
        """What waits in the outbox."""
        return [each.line for each in self.waiting() if each.kind.startswith(kind)]

    def waiting(self) -> list[Waiting]:
        """What waits in the outbox, with all that is known of it."""
        reader = OutboxReader(self.settings.journal_path)
        try:
            return reader.take(10**9, 10**9)
        finally:
            reader.close()


@pytest.fixture
def make_store_lab(tmp_path: Path) -> Iterator[Callable[..., StoreLab]]:
    """Makes labs; their journals are closed at the end."""
    labs: list[StoreLab] = []

    def make(**settings: object) -> StoreLab:
        given = {"state_dir": tmp_path / f"lab{len(labs)}", "group_s": 0.0} | settings
        labs.append(StoreLab(tmp_path, AggregatorSettings.model_validate(given)))
        return labs[-1]

    yield make
    for lab in labs:
        lab.journal.close()


@pytest.fixture
def store_lab(make_store_lab: Callable[..., StoreLab]) -> StoreLab:
    """One lab with default settings."""
    return make_store_lab()


@pytest.fixture(scope="session")
def _engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    if not influxd_available():
        pytest.skip("influxd is not installed (Debian package influxdb)")
    with Influxd(tmp_path_factory.mktemp("influxd")) as influxd:
        yield influxd


@pytest.fixture
def influxd(_engine: Influxd) -> Influxd:
    """A running engine with an empty database."""
    _engine.query(f'DROP DATABASE "{DATABASE}"', "")
    _engine.create()
    return _engine


@pytest.fixture
def shim(influxd: Influxd) -> Iterator[Shim]:
    """The v2 write endpoint before the engine."""
    with Shim(influxd) as shim:
        yield shim


@pytest.fixture
def drain(shim: Shim) -> Callable[..., Sender]:
    """Sends what waits in a lab's outbox to the shim, until nothing waits any more."""

    def send(lab: StoreLab, pace: Pace = QUICK, **settings: object) -> Sender:
        sender = Sender(lab.settings.journal_path, lambda: InfluxStore(given(shim, **settings)), pace)
        sender.start()
        try:
            wait_until(lambda: lab.journal.outbox.totals().lines == 0)
        finally:
            assert sender.stop()
        return sender

    return send


def given(shim: Shim, **settings: object) -> AggregatorSettings:
    """Settings whose store is the shim."""
    return AggregatorSettings.model_validate({"influx_url": shim.url, "influx_timeout_s": 5} | settings)


def wait_until(condition: Callable[[], bool], what: Callable[[], str] = lambda: "waited in vain") -> None:
    """Fails at the deadline."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, what()
        time.sleep(0.01)
