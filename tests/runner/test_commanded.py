"""The runner as a process on a real broker: commanded, cut off, started again, and never twice."""

import json
import random
import re
import time
from pathlib import Path

import pytest

from bus import BrokerAddress, MqttBus
from opjoule.local_broker import available
from runner.openssl import OpenSsl
from schemas import Command, ServiceStatus, parse_topic, topic_filter
from tests.pipeline.plant import DEADLINE_S, DUT, SITE, Plant

pytestmark = [pytest.mark.processes, pytest.mark.mosquitto]
QUICK: dict[str, object] = {"dut": DUT, "gap_s": 0.5, "start_delay_s": 0, "train_s": 3, "busy_wait_s": 0}


class Operator:
    """Sends commands, and hears the statuses of the runner."""

    def __init__(self, plant: Plant) -> None:
        self._bus = MqttBus(BrokerAddress.parse(plant.broker.url), "operator")
        self._bus.subscribe([topic_filter("status", SITE)])
        self.statuses: list[ServiceStatus] = []
        assert self._bus.connect(DEADLINE_S), self._bus.last_error

    @property
    def last(self) -> ServiceStatus:
        return self.statuses[-1]

    def send(self, command_id: str, **command: object) -> None:
        message = Command.model_validate({"command_id": command_id, **command})
        self._bus.publish("command", SITE, message, dut=DUT)

    def wait_for(self, what: str, **expected: object) -> ServiceStatus:
        """Until a status has these fields, `a__b` being field b of field a; no earlier status counts again."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            assert time.monotonic() < deadline_s, f"{what}: last {self.statuses[-1:]}"
            for received in self._bus.receive(0.1):
                address = parse_topic(received.topic)
                if address is not None and address.levels["service"] == "runner":
                    self.statuses.append(ServiceStatus.model_validate_json(received.payload))
                    if all(_field(self.last, name) == value for name, value in expected.items()):
                        return self.last

    def close(self) -> None:
        self._bus.disconnect()


def _field(status: ServiceStatus, path: str) -> object:
    value: object = status
    for name in path.split("__"):
        value = getattr(value, name, None)
    return value


@pytest.fixture
def plant(tmp_path: Path):  # type: ignore[no-untyped-def]
    if not available("mosquitto"):
        pytest.skip("mosquitto is not installed")
    with Plant(tmp_path) as made:
        yield made


def test_a_waiting_runner_does_what_commands_ask_and_answers_each(plant: Plant, system_openssl: OpenSsl) -> None:
    operator = Operator(plant)
    plant.start("runner", **QUICK, plan="wait", openssl=system_openssl.program)
    operator.wait_for("waits", detail="waits for commands")
    operator.send("a", action="start", campaign="dmo")
    refused = operator.wait_for("answered", answer__command_id="a")
    assert refused.answer is not None and not refused.answer.accepted
    assert "demo" in refused.answer.reason

    operator.send("b", action="train", operation="sign", parameter_set="Ed25519")
    accepted = operator.wait_for("accepted", answer__command_id="b")
    assert accepted.answer is not None and accepted.answer.accepted
    operator.wait_for("measures", state="measuring", campaign__name="sign:Ed25519")
    operator.send("c", action="train", operation="sham")  # the runner is away: the broker keeps it
    late = operator.wait_for("answered after the train", answer__command_id="c")
    assert late.answer is not None
    assert late.answer.accepted or "sign:Ed25519 is under way" in late.answer.reason
    done = operator.wait_for("done", campaign__state="finished", detail="waits for commands")
    assert done.campaign is not None
    assert done.campaign.trains_done == done.campaign.trains_planned == 1
    operator.close()


def test_stop_ends_a_campaign_after_the_train_and_the_runner_waits_on(plant: Plant, system_openssl: OpenSsl) -> None:
    operator = Operator(plant)
    plant.start("runner", **QUICK, plan="sham", rounds=0, then="wait", openssl=system_openssl.program)
    operator.wait_for("measures", state="measuring")
    operator.send("a", action="stop")
    answered = operator.wait_for("answered", answer__command_id="a")
    assert answered.answer is not None and answered.answer.accepted
    stopped = operator.wait_for("stopped", campaign__state="stopped", detail="waits for commands")
    assert stopped.campaign is not None and stopped.campaign.trains_done >= 1
    assert plant.services.status("runner") is None
    operator.close()


def test_what_was_sent_while_no_runner_was_there_does_nothing_at_the_next_start(
    plant: Plant, system_openssl: OpenSsl
) -> None:
    operator = Operator(plant)
    settings = QUICK | {"openssl": system_openssl.program}
    plant.start("runner", **settings, plan="wait")
    operator.wait_for("waits", detail="waits for commands")
    plant.services.stop("runner")
    operator.send("stop", action="stop")
    plant.start("runner", **settings, plan="sham", rounds=1)
    refused = operator.wait_for("answered", answer__command_id="stop")
    assert refused.answer is not None and "before this runner was started" in refused.answer.reason
    done = operator.wait_for("done", campaign__state="finished")
    assert done.campaign is not None and done.campaign.trains_done == 1
    operator.close()


def test_a_train_that_a_kill_cut_off_is_told_at_the_next_start(plant: Plant, system_openssl: OpenSsl) -> None:
    operator = Operator(plant)
    plant.start("runner", **QUICK, plan="null:1", rounds=0, openssl=system_openssl.program)
    measuring = operator.wait_for("measures", state="measuring")
    plant.services.kill("runner")
    plant.start("runner", **QUICK, plan="wait", openssl=system_openssl.program)
    told = operator.wait_for("starts again", state="online", detail="waits for commands")
    (aborted,) = told.aborted
    assert (aborted.operation, aborted.variant) == ("null", "processes=1")
    assert measuring.started_ns < aborted.started_ns < told.started_ns
    assert told.health["aborted"] == 1
    operator.close()


def test_every_event_arrives_once_whenever_the_runner_is_killed(plant: Plant, system_openssl: OpenSsl) -> None:
    seed = time.time_ns()
    draw = random.Random(seed)
    settings = QUICK | {"train_s": 1, "plan": "sham", "openssl": system_openssl.program, "then": "wait"}
    plant.start("aggregator", without_meter=DUT)
    for _ in range(5):
        plant.start("runner", **settings, rounds=0)
        end_s = time.monotonic() + draw.uniform(1.0, 6.0)
        plant.wait(lambda end_s=end_s: time.monotonic() > end_s)  # type: ignore[misc]
        plant.services.kill("runner")
    plant.start("runner", **settings, rounds=1)
    log = plant.folder / "runner.log"
    plant.wait(lambda: "campaign of items finished" in log.read_text())
    reported = len(re.findall(r"sham: 0 repetitions", log.read_text()))
    plant.wait(lambda: plant.count("events") >= reported)
    plant.services.stop("runner")
    events = [json.loads(result.model_dump_json())["event_id"] for result in plant.results()]
    assert reported >= 1, f"seed {seed}"
    assert len(events) == len(set(events)) == plant.count("events"), f"seed {seed}"
    assert reported <= plant.count("events") <= reported + 5, f"seed {seed}"
