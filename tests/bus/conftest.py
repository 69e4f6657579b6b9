"""Brokers, buses and waiting for a condition, for the tests of the bus."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bus import BrokerAddress, MqttBus, Received
from opjoule.local_broker import Kind, LocalBroker, available
from tests.bus.support import DEADLINE_S, Clock, Collect, Make, MakeBus, Until


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(
    params=[pytest.param("mosquitto", marks=pytest.mark.mosquitto), pytest.param("iotcore", marks=pytest.mark.iotcore)]
)
def kind(request: pytest.FixtureRequest) -> Kind:
    wanted: Kind = request.param
    if not available(wanted):
        pytest.skip(f"{wanted} is not installed")
    return wanted


@pytest.fixture
def broker(kind: Kind, tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "broker", kind) as broker:
        yield broker


@pytest.fixture
def make_bus(broker: LocalBroker) -> Iterator[MakeBus]:
    with ExitStack() as stack:

        def connect_bus(
            client_id: str, *, persistent: bool = False, manual_ack: bool = False, connect: bool = True
        ) -> MqttBus:
            bus = MqttBus(BrokerAddress.parse(broker.url), client_id, persistent=persistent, manual_ack=manual_ack)
            stack.callback(bus.disconnect)
            if connect:
                assert bus.connect(DEADLINE_S), bus.last_error
            return bus

        yield connect_bus


@pytest.fixture
def until() -> Until:
    def wait(condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline_s, "the condition did not come true in time"
            time.sleep(0.01)

    return wait


@pytest.fixture
def collect() -> Collect:
    def take(bus: MqttBus, count: int) -> list[Received]:
        messages: list[Received] = []
        deadline_s = time.monotonic() + DEADLINE_S
        while len(messages) < count:
            assert time.monotonic() < deadline_s, f"{len(messages)} of {count} messages came"
            messages += bus.receive(0.2, limit=count - len(messages))
        return messages

    return take
