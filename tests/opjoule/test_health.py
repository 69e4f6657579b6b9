"""`opjoule health` says what the broker knows of a service."""

import socket

import pytest

from bus import MemoryBroker, MemoryBus
from errors import ContractError, SettingsError
from opjoule import health
from opjoule.__main__ import main
from schemas import ServiceStatus, topic

TOPIC = topic("status", "lab", service="meter", instance="bench")
COMMAND_LINE = b"python\0-u\0-m\0meter\0--source\0simulated\0"


def status(state: str, detail: str = "") -> ServiceStatus:
    """A status of the meter `bench`."""
    return ServiceStatus.model_validate(
        {
            "service": "meter",
            "instance": "bench",
            "state": state,
            "version": "0.1.0",
            "started_ns": 1,
            "started_time": "1970-01-01T00:00:00.000000001Z",
            "duts": ("pi4",),
            "detail": detail,
        }
    )


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> MemoryBroker:
    """A broker in this process, and no waiting for what does not come."""
    monkeypatch.setattr(health, "TIMEOUT_S", 0.05)
    return MemoryBroker()


def connected(broker: MemoryBroker, client_id: str) -> MemoryBus:
    """A client of the broker."""
    bus = MemoryBus(broker, client_id)
    assert bus.connect(1.0)
    return bus


@pytest.mark.parametrize("state", ["online", "measuring"])
def test_a_service_that_is_online_or_measuring_is_healthy(broker: MemoryBroker, state: str) -> None:
    connected(broker, "meter").set_status("lab", status(state))
    assert health.what_is_wrong(connected(broker, "health"), TOPIC) == ""


def test_a_service_that_is_offline_is_not_healthy_and_its_own_words_say_why(broker: MemoryBroker) -> None:
    connected(broker, "meter").set_status("lab", status("offline", "no data"))
    assert health.what_is_wrong(connected(broker, "health"), TOPIC) == "is offline: no data"


def test_a_service_that_was_killed_is_offline_by_its_last_will(broker: MemoryBroker) -> None:
    meter = connected(broker, "meter")
    meter.set_status("lab", status("online"))
    meter.drop()
    assert health.what_is_wrong(connected(broker, "health"), TOPIC).startswith("is offline")


def test_a_service_that_the_broker_has_never_seen_is_not_healthy(broker: MemoryBroker) -> None:
    assert health.what_is_wrong(connected(broker, "health"), TOPIC).endswith(f"holds no status on {TOPIC}")


def test_a_status_that_is_none_is_named(broker: MemoryBroker) -> None:
    broken = status("online").model_copy(update={"state": "asleep"})
    connected(broker, "meter").publish("status", "lab", broken, service="meter", instance="bench")
    with pytest.raises(ContractError, match=f"{TOPIC} holds no status"):
        health.what_is_wrong(connected(broker, "health"), TOPIC)


def test_the_service_of_a_container_is_what_process_1_runs() -> None:
    assert health.service_of(COMMAND_LINE) == "meter"
    for other in (b"", b"/sbin/init\0", b"python\0-m\0http.server\0", b"\xff\0-m\0"):
        with pytest.raises(SettingsError, match="name one of meter, runner, aggregator"):
            health.service_of(other)


def test_a_broker_that_is_not_there_gives_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(health, "TIMEOUT_S", 0.05)
    with socket.socket() as unanswered:
        unanswered.bind(("127.0.0.1", 0))
        url = f"mqtt://127.0.0.1:{unanswered.getsockname()[1]}"
        monkeypatch.setenv("OPJOULE_BROKER_URL", url)
        monkeypatch.setenv("OPJOULE_INSTANCE", "bench")
        assert main(["health", "meter"]) == 2
    assert capsys.readouterr().err == f"opjoule health: no answer from the broker at {url}\n"


def test_the_instance_must_be_known(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("OPJOULE_INSTANCE", raising=False)
    assert main(["health", "meter"]) == 2
    assert capsys.readouterr().err == "opjoule health: --instance (OPJOULE_INSTANCE) must be given\n"
