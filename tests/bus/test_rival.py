"""Two services of one name at one broker: the later ends, and what a dead one left behind keeps nobody out."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bus import BrokerAddress, Received, Rival, Sentry
from bus import rival as module
from errors import SettingsError
from opjoule.local_broker import LocalBroker
from schemas import ServiceStatus, topic
from tests.bus.support import DEADLINE_S, Make, MakeBus, Until

ANOTHER = "another meter m1 is connected to this broker"


def status(make: Make, started_ns: int, state: str = "online", detail: str = "") -> ServiceStatus:
    return make.status(state, detail).model_copy(update={"started_ns": started_ns})


@pytest.fixture
def sentry(broker: LocalBroker) -> Iterator[Callable[[int], Sentry]]:
    with ExitStack() as stack:

        def post(started_ns: int) -> Sentry:
            made = Sentry(BrokerAddress.parse(broker.url), "lab", "meter", "m1", started_ns)
            stack.callback(made.close)
            return made

        yield post


def enters(sentry: Sentry) -> bool:
    return sentry.wait_until_alone(DEADLINE_S, lambda: False)


def test_who_finds_nobody_enters_and_is_not_disturbed_by_itself(
    make_bus: MakeBus, make: Make, sentry: Callable[[int], Sentry]
) -> None:
    mine = sentry(5)
    assert enters(mine)
    own = make_bus("own")
    for detail in ("a", "b"):
        own.set_status("lab", status(make, 5, detail=detail))
        assert own.flush(DEADLINE_S)
    reader = make_bus("reader")
    reader.subscribe([topic("status", "lab", service="meter", instance="m1")])
    assert reader.receive(DEADLINE_S)
    assert mine.alone()


@pytest.mark.parametrize("started_ns", [3, 7])
def test_who_hears_a_living_one_before_entering_ends_whatever_the_clocks_say(
    make_bus: MakeBus, make: Make, sentry: Callable[[int], Sentry], until: Until, started_ns: int
) -> None:
    other = make_bus("other")
    other.set_status("lab", status(make, started_ns))
    assert other.flush(DEADLINE_S)
    mine = sentry(5)

    def refused() -> bool:
        try:
            assert not mine.wait_until_alone(0.0, lambda: True)
        except SettingsError as error:
            assert str(error).startswith(ANOTHER)
            return True
        other.set_status("lab", status(make, started_ns))
        return False

    until(refused)


def test_of_two_that_have_entered_the_later_ends(
    make_bus: MakeBus, make: Make, sentry: Callable[[int], Sentry], until: Until
) -> None:
    earlier, later = sentry(3), sentry(5)
    assert enters(earlier) and enters(later)
    first, second = make_bus("first"), make_bus("second")
    second.set_status("lab", status(make, 5))
    assert second.flush(DEADLINE_S)
    first.set_status("lab", status(make, 3))
    with pytest.raises(SettingsError, match=ANOTHER):
        until(lambda: not later.alone())
    assert earlier.alone()


@pytest.mark.parametrize("state", ["online", "offline"])
def test_what_a_dead_one_left_keeps_nobody_out(
    make_bus: MakeBus, make: Make, sentry: Callable[[int], Sentry], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 1.0)
    dead = make_bus("dead")
    dead.set_status("lab", status(make, 3, state))
    dead.disconnect()
    start_s = time.monotonic()
    assert enters(sentry(5))
    assert (time.monotonic() - start_s >= 1.0) == (state == "online")


def test_without_a_broker_nobody_waits_longer_than_asked(tmp_path: Path) -> None:
    mine = Sentry(BrokerAddress.parse("mqtt://127.0.0.1:9"), "lab", "meter", "m1", 5)
    assert not mine.wait_until_alone(0.1, lambda: False)
    assert mine.last_error
    mine.close()


def heard(make: Make, started_ns: int, state: str = "online", detail: str = "") -> Received:
    payload = status(make, started_ns, state, detail).model_dump_json().encode()
    return Received(topic("status", "lab", service="meter", instance="m1"), payload, True, 0)


def test_a_silent_service_ends_at_the_second_word_of_an_earlier_one_after_its_own(make: Make) -> None:
    rival = Rival("meter", "m1", 5)
    for detail in ("a", "b"):  # before our own: left by a predecessor
        rival.hear(heard(make, 3, detail=detail))
    rival.hear(heard(make, 5))
    rival.hear(heard(make, 3, "measuring", "train 1"))
    rival.hear(heard(make, 3, "measuring", "train 1"))
    with pytest.raises(SettingsError, match=ANOTHER):
        rival.hear(heard(make, 3, "online", "after train 1"))


def test_a_silent_service_bears_later_ones_last_wills_rubbish_and_other_names(make: Make) -> None:
    rival = Rival("meter", "m1", 5)
    rival.hear(heard(make, 5))
    for detail in ("a", "b", "c"):
        rival.hear(heard(make, 7, detail=detail))
        rival.hear(heard(make, 3, "offline", detail))
        rival.hear(Received(topic("status", "lab", service="meter", instance="m1"), detail.encode(), True, 0))
        rival.hear(Received(topic("journaled", "lab", dut="pi4"), detail.encode(), True, 0))
    Rival("runner", "m1", 5).hear(heard(make, 3))


def test_what_a_predecessor_left_in_our_session_may_come_again(make: Make) -> None:
    rival = Rival("meter", "m1", 5)
    for _ in range(3):  # not acknowledged before we left the broker: it delivers all again
        rival.hear(heard(make, 3, "online", "a"))
        rival.hear(heard(make, 3, "measuring", "b"))
        rival.hear(heard(make, 5))


def settings(broker: LocalBroker, folder: Path) -> list[str]:
    return ["--broker-url", broker.url, "--state-dir", str(folder), "--site", "lab"]


SERVICES = {
    "aggregator": ((), 1),
    "meter": (("--source", "simulated", "--dut", "pi4", "--meter", "main"), 2),
    "runner": (
        (
            "--dut",
            "main",
            "--plan",
            "sham",
            "--train-s",
            "1",
            "--gap-s",
            "1",
            "--start-delay-s",
            "1",
            "--busy-wait-s",
            "0",
            "--rounds",
            "0",
        ),
        2,
    ),
}


@pytest.mark.processes
@pytest.mark.mosquitto
@pytest.mark.parametrize("kind", ["mosquitto"])
@pytest.mark.parametrize("plan", ["wait", "sham"])
def test_a_second_runner_ends_also_where_the_first_only_waits(
    broker: LocalBroker, make_bus: MakeBus, tmp_path: Path, until: Until, plan: str
) -> None:
    command = [sys.executable, "-m", "runner", "--dut", "main", "--train-s", "1", "--busy-wait-s", "0"]
    heard: list[ServiceStatus] = []
    watcher = make_bus("watcher")
    watcher.subscribe([topic("status", "lab", service="runner", instance="main")])

    def last() -> ServiceStatus | None:
        heard.extend(ServiceStatus.model_validate_json(each.payload) for each in watcher.receive(0.1))
        return heard[-1] if heard else None

    def is_online(started_ns: int | None = None) -> bool:
        told = last()
        return told is not None and told.state == "online" and started_ns in (None, told.started_ns)

    with ExitStack() as stack:
        waits = [*command, *settings(broker, tmp_path / "a"), "--plan", "wait", "--start-delay-s", "0"]
        first = stack.enter_context(subprocess.Popen(waits, stderr=subprocess.DEVNULL))
        stack.callback(first.kill)
        until(is_online)
        started_ns = heard[-1].started_ns
        later = [*command, *settings(broker, tmp_path / "b"), "--plan", plan, "--log-level", "error"]
        second = stack.enter_context(subprocess.Popen(later, stderr=subprocess.PIPE, text=True))
        stack.callback(second.kill)
        _, said = second.communicate(timeout=60)
        assert said.count("\n") == 1 and said.startswith("runner: another runner main is connected to this broker")
        assert second.returncode == 2
        until(lambda: is_online(started_ns))
        assert first.poll() is None


@pytest.mark.processes
@pytest.mark.mosquitto
@pytest.mark.parametrize("kind", ["mosquitto"])
@pytest.mark.parametrize("name", SERVICES)
def test_the_later_of_two_processes_says_so_in_one_line_and_ends(
    broker: LocalBroker, make_bus: MakeBus, tmp_path: Path, until: Until, name: str
) -> None:
    arguments, exit_status = SERVICES[name]
    command = [sys.executable, "-m", name, *arguments]
    watcher = make_bus("watcher")
    watcher.subscribe([topic("status", "lab", service=name, instance="main")])
    with ExitStack() as stack:
        first = stack.enter_context(
            subprocess.Popen([*command, *settings(broker, tmp_path / "a")], stderr=subprocess.DEVNULL)
        )
        stack.callback(first.kill)
        until(lambda: any(json.loads(each.payload)["state"] == "online" for each in watcher.receive(0.1)))
        quiet = [*command, *settings(broker, tmp_path / "b"), "--log-level", "error"]
        second = stack.enter_context(subprocess.Popen(quiet, stderr=subprocess.PIPE, text=True))
        stack.callback(second.kill)
        _, said = second.communicate(timeout=60)
        assert said.count("\n") == 1 and said.startswith(f"{name}: another {name} main is connected to this broker")
        assert second.returncode == exit_status
        assert first.poll() is None
