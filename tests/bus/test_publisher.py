"""The spooling publisher against a broker in memory, with a clock that moves when told."""

from bus import MemoryBroker, MemoryBus, Spool, SpoolingPublisher
from bus.publisher import SEND_PER_STEP
from schemas import Command, Journaled, SampleBatch, topic_filter
from tests.bus.support import Clock, Make


class World:
    """A publisher, and an aggregator that journals when told."""

    def __init__(self, clock: Clock, make: Make) -> None:
        self.make = make
        self.broker = MemoryBroker()
        self.bus = MemoryBus(self.broker, "meter")
        self.aggregator = MemoryBus(self.broker, "aggregator", persistent=True, manual_ack=True)
        self.aggregator.subscribe([topic_filter("samples"), topic_filter("operations")])
        self.aggregator.connect(0.0)
        self.spool = Spool(None, 10**9)
        self.publisher = SpoolingPublisher(self.bus, self.spool, "lab", ["pi4"], clock)

    def arrived(self) -> list[int]:
        messages = [m for m in self.aggregator.receive(0.0, 10_000) if m.topic.endswith("/samples")]
        self.aggregator.acknowledge(messages)
        return [SampleBatch.model_validate_json(message.payload).seq for message in messages]

    def confirm(self, *seqs: int) -> None:
        self.send_receipt(self.make.receipt(spans=tuple((seq, seq) for seq in seqs)))

    def send_receipt(self, receipt: Journaled, dut: str = "pi4") -> None:
        self.aggregator.publish("journaled", "lab", receipt, dut=dut)


def test_what_is_not_named_is_sent_again_after_thirty_seconds(clock: Clock, make: Make) -> None:
    world = World(clock, make)
    world.bus.connect(0.0)
    for seq in range(3):
        world.publisher.put(make.batch(seq))
    assert world.arrived() == [0, 1, 2]
    world.confirm(1)
    assert world.publisher.step() == [] and world.publisher.pending == 2
    clock.now_s += 29.9
    world.publisher.step()
    assert world.arrived() == []
    clock.now_s += 0.1
    world.publisher.step()
    assert world.arrived() == [0, 2]
    clock.now_s += 29.9
    world.publisher.step()
    assert world.arrived() == []
    world.confirm(0, 2)
    assert world.publisher.wait_until_confirmed(0.0) is False
    assert world.publisher.wait_until_confirmed(1.0) is True


def test_what_was_put_while_disconnected_goes_out_at_once_after(clock: Clock, make: Make) -> None:
    world = World(clock, make)
    for seq in range(5):
        world.publisher.put(make.batch(seq))
    assert world.arrived() == []
    world.bus.connect(0.0)
    world.publisher.step()
    assert world.arrived() == [0, 1, 2, 3, 4]
    world.bus.drop()
    world.publisher.put(make.batch(5))
    world.bus.connect(0.0)
    world.publisher.step()
    assert world.arrived() == [5]


def test_a_backlog_goes_out_in_steps_oldest_first(clock: Clock, make: Make) -> None:
    world = World(clock, make)
    count = SEND_PER_STEP + 20
    for seq in range(count):
        world.publisher.put(make.batch(seq, samples=1))
    world.bus.connect(0.0)
    world.publisher.step()
    assert world.arrived() == list(range(SEND_PER_STEP))
    world.publisher.put(make.batch(count, samples=1))
    assert world.arrived() == list(range(SEND_PER_STEP, count + 1))


def test_a_broker_that_lost_what_it_acknowledged_gets_it_again(clock: Clock, make: Make) -> None:
    world = World(clock, make)
    world.bus.connect(0.0)
    world.broker.lose_next(2)
    for seq in range(3):
        world.publisher.put(make.batch(seq))
    assert world.arrived() == [2]
    clock.now_s += 30.0
    world.publisher.step()
    assert world.arrived() == [0, 1, 2]


def test_only_receipts_are_taken_and_the_rest_is_handed_on(clock: Clock, make: Make) -> None:
    world = World(clock, make)
    world.bus.subscribe([topic_filter("command", "lab", dut="pi4")])
    world.bus.connect(0.0)
    world.publisher.put(make.batch(1))
    world.aggregator.publish("command", "lab", Command(command_id="c1", action="stop"), dut="pi4")
    assert world.publisher.wait_until_confirmed(0.05) is False
    world.confirm(1)
    (command,) = world.publisher.step()
    assert Command.model_validate_json(command.payload).action == "stop"
    assert world.publisher.pending == 0 and world.publisher.step() == []


def test_a_receipt_that_claims_another_dut_or_is_rubbish_is_refused(clock: Clock, make: Make) -> None:
    world = World(clock, make)
    world.bus.connect(0.0)
    world.publisher.put(make.batch(1))
    world.send_receipt(make.receipt(spans=((1, 1),)).model_copy(update={"dut": "pi1"}))
    world.aggregator.publish("journaled", "lab", Command(command_id="c1", action="stop"), dut="pi4")
    world.publisher.step()
    assert world.publisher.pending == 1 and world.publisher.bad_receipts == 2


def test_entries_of_an_earlier_configuration_are_subscribed_sent_and_confirmed(clock: Clock, make: Make) -> None:
    world = World(clock, make)
    world.spool.add(make.batch(9, dut="pi1"), clock())
    publisher = SpoolingPublisher(world.bus, world.spool, "lab", ["pi4"], clock)
    world.bus.connect(0.0)
    publisher.step()
    assert world.arrived() == [9]
    world.send_receipt(make.receipt(spans=((9, 9),)).model_copy(update={"dut": "pi1"}), dut="pi1")
    publisher.step()
    assert publisher.pending == 0
