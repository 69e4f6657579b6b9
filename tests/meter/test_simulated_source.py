"""The simulated meter as the service runs it: a thread, a socket, and the reader of a real FNB58."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import get_args

import pytest

from clock import ServiceClock
from errors import SettingsError
from meter.devices.faults import Faults
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.port import Port
from meter.devices.power import Measured, Power, constant
from meter.protocols.fnirsi import Command, command
from meter.readings import Reading, Stream
from meter.settings import MeterSettings
from meter.sources import SOURCES
from meter.sources.fnirsi_intake import AFTER_OPENING
from meter.sources.simulated import MODEL, SimulatedSource

DEADLINE_S = 20.0
CLOCK = ServiceClock()
FAST = Stream("lab", "pi4", "m1", MODEL, "simulated", CLOCK.timeline_id, CLOCK.host_clock, 1_000_000)
"""1000 samples/s: what takes a real meter a minute takes it 6 s."""


def simulated_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "simulated FNB58"]


@pytest.fixture
def make_source() -> Iterator[Callable[[Power], SimulatedSource]]:
    """Makes sources, and closes them."""
    made: list[SimulatedSource] = []

    def make(power: Power) -> SimulatedSource:
        made.append(SimulatedSource(FAST, power, CLOCK))
        return made[-1]

    yield make
    for source in made:
        source.close()
    assert simulated_threads() == []


def read_at_least(source: SimulatedSource, count: int) -> list[Reading]:
    readings: list[Reading] = []
    end_s = time.monotonic() + DEADLINE_S
    while len(readings) < count:
        assert time.monotonic() < end_s, f"{len(readings)} readings, {source.counts}, {source.health}"
        readings += source.read(0.2) or []
    return readings


def test_samples_increase_at_the_rate_that_was_set(make_source: Callable[[Power], SimulatedSource]) -> None:
    before_ns = CLOCK.now_ns()
    source = make_source(constant(2.5))
    readings = read_at_least(source, 2000)
    times_ns = [reading.t_ns for reading in readings]
    assert all(before < after for before, after in pairwise(times_ns))
    assert (times_ns[-1] - times_ns[0]) / (len(times_ns) - 1) == pytest.approx(1_000_000, rel=0.05)
    assert before_ns < times_ns[0] < times_ns[-1] <= CLOCK.now_ns()


def test_power_is_the_product_of_the_voltage_and_current_of_a_report(
    make_source: Callable[[Power], SimulatedSource],
) -> None:
    for reading in read_at_least(make_source(constant(2.5)), 100):
        assert reading.voltage_v == 5.1
        assert reading.current_a is not None
        assert reading.power_w == pytest.approx(5.1 * reading.current_a)


def test_it_is_as_healthy_as_a_real_meter_and_says_what_it_dropped(
    make_source: Callable[[Power], SimulatedSource],
) -> None:
    source = make_source(constant(2.5))
    read_at_least(source, 100)
    assert source.counts.rejected == {"after_opening": AFTER_OPENING}
    health = source.health
    assert (health.connected, health.model, health.firmware, health.temperature_c) == (True, MODEL, "1.11", 27.3)


def test_it_ends_at_once_and_leaves_no_thread(make_source: Callable[[Power], SimulatedSource]) -> None:
    source = make_source(constant(2.5))
    read_at_least(source, 100)
    begin_s = time.monotonic()
    source.close()
    assert time.monotonic() - begin_s < 1.0
    assert simulated_threads() == []


def test_a_port_gives_its_meter_to_whoever_opened_it_last() -> None:
    port = Port(
        Fnb58(constant(2.5), Setup(sample_period_ns=1_000_000, keep_alive="never"), Faults(already_streaming=True))
    )
    with pytest.raises(OSError, match="no simulated meter is plugged in"):
        port.open()
    port.plug_in()
    first = port.open()
    assert first.read(DEADLINE_S)
    second = port.open()
    assert second.read(DEADLINE_S)
    with pytest.raises(OSError, match="closed"):
        drain(first.read)
    first.close()
    port.unplug()
    with pytest.raises(OSError, match="closed"):
        drain(second.read)
    second.close()
    port.plug_in()
    third = port.open()
    assert (first.device.node, third.device.node) == ("/dev/hidraw0", "/dev/hidraw1")
    third.close()
    port.unplug()


def drain(read: Callable[[float], bytes]) -> None:
    """Read what is left; ends with the error."""
    end_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < end_s:
        read(0.1)


def test_a_meter_behind_a_port_hears_what_is_written() -> None:
    heard = threading.Event()

    def power(_t_ns: int) -> Measured:
        heard.set()
        return Measured(510_000, 0)

    port = Port(Fnb58(power))
    port.plug_in()
    transport = port.open()
    for each in (Command.IDENTIFY, Command.START, Command.START):
        transport.write(command(each))
    assert heard.wait(DEADLINE_S)
    transport.close()
    port.unplug()


def settings(**given: object) -> MeterSettings:
    return MeterSettings.model_validate({"source": "simulated", "dut": "pi4", "meter": "m1", **given})


def test_a_process_that_does_not_exist_is_named_to_the_operator() -> None:
    with pytest.raises(SettingsError, match="there is no process 4194999"):  # above the largest pid of Linux
        SOURCES["simulated"](settings(simulated_pid=4_194_999), CLOCK)


@pytest.mark.parametrize("pid", [None, os.getpid()])
def test_the_whole_machine_or_one_process_is_metered(pid: int | None) -> None:
    (planned,) = SOURCES["simulated"](settings(simulated_pid=pid, simulated_rate_hz=1000, simulated_noise_w=0), CLOCK)
    assert (planned.dut, planned.meter, planned.model) == ("pi4", "m1", MODEL)
    source = planned.open()
    assert isinstance(source, SimulatedSource)
    readings = read_at_least(source, 200)
    source.close()
    assert all(reading.power_w > 2.29 for reading in readings)  # the idle power
    assert any(reading.power_w > 2.31 for reading in readings)  # reading itself costs CPU time


def test_every_source_can_be_chosen_by_a_setting() -> None:
    assert set(get_args(MeterSettings.model_fields["source"].annotation)) == set(SOURCES)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"source": "recording", "dut": "pi4", "meter": "m1"}, "either --recording or --playlist"),
        ({"source": "recording", "playlist": "a", "recording": "b"}, "either --recording or --playlist"),
        ({"source": "recording", "recording": "b", "meter": "m1"}, "--dut and --meter must be given"),
        ({"source": "simulated", "dut": "pi4"}, "--dut and --meter must be given"),
        ({"source": "simulated", "dut": "pi4", "meter": "m1", "playlist": "a"}, "need --source recording"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        MeterSettings.model_validate(given)


def test_the_process_is_named_in_topics_by_instance_meter_or_playlist() -> None:
    assert settings().instance_name == "m1"
    assert settings(instance="desk").instance_name == "desk"
    assert MeterSettings.model_validate({"source": "recording", "playlist": "a"}).instance_name == "playlist"
