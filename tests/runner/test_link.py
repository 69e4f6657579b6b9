"""The runner's side of the bus: what was sent before it was there, lost connections, another runner of its name."""

import pytest

from bus import MemoryBus, Received
from bus.outbox import Outgoing
from errors import SettingsError
from runner.openssl import OpenSsl
from schemas import topic
from tests.runner.conftest import MakeStage
from tests.runner.stage import Stage

STEP_S = 0.1


def _of_another(stage: Stage, started_ns: int, detail: str) -> None:
    """Another runner of this name tells its status."""
    told = stage.statuses[-1].model_copy(update={"started_ns": started_ns, "detail": detail, "state": "online"})
    other = MemoryBus(stage.broker, "another")
    other.connect(0.0)
    other.set_status("lab", told)
    other.disconnect()


@pytest.fixture
def stage(make_stage: MakeStage, system_openssl: OpenSsl) -> Stage:
    return make_stage(system_openssl)


def test_what_the_broker_kept_from_before_comes_before_the_link_has_arrived(stage: Stage) -> None:
    heard: list[tuple[bytes, bool]] = []

    def hear(received: Received) -> None:
        if received.topic == command:
            heard.append((received.payload, stage.link.arrived))

    command = topic("command", "lab", dut="pi4")
    stage.link.listen([command], hear)
    stage.bus.connect(0.0)
    stage.bus.disconnect()  # as a predecessor: the session is there
    _publish(stage, command, b"old")
    stage.link.speak("starting", STEP_S)
    _publish(stage, command, b"new")
    stage.link.speak("waits", STEP_S)
    assert heard == [(b"old", False), (b"new", True)]


def _publish(stage: Stage, name: str, payload: bytes) -> None:
    stage.broker.route(Outgoing(name, payload, 1, False))


def test_a_lost_connection_is_counted_in_the_next_word_and_a_left_one_is_not(stage: Stage) -> None:
    stage.link.speak("waits", STEP_S)
    stage.bus.disconnect()
    stage.link.speak("waits", STEP_S)
    assert stage.statuses[-1].health["connections_lost"] == 0
    stage.bus.drop()
    stage.link.speak("waits", STEP_S)
    assert stage.statuses[-1].health["connections_lost"] == 1


def test_who_gives_way_to_another_runner_leaves_the_status_to_it(stage: Stage) -> None:
    stage.link.speak("waits", STEP_S)
    earlier_ns = stage.statuses[-1].started_ns - 1
    _of_another(stage, earlier_ns, "a")
    _of_another(stage, earlier_ns, "b")
    with pytest.raises(SettingsError, match="another runner pi4 is connected"):
        stage.link.speak("waits", STEP_S)
    stage.link.leave("stopped")
    assert (stage.statuses[-1].detail, stage.statuses[-1].started_ns) == ("b", earlier_ns)
