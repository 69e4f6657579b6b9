"""The bus in memory behaves as a broker does."""

import pytest

from bus import MemoryBroker, MemoryBus
from bus.memory import matches
from schemas import SampleBatch, ServiceStatus, topic_filter
from tests.bus.support import Make


@pytest.mark.parametrize(
    ("topic_filter", "topic", "verdict"),
    [
        ("a/b", "a/b", True),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("a/+", "a", False),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("+/b/#", "a/c/b", False),
    ],
)
def test_wildcards_match_as_in_the_standard(topic_filter: str, topic: str, verdict: bool) -> None:
    assert matches(topic_filter, topic) is verdict


def seqs(bus: MemoryBus) -> list[int]:
    return [SampleBatch.model_validate_json(message.payload).seq for message in bus.receive(0.0)]


def states(bus: MemoryBus) -> list[tuple[str, bool]]:
    return [(ServiceStatus.model_validate_json(m.payload).state, m.retained) for m in bus.receive(0.0)]


def test_status_is_retained_and_the_last_will_goes_out_on_a_drop_only(make: Make) -> None:
    broker = MemoryBroker()
    meter, watcher = MemoryBus(broker, "meter"), MemoryBus(broker, "watcher")
    meter.set_status("lab", make.status("online"))
    meter.connect(0.0)
    watcher.connect(0.0)
    watcher.subscribe([topic_filter("status")])
    assert states(watcher) == [("online", True)]
    meter.set_status("lab", make.status("measuring"))
    meter.disconnect()
    assert states(watcher) == [("measuring", True)]
    meter.connect(0.0)
    meter.drop()
    assert [state for state, _ in states(watcher)] == ["measuring", "offline"]
    assert not meter.connected


def test_a_persistent_session_queues_and_gives_again_what_was_not_acknowledged(make: Make) -> None:
    broker = MemoryBroker()
    meter = MemoryBus(broker, "meter")
    aggregator = MemoryBus(broker, "aggregator", persistent=True, manual_ack=True)
    aggregator.subscribe([topic_filter("samples")])
    aggregator.connect(0.0)
    meter.connect(0.0)
    for seq in range(3):
        meter.publish("samples", "lab", make.batch(seq), dut="pi4")
    first = aggregator.receive(0.0)
    aggregator.acknowledge(first[:1])
    aggregator.drop()
    meter.publish("samples", "lab", make.batch(3), dut="pi4")
    aggregator.connect(0.0)
    again = aggregator.receive(0.0)
    assert [SampleBatch.model_validate_json(message.payload).seq for message in again] == [1, 2, 3]
    aggregator.acknowledge(first)
    aggregator.drop()
    aggregator.connect(0.0)
    assert seqs(aggregator) == [1, 2, 3]


def test_faults_lose_double_and_disconnect(make: Make) -> None:
    broker = MemoryBroker()
    meter, reader = MemoryBus(broker, "meter"), MemoryBus(broker, "reader", persistent=True)
    reader.subscribe([topic_filter("samples")])
    for bus in (meter, reader):
        bus.connect(0.0)
    broker.lose_next(1)
    broker.double_next(1)
    for seq in range(3):
        meter.publish("samples", "lab", make.batch(seq), dut="pi4")
    assert seqs(reader) == [1, 1, 2]
    broker.stop()
    assert not meter.connected and not meter.connect(0.0) and not reader.connected
    meter.publish("samples", "lab", make.batch(3), dut="pi4")
    broker.start()
    assert meter.connect(0.0) and reader.connect(0.0)
    meter.publish("samples", "lab", make.batch(4), dut="pi4")
    assert seqs(reader) == [4]
    broker.stop(forget=True)
    broker.start()
    assert reader.connect(0.0) and seqs(reader) == []
