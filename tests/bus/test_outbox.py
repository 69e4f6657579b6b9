"""What waits for the broker, and in which order what came is acknowledged."""

from bus.outbox import Outbox, Outgoing
from bus.tickets import Tickets


def message(text: str, topic: str = "t", qos: int = 1, retain: bool = False) -> Outgoing:
    return Outgoing(topic, text.encode(), 1 if qos else 0, retain)


class Connection:
    """Gives out packet ids and remembers what was published."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, message: Outgoing) -> int | None:
        self.texts.append(message.payload.decode())
        return len(self.texts)


def test_what_was_not_acknowledged_goes_out_again_before_the_rest() -> None:
    outbox, first, second = Outbox(), Connection(), Connection()
    for text in "abcd":
        outbox.put(message(text))
    outbox.open(None)
    outbox.send(3, first)
    assert first.texts == ["a", "b", "c"]
    outbox.acknowledged(2)
    outbox.close()
    outbox.open(None)
    outbox.send(3, second)
    assert second.texts == ["a", "c", "d"] and not outbox.wait_until_empty(0.0)
    for packet_id in (1, 2, 3):
        outbox.acknowledged(packet_id)
    assert outbox.wait_until_empty(0.0) and outbox.acknowledged(9) is None


def test_a_retained_message_replaces_its_predecessor_and_the_status_goes_first() -> None:
    outbox, connection = Outbox(), Connection()
    outbox.put(message("old", "status", retain=True))
    outbox.put(message("sample"))
    outbox.put(message("new", "status", retain=True))
    outbox.open(message("newest", "status", retain=True))
    outbox.send(10, connection)
    assert connection.texts == ["newest", "sample"]


def test_a_retained_message_in_flight_does_not_come_back_over_a_newer_one() -> None:
    outbox, connection = Outbox(), Connection()
    outbox.open(None)
    outbox.put(message("old", "status", retain=True))
    outbox.send(10, connection)
    outbox.put(message("new", "status", retain=True))
    outbox.close()
    outbox.send(10, connection)
    assert connection.texts == ["old", "new"]


def test_qos_0_is_lost_without_a_connection_and_never_waits() -> None:
    outbox, connection = Outbox(), Connection()
    outbox.put(message("away", qos=0))
    outbox.open(None)
    outbox.put(message("here", qos=0))
    outbox.send(10, connection)
    assert connection.texts == ["here"] and outbox.wait_until_empty(0.0)


def test_beyond_the_limit_the_oldest_is_dropped_and_counted() -> None:
    outbox, connection = Outbox(limit=2), Connection()
    for text in "abcd":
        outbox.put(message(text))
    outbox.send(10, connection)
    assert connection.texts == ["c", "d"] and outbox.dropped == 2


def test_a_message_that_the_connection_refuses_is_let_go() -> None:
    outbox = Outbox()
    outbox.put(message("too long"))
    outbox.send(10, lambda _: None)
    assert outbox.wait_until_empty(0.0)


def test_acknowledgements_keep_the_order_of_arrival() -> None:
    tickets = Tickets(generation=2)
    a, b, c = (tickets.issue(packet_id) for packet_id in (7, 8, 7))
    assert tickets.acknowledge(c) == []
    assert tickets.acknowledge(b) == []
    assert tickets.acknowledge(a) == [7, 8, 7]
    assert tickets.acknowledge(a) == []


def test_a_token_of_an_earlier_connection_acknowledges_nothing() -> None:
    earlier, present = Tickets(generation=1), Tickets(generation=2)
    token = earlier.issue(7)
    present.issue(7)
    assert present.acknowledge(token) == []
