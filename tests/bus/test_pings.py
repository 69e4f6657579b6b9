"""Clock pings are answered by the connection itself."""

import time

from bus import MemoryBroker, MemoryBus, Received
from clock import ServiceClock
from schemas import ClockPing, ClockPong, topic, topic_filter
from tests.bus.support import Collect, Make, MakeBus

PING = ClockPing(ping_id="p1", t1_ns=5)
LEVELS = {"service": "runner", "instance": "pi4"}


def _pong(received: Received) -> ClockPong:
    assert received.topic == topic("pong", "lab", **LEVELS)
    return ClockPong.model_validate_json(received.payload)


def test_a_service_that_is_busy_answers_at_once_on_its_own_timeline(make_bus: MakeBus, collect: Collect) -> None:
    clock = ServiceClock(wall_minus_monotonic_ns=10**18, timeline_id="t9", boot_id=None)
    runner, aggregator = make_bus("runner", connect=False), make_bus("aggregator")
    runner.answer_pings("lab", "runner", "pi4", clock)
    assert runner.connect(10.0)
    aggregator.subscribe([topic_filter("pong", "lab")])
    got: list[Received] = []
    while not got:  # until both subscriptions are there; nobody ever calls runner.receive
        sent_ns = time.monotonic_ns()
        aggregator.publish("ping", "lab", PING, **LEVELS)
        got = aggregator.receive(0.2)
    pong = _pong(got[0])
    assert (pong.ping_id, pong.t1_ns, pong.timeline_id) == ("p1", 5, "t9")
    assert sent_ns - 10**9 < pong.t2_ns - 10**18 <= pong.t3_ns - 10**18 <= got[0].arrival_ns <= time.monotonic_ns()
    assert runner.receive(0.0) == []


def test_what_is_no_ping_is_not_answered_and_does_no_harm(make_bus: MakeBus, make: Make) -> None:
    runner, aggregator = make_bus("runner", connect=False), make_bus("aggregator")
    runner.answer_pings("lab", "runner", "pi4", ServiceClock())
    assert runner.connect(10.0)
    aggregator.subscribe([topic_filter("pong", "lab")])
    got: list[Received] = []
    while not got:
        aggregator.publish("ping", "lab", make.receipt(), **LEVELS)
        aggregator.publish("ping", "lab", PING, **LEVELS)
        got = aggregator.receive(0.2)
    assert {_pong(each).ping_id for each in got} == {"p1"}


def test_in_memory_it_is_the_same() -> None:
    broker = MemoryBroker()
    runner, aggregator = MemoryBus(broker, "runner"), MemoryBus(broker, "aggregator")
    runner.answer_pings("lab", "runner", "pi4", ServiceClock(timeline_id="t9"))
    aggregator.subscribe([topic_filter("pong", "lab")])
    assert runner.connect(0) and aggregator.connect(0)
    aggregator.publish("ping", "lab", PING, **LEVELS)
    (got,) = aggregator.receive(0)
    assert _pong(got).timeline_id == "t9"
    runner.disconnect()
    aggregator.publish("ping", "lab", PING, **LEVELS)
    assert aggregator.receive(0) == []
