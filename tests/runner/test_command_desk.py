"""Commands over MQTT: judged, answered, remembered."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from bus import Received
from errors import SettingsError
from runner.commands import REMEMBERED, UNREADABLE, CommandDesk
from runner.orders import ordered
from runner.plan import WholeCatalogue
from runner.settings import RunnerSettings
from schemas import Command
from schemas.status import CommandAnswer

TOPIC = "opjoule/v1/lab/pi4/command"


@dataclass
class Operator:
    """A desk whose orders are the commands themselves, and its answers."""

    answers: list[CommandAnswer] = field(default_factory=list)
    reason: str = ""
    arrived: bool = True

    def __post_init__(self) -> None:
        self.desk: CommandDesk[Command] = CommandDesk(
            "lab", "pi4", self._understand, self.answers.append, lambda: self.arrived
        )

    def _understand(self, command: Command) -> Command:
        if self.reason:
            raise SettingsError(self.reason)
        return command

    def send(self, retained: bool = False, topic: str = TOPIC, **command: Any) -> CommandAnswer | None:
        before = len(self.answers)
        payload = json.dumps({"schema_version": 1, "command_id": f"id-{before}", **command}).encode()
        self.desk.hear(Received(topic, payload, retained, 0))
        return self.answers[-1] if len(self.answers) > before else None


@pytest.fixture
def operator() -> Operator:
    return Operator()


def _refusal(answer: CommandAnswer | None) -> str:
    assert answer is not None and not answer.accepted
    return answer.reason


def test_an_order_is_accepted_once_and_waits_to_be_taken(operator: Operator) -> None:
    answer = operator.send(action="start", campaign="demo")
    assert answer == CommandAnswer(command_id="id-0", accepted=True)
    order = operator.desk.take()
    assert order is not None and order.campaign == "demo"
    assert operator.desk.take() is None


def test_what_is_asked_while_something_runs_is_refused_with_its_name(operator: Operator) -> None:
    operator.desk.running = "continuous"
    commands: list[dict[str, Any]] = [{"action": "start", "campaign": "demo"}, {"action": "train", "operation": "sham"}]
    for command in commands:
        assert _refusal(operator.send(**command)).startswith("continuous is under way: send stop first")
    assert operator.desk.take() is None


def test_a_second_order_before_the_first_has_begun_is_refused(operator: Operator) -> None:
    operator.send(action="start", campaign="demo")
    assert "another command is under way" in _refusal(operator.send(action="train", operation="sham"))


def test_stop_takes_effect_on_what_runs_and_is_refused_where_nothing_does(operator: Operator) -> None:
    assert _refusal(operator.send(action="stop")) == "nothing is under way here"
    assert not operator.desk.stop_asked
    operator.desk.running = "demo"
    answer = operator.send(action="stop")
    assert answer is not None and answer.accepted
    assert operator.desk.stop_asked


def test_stop_takes_an_order_back_that_has_not_begun(operator: Operator) -> None:
    operator.send(action="start", campaign="demo")
    answer = operator.send(action="stop")
    assert answer is not None and answer.accepted
    assert (operator.desk.take(), operator.desk.stop_asked) == (None, False)


def test_a_command_that_is_delivered_again_is_not_done_again(operator: Operator) -> None:
    operator.send(action="start", campaign="demo", command_id="same")
    operator.desk.take()
    assert operator.send(action="start", campaign="demo", command_id="same") is None
    assert operator.desk.take() is None
    assert len(operator.answers) == 1


def test_no_more_ids_are_remembered_than_a_broker_could_repeat(operator: Operator) -> None:
    for number in range(REMEMBERED + 1):
        operator.send(action="stop", command_id=f"other-{number}")
    assert operator.send(action="stop", command_id="other-0") is not None
    assert operator.send(action="stop", command_id=f"other-{REMEMBERED}") is None


def test_a_retained_command_is_refused(operator: Operator) -> None:
    assert "retain flag" in _refusal(operator.send(retained=True, action="start", campaign="demo"))
    assert operator.desk.take() is None


@pytest.mark.parametrize(
    "command", [{"action": "stop"}, {"action": "start", "campaign": "demo"}, {"action": "train", "operation": "sham"}]
)
def test_what_was_sent_before_the_start_is_refused_and_the_plan_goes_on(
    operator: Operator, command: dict[str, Any]
) -> None:
    operator.arrived, operator.desk.running = False, "continuous"
    assert "before this runner was started" in _refusal(operator.send(**command))
    assert (operator.desk.take(), operator.desk.stop_asked) == (None, False)
    operator.arrived = True
    operator.send(action="stop")
    assert operator.desk.stop_asked


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"action": "jump"}, "action"),
        ({"action": "start"}, "start needs either the name of a campaign or its text"),
        ({"action": "train"}, "train needs an operation"),
        ({"action": "start", "campaign": "demo", "command_id": ""}, "command_id"),
    ],
)
def test_what_is_no_command_is_refused_with_what_is_wrong(
    operator: Operator, command: dict[str, Any], said: str
) -> None:
    answer = operator.send(**command)
    assert answer is not None
    assert said in _refusal(answer)
    assert answer.command_id == (command.get("command_id", "id-0") or UNREADABLE)


def test_bytes_that_are_no_json_are_refused_every_time(operator: Operator) -> None:
    for _ in range(2):
        operator.desk.hear(Received(TOPIC, b"\xff\x00", False, 0))
    assert [answer.command_id for answer in operator.answers] == [UNREADABLE, UNREADABLE]
    assert _refusal(operator.answers[0]).startswith("no command: ")


def test_other_topics_and_other_duts_are_no_matter(operator: Operator) -> None:
    for topic in ("opjoule/v1/lab/pi5/command", "opjoule/v1/lab/pi4/device", "opjoule/v1/x/pi4/command", ""):
        assert operator.send(topic=topic, action="start", campaign="demo") is None
    assert operator.desk.take() is None


def test_the_reason_why_it_cannot_be_done_is_the_answer(operator: Operator) -> None:
    operator.reason = "no campaign is called 'dmo': did you mean demo?"
    assert _refusal(operator.send(action="start", campaign="dmo")) == operator.reason


# --- what a command means ---------------------------------------------------------------------------------------

SETTINGS = RunnerSettings.model_validate({"dut": "pi4", "train_s": 30, "rounds": 0, "preset": "long"})


def _order(**command: Any) -> tuple[str, list[str]]:
    order = ordered(Command.model_validate({"command_id": "1", **command}), WholeCatalogue(), SETTINGS)
    return order.campaign.name, [str(job) for job in order.plan.jobs]


def test_a_train_is_one_train_with_the_backend_that_was_named() -> None:
    command = {"action": "train", "operation": "sign", "parameter_set": "ML-DSA-65"}
    assert _order(**command) == ("sign:ML-DSA-65", ["sign ML-DSA-65"])
    assert _order(**command, backend="lib") == ("lib/sign:ML-DSA-65", ["sign ML-DSA-65 by lib"])
    assert _order(action="train", operation="sham") == ("sham", ["sham"])


def test_a_campaign_comes_by_its_shipped_name_or_whole() -> None:
    assert _order(action="start", campaign="Demo")[0] == "demo"
    text = 'name = "mine"\n[[measure]]\noperations = "keygen"\nsets = "X25519"\n'
    name, jobs = _order(action="start", campaign_toml=text)
    assert name == "mine"
    assert {"keygen X25519", "sham"} <= set(jobs)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"action": "start", "campaign": "dmo"}, "did you mean demo?"),
        ({"action": "start", "campaign": "/etc/passwd"}, "no campaign is called"),
        ({"action": "start", "campaign_toml": "x = 1"}, "campaign_toml, line 1: there is no key x"),
        ({"action": "train", "operation": "sign", "parameter_set": "ML-DSA-66"}, "ML-DSA-65"),
        ({"action": "train", "operation": "sign", "parameter_set": "X25519"}, "no sign"),
        ({"action": "train", "operation": "keygen", "parameter_set": "X25519", "backend": "none"}, "cli or lib"),
        (
            {"action": "start", "campaign_toml": 'name = "a\\n\\u0007"\nitems = "sham"'},
            "campaign_toml, line 1: name is",
        ),
    ],
)
def test_a_command_that_means_nothing_is_refused_with_the_reason(command: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said.replace("?", r"\?")):
        _order(**command)


def test_a_commanded_campaign_gets_the_boards_settings_where_it_says_nothing_and_never_its_rounds() -> None:
    text = 'train_s = 12\n[[measure]]\noperations = "keygen"\nsets = "X25519"\n'
    command = Command(command_id="1", action="start", campaign_toml=text)
    campaign = ordered(command, WholeCatalogue(), SETTINGS).campaign
    assert (campaign.train_s, campaign.preset, campaign.rounds) == (12, "long", 1)
    command = Command(command_id="1", action="train", operation="sham")
    campaign = ordered(command, WholeCatalogue(), SETTINGS).campaign
    assert (campaign.train_s, campaign.preset, campaign.rounds) == (30, "long", 1)
