"""Whom the aggregator asks for the time, when, and which answers count."""

import pytest

from aggregator.asking import BURST, EVERY_NS, OPEN, QUICK_NS, ClockAsker
from aggregator.exchange import Exchange
from bus import MemoryBroker, MemoryBus, Received
from clock import ServiceClock
from errors import ContractError
from schemas import ClockPing, ClockPong, ServiceStatus, topic, topic_filter
from tests.aggregator.trains import SECOND, T0

CONSTANT_NS = 10**9
LEVELS = {"service": "meter", "instance": "hub"}


class Clock(ServiceClock):
    """Says what the test says."""

    def __init__(self, boot_id: str | None) -> None:
        super().__init__(CONSTANT_NS, "aggregator", boot_id)
        object.__setattr__(self, "t_ns", T0)

    t_ns: int

    def now_ns(self) -> int:
        return self.t_ns


class Asking:
    """An asker, and what it has sent."""

    def __init__(self, boot_id: str | None = None, without_meter: tuple[str, ...] = ()) -> None:
        broker = MemoryBroker()
        bus, self._listener = MemoryBus(broker, "aggregator"), MemoryBus(broker, "listener")
        self._listener.subscribe([topic_filter("ping")])
        assert bus.connect(0) and self._listener.connect(0)
        self.clock = Clock(boot_id)
        self.asker = ClockAsker(bus, self.clock, without_meter)

    def sent(self, after_ns: int = 0) -> list[tuple[str, ClockPing]]:
        """Topics and pings of a round after so long."""
        object.__setattr__(self.clock, "t_ns", self.clock.t_ns + after_ns)
        self.asker.ask()
        return [(each.topic, ClockPing.model_validate_json(each.payload)) for each in self._listener.receive(0, 10_000)]

    def answer(self, ping: ClockPing, **changed: object) -> Received:
        """What a meter a second ahead says after 1 ms, and after 1 ms more it is here."""
        t2_ns = ping.t1_ns + SECOND + 1_000_000
        pong = ClockPong(ping_id=ping.ping_id, timeline_id="m", t1_ns=ping.t1_ns, t2_ns=t2_ns, t3_ns=t2_ns)
        payload = pong.model_copy(update=changed).model_dump_json().encode()
        return Received(topic("pong", "lab", **LEVELS), payload, False, 0, ping.t1_ns + 2_000_000 - CONSTANT_NS)


def _status(state: str = "online", instance: str = "hub", service: str = "meter", started_ns: int = 1) -> ServiceStatus:
    return ServiceStatus.model_validate(
        {
            "service": service,
            "instance": instance,
            "state": state,
            "version": "0",
            "started_ns": started_ns,
            "started_time": "1970-01-01T00:00:00Z",
            "duts": ["pi4"],
        }
    )


def test_who_comes_online_is_asked_eight_times_within_two_seconds_and_then_every_five() -> None:
    asking = Asking()
    asking.asker.saw_status("lab", _status())
    rounds = [len(asking.sent(QUICK_NS)) for _ in range(8)]
    assert (sum(rounds), rounds[4:]) == (BURST, [0, 0, 0, 0])
    assert [name for name, _ in asking.sent(EVERY_NS)] == [topic("ping", "lab", **LEVELS)]
    assert asking.sent(QUICK_NS) == []


@pytest.mark.parametrize("state", ["measuring", "offline"])
def test_who_measures_or_is_away_is_left_in_peace(state: str) -> None:
    asking = Asking()
    asking.asker.saw_status("lab", _status())
    assert asking.sent()
    asking.asker.saw_status("lab", _status(state))
    assert asking.sent(EVERY_NS) == []
    asking.asker.saw_status("lab", _status())
    assert len(asking.sent(QUICK_NS)) == 2


def test_an_aggregator_and_a_board_without_a_meter_are_not_asked() -> None:
    asking = Asking(without_meter=("pi4",))
    asking.asker.saw_status("lab", _status(service="runner"))
    asking.asker.saw_status("lab", _status(service="aggregator"))
    assert asking.sent() == []


def test_a_thousand_publishers_are_asked_twenty_times_a_second_in_the_long_run() -> None:
    asking = Asking()
    for number in range(1000):
        asking.asker.saw_status("lab", _status(instance=f"m{number}"))
    for _ in range(300):
        asking.sent(QUICK_NS)
    pings = sum(len(asking.sent(QUICK_NS)) for _ in range(400))
    assert pings / (400 * QUICK_NS / SECOND) <= 21


def test_an_answer_is_an_exchange_on_the_clock_of_the_host_which_outlives_the_process() -> None:
    asking = Asking(boot_id="boot-a")
    asking.asker.saw_status("lab", _status())
    (_, ping), *_ = asking.sent()
    heard = asking.asker.heard(asking.answer(ping))
    assert heard is not None
    assert (heard.asker, heard.site, heard.service, heard.timeline_id) == ("boot-a", "lab", "meter", "m")
    t1_ns = ping.t1_ns - CONSTANT_NS
    t2_ns = ping.t1_ns + SECOND + 1_000_000
    assert heard.exchange == Exchange(t1_ns, t2_ns, t2_ns, t1_ns + 2_000_000)
    figures = asking.asker.saw_status("lab", _status())
    assert figures["clock_offset_s"] == pytest.approx(1.0, abs=1e-6)
    assert figures["clock_bound_s"] == pytest.approx(0.001, abs=1e-6)
    assert asking.asker.figures() == {"clock_exchanges": 1.0, "clock_bound_s": figures["clock_bound_s"]}


def test_an_answer_counts_once_and_only_to_a_question_of_ours() -> None:
    asking = Asking()
    asking.asker.saw_status("lab", _status())
    (_, ping), *_ = asking.sent()
    assert asking.asker.heard(asking.answer(ping, ping_id="of another aggregator")) is None
    assert asking.asker.heard(asking.answer(ping)) is not None
    assert asking.asker.heard(asking.answer(ping)) is None
    assert asking.asker.figures()["clock_exchanges"] == 1.0


@pytest.mark.parametrize(
    "changed", [{"t1_ns": T0 + 1}, {"t3_ns": T0}, {"t3_ns": T0 + 2 * SECOND}], ids=["t1", "backwards", "too long"]
)
def test_an_answer_that_cannot_be_true_is_counted_and_not_used(changed: dict[str, int]) -> None:
    asking = Asking()
    asking.asker.saw_status("lab", _status())
    (_, ping), *_ = asking.sent()
    assert asking.asker.heard(asking.answer(ping, **changed)) is None
    assert asking.asker.figures()["clock_exchanges_refused"] == 1.0


def test_an_answer_that_is_no_answer_is_an_error_of_its_sender() -> None:
    asking = Asking()
    for received in (
        Received(topic("pong", "lab", **LEVELS), b"{}", False, 0),
        Received(topic("pong", "lab", **LEVELS), b"{}", True, 0),
    ):
        with pytest.raises(ContractError):
            asking.asker.heard(received)


def test_who_never_answers_does_not_grow_the_state() -> None:
    asking = Asking()
    asking.asker.saw_status("lab", _status())
    pings = [ping for _ in range(50) for _, ping in asking.sent(EVERY_NS)]
    assert asking.asker.heard(asking.answer(pings[-OPEN - 1])) is None
    assert asking.asker.heard(asking.answer(pings[-OPEN])) is not None
