"""Home Assistant is told of boards and services once, reads figures by templates, and forgets all when asked to."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest

from aggregator.clocks import Timeline
from aggregator.journal import Journal
from aggregator.result import MeterView, of_train
from aggregator.service import Aggregator
from aggregator.settings import AggregatorSettings
from aggregator.sinks.home_assistant import HomeAssistant, health, last_result, power, read_list, remove
from bus import BrokerAddress, MemoryBroker, MemoryBus, MqttBus
from bus.outbox import elsewhere
from clock import ServiceClock
from errors import SettingsError
from opjoule.local_broker import LocalBroker, available
from opjoule.processes import Services
from schemas import Message, ServiceStatus
from schemas.topics import topic
from tests.aggregator.trains import T0, batches, event, segments, steps, trace

PARTS = segments(10)
EVENT = event(PARTS)
TRACE = trace(steps(PARTS, 2.0, 3.0), 15)
BATCH = batches(TRACE)[0]
TIMELINE = Timeline(BATCH.timeline_id, BATCH.host_clock)
STATUS = ServiceStatus(
    service="meter",
    instance="hub",
    state="online",
    version="1",
    started_ns=T0,
    started_time="then",
    duts=("pi4",),
    detail="all well",
    health={"samples_per_s": 100.0},
)


class Home:
    """A broker, an aggregator's side of it, and what the broker keeps for Home Assistant."""

    def __init__(self, folder: Path) -> None:
        self.broker, self.path = MemoryBroker(), folder / "told.json"
        self.bus = MemoryBus(self.broker, "aggregator")
        self.bus.connect(1)

    def entries(self) -> dict[str, dict[str, Any]]:
        """What a Home Assistant that connects now is told."""
        client = MemoryBus(self.broker, "home")
        client.connect(1)
        client.subscribe(["homeassistant/#"])
        return {message.topic: json.loads(message.payload) for message in client.receive(0, 1000)}

    def announcer(self) -> HomeAssistant:
        """As after a start of the aggregator."""
        return HomeAssistant(self.bus, self.path, "opjoule 0")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A new one."""
    return Home(tmp_path)


def rendered(template: str, message: Message) -> str:
    """As Home Assistant renders it: `value_json` is the payload, parsed."""
    return jinja2.Environment().from_string(template).render(value_json=json.loads(message.model_dump_json()))


def test_a_board_is_announced_with_its_power_its_last_result_and_its_services(home: Home) -> None:
    announcer = home.announcer()
    announcer.saw(BATCH)
    announcer.saw(EVENT)
    announcer.saw_status("lab", STATUS)
    names = {entry["name"]: where for where, entry in home.entries().items()}
    assert set(names) == {"Power m1 SIMULATED", "Last result", "Energy of last result SIMULATED", "meter hub"}
    assert all(where.split("/")[0] == "homeassistant" and len(where.split("/")) == 5 for where in names.values())
    assert names["meter hub"].startswith("homeassistant/binary_sensor/")


def test_each_thing_is_announced_once_and_again_where_it_changed(home: Home) -> None:
    announcer = home.announcer()
    for _ in range(3):
        announcer.saw(BATCH)
    assert len(home.broker.published) == 1
    announcer.saw(BATCH.model_copy(update={"meter_kind": "measured"}))
    assert [entry["name"] for entry in home.entries().values()] == ["Power m1"]


def test_a_board_that_was_heard_of_while_the_broker_was_away_is_announced_later(home: Home) -> None:
    announcer = home.announcer()
    home.bus.drop()
    announcer.saw(BATCH)
    home.bus.connect(1)
    assert home.entries() == {}
    announcer.saw(BATCH)
    assert len(home.entries()) == 1


def test_the_entries_read_topics_of_the_contract(home: Home) -> None:
    assert power("lab", "pi4", "m1", False)[1]["state_topic"] == topic("samples", "lab", dut="pi4")
    assert last_result("lab", "pi4", "Pi")[0][1]["state_topic"] == topic("results", "lab", dut="pi4")
    assert health("lab", "meter", "hub")[1]["state_topic"] == topic("status", "lab", service="meter", instance="hub")


def test_no_two_boards_share_an_entry() -> None:
    one, other = power("a-b", "c", "m", False), power("a", "b-c", "m", False)
    assert one[0] != other[0] and one[1]["unique_id"] != other[1]["unique_id"]


def test_the_power_is_the_mean_of_a_batch_and_of_its_own_meter_only() -> None:
    template = power("lab", "pi4", "m1", True)[1]["value_template"]
    batch = BATCH.model_copy(update={"power_w": (1.0, 2.0, 6.0), "offset_us": (0, 1, 2)})
    assert float(rendered(template, batch)) == 3.0
    assert rendered(template, batch.model_copy(update={"meter": "m2"})) == ""
    assert rendered(template, batch.model_copy(update={"power_w": (), "offset_us": ()})) == ""


def test_the_last_result_says_what_ran_and_that_its_power_is_simulated() -> None:
    result = of_train(EVENT, MeterView("m1", "FNB58", "simulated", TIMELINE, TRACE), 1, "opjoule 0")
    what, energy = (entry for _, entry in last_result("lab", "pi4", "Pi"))
    assert result.net_j_per_op is not None
    assert rendered(what["value_template"], result) == "keygen ML-KEM-768 SIMULATED"
    assert float(rendered(energy["value_template"], result)) == result.net_j_per_op.value
    for entry in (what, energy):
        assert entry["json_attributes_topic"] == topic("results", "lab", dut="pi4")
        attributes = json.loads(rendered(entry["json_attributes_template"], result))
        assert attributes["net_j_per_op"]["u95"] == result.net_j_per_op.u95
        assert attributes["quality"] == result.quality and "simulated" in attributes["flags"]


def test_the_energy_says_in_its_name_that_its_power_is_simulated_until_it_is_not(home: Home) -> None:
    def energy() -> list[str]:
        return [entry["name"] for entry in home.entries().values() if entry["name"].startswith("Energy")]

    announcer = home.announcer()
    announcer.saw(EVENT)
    assert energy() == ["Energy of last result"]
    announcer.saw(BATCH)
    announcer.saw(EVENT)
    assert energy() == ["Energy of last result SIMULATED"]
    announcer.saw(BATCH.model_copy(update={"meter_kind": "measured"}))
    announcer.saw(EVENT)
    assert energy() == ["Energy of last result"]


def test_a_result_without_energy_is_unknown_and_not_zero() -> None:
    result = of_train(EVENT, MeterView("m1", "FNB58", "measured", TIMELINE, TRACE), 1, "opjoule 0")
    without = result.model_copy(update={"net_j_per_op": None})
    assert rendered(last_result("lab", "pi4", "Pi")[1][1]["value_template"], without) == "None"


@pytest.mark.parametrize(("state", "shown"), [("online", "ON"), ("measuring", "ON"), ("offline", "OFF")])
def test_a_service_is_there_unless_it_is_offline(state: str, shown: str) -> None:
    entry = health("lab", "meter", "hub")[1]
    status = STATUS.model_copy(update={"state": state})
    assert rendered(entry["value_template"], status) == shown
    told = json.loads(rendered(entry["json_attributes_template"], status))
    assert told == {"samples_per_s": 100.0, "state": state, "detail": "all well"}


def test_what_was_announced_is_taken_away_after_the_setting_was_switched_off(home: Home) -> None:
    home.announcer().saw(BATCH)
    home.announcer().saw(EVENT)
    assert len(home.entries()) == 3
    assert remove(home.bus, home.path)
    assert home.entries() == {} and not home.path.exists()
    assert remove(home.bus, home.path), "and nothing is left to do"


def test_nothing_is_forgotten_before_the_broker_has_heard_it(home: Home) -> None:
    home.announcer().saw(BATCH)
    home.bus.drop()
    assert not remove(home.bus, home.path)
    home.bus.connect(1)
    assert remove(home.bus, home.path) and home.entries() == {}


def test_an_entry_is_listed_before_it_is_published(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(where: str, _: bytes) -> None:
        assert where in read_list(home.path)
        raise KeyboardInterrupt

    monkeypatch.setattr(home.bus, "publish_elsewhere", dies)
    with pytest.raises(KeyboardInterrupt):
        home.announcer().saw(BATCH)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff"])
def test_a_list_that_is_none_is_a_trouble_of_the_operator(home: Home, content: bytes) -> None:
    home.path.write_bytes(content)
    with pytest.raises(SettingsError, match="is no list of Home Assistant topics"):
        home.announcer()


@pytest.mark.parametrize("where", ["opjoule/v1/lab/pi4/results", "opjoule", "", "a/+/b", "a/#"])
def test_the_contract_cannot_be_written_to_by_this_way(where: str) -> None:
    with pytest.raises(ValueError, match="is no topic of another program"):
        elsewhere(where, b"")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty one."""
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


@pytest.mark.parametrize("wanted", [True, False])
def test_the_aggregator_tells_home_assistant_only_where_it_is_told_to(
    home: Home, journal: Journal, wanted: bool
) -> None:
    settings = AggregatorSettings.model_validate({"group_s": 0, "home_assistant": wanted})
    aggregator = Aggregator(
        home.bus, journal, ServiceClock(), settings, home_assistant=home.announcer() if wanted else None
    )
    aggregator.subscribe()
    sender = MemoryBus(home.broker, "meter")
    sender.connect(1)
    sender.publish("samples", "lab", BATCH, dut="pi4")
    sender.set_status("lab", STATUS)
    aggregator.step(0)
    assert len(home.entries()) == (2 if wanted else 0)


@pytest.mark.processes
@pytest.mark.mosquitto
@pytest.mark.skipif(not available("mosquitto"), reason="mosquitto is not installed")
def test_a_service_announces_boards_and_takes_them_back_when_it_is_started_without_the_setting(tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "broker", "mosquitto") as broker, Services(tmp_path) as services:
        address = BrokerAddress.parse(broker.url)
        lab, home = MqttBus(address, "lab"), MqttBus(address, "home")
        home.subscribe(["homeassistant/#"])
        assert lab.connect(5) and home.connect(5)
        given: dict[str, object] = {"broker_url": broker.url, "state_dir": tmp_path / "state"}
        services.start("aggregator", given | {"home_assistant": "true"})
        services.wait_until_online(lab, "lab", "aggregator")
        lab.publish("samples", "lab", BATCH, dut="pi4")
        told = [home.receive(10, 1)[0] for _ in range(2)]
        assert {json.loads(each.payload)["name"] for each in told} == {"Power m1 SIMULATED", "aggregator main"}
        services.stop("aggregator")
        services.start("aggregator", given)
        taken = [home.receive(10, 1)[0] for _ in range(2)]
        assert {(each.topic, each.payload) for each in taken} == {(each.topic, b"") for each in told}
        lab.disconnect()
        home.disconnect()
