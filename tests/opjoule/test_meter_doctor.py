"""`opjoule meter doctor`: what is wrong with a meter, who must act, one verdict, an exit status."""

import itertools
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from clock import ServiceClock
from meter.devices.faults import Faults, Span, every
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.lockstep import Lockstep
from meter.devices.power import Measured, Power, constant
from meter.devices.tc66c import Tc66OnPty
from meter.protocols.hwmon import ChannelFiles
from meter.readings import Counts, MeterHealth, Reading, Stream
from meter.sources.fnirsi import FnirsiSource
from meter.transports import UsbDevice
from meter.transports.hwmon import PowerSensor
from opjoule.meter import command, doctor
from opjoule.meter.doctor import LISTEN_S, examine, listen
from opjoule.meter.findings import Finding, Heard, of_samples, verdict, worst
from opjoule.meter.opening import opener_at, source_of
from opjoule.meter.plugged import Plugged
from tests.meter.fake_hidraw import FakeHidraw

STREAM = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, 10_000_000)
SECOND = 1_000_000_000
METER = Plugged("fnirsi", "FNB58", UsbDevice("/dev/hidraw0", (0x2E3C, 0x5558), "A1", "", "1-1.4"))
SENSOR = Plugged("hwmon", "ina226", UsbDevice("ina226@1-0040/1"))
BOOTLOADER = Plugged("fnirsi", "FNB58", UsbDevice("/dev/hidraw1", (0x0483, 0x0038)), "not", "bootloader")


def noisy() -> Power:
    draw = random.Random(4)
    return lambda _t_ns: Measured(510_000, draw.randrange(40_000, 60_000))


def heard_of(power: Power, faults: Faults | None = None, setup: Setup | None = None) -> list[Finding]:
    """What is found of a simulated meter, in no time."""
    usb = Lockstep(Fnb58(power, setup, faults))
    usb.plug_in()
    source = FnirsiSource(STREAM, usb.open, ServiceClock(), pacing=usb.pacing)
    heard = listen(source, METER, usb.monotonic_ns)
    source.close()
    usb.unplug()
    return of_samples(heard)


@dataclass
class Saying:
    """A source with these readings and no more."""

    readings: list[Reading]
    stream: Stream = STREAM
    counts: Counts = field(default_factory=Counts)
    health: MeterHealth = field(default_factory=MeterHealth)

    def read(self, timeout_s: float) -> list[Reading]:
        said, self.readings = self.readings, []
        return said

    def close(self) -> None:
        pass


def levels(findings: list[Finding]) -> dict[str, str]:
    return {each.subject: each.level for each in findings}


def text_of(findings: list[Finding], subject: str) -> str:
    return next(each.text for each in findings if each.subject == subject)


def test_of_a_sound_meter_all_is_well_and_its_figures_are_told() -> None:
    found = heard_of(noisy())
    assert set(levels(found).values()) == {"ok"}
    assert ", 100.0 a second" in text_of(found, "rate")
    assert "5.1000 V" in text_of(found, "values")
    assert text_of(found, "frames") == "none refused, 2 left out after opening"
    assert text_of(found, "meter") == "firmware 1.11, 27.3 °C"
    assert verdict("FNB58 at /dev/hidraw0", found) == "verdict: FNB58 at /dev/hidraw0 works"


def test_the_noise_that_is_told_is_the_standard_deviation_of_the_power() -> None:
    values = iter([Measured(500_000, 40_000), Measured(500_000, 60_000)] * 5_000)
    assert "2.5 W, standard deviation 500 mW" in text_of(heard_of(lambda _t_ns: next(values)), "values")


@pytest.mark.parametrize(
    ("faults", "subject", "says"),
    [
        (Faults(bad_crc=every(10)), "frames", "bad_crc"),
        (Faults(short=every(10)), "frames", "wrong_length"),
        (Faults(dropped=every(20)), "gaps", "samples lost"),
        (Faults(dropped=every(2)), "rate", "where 100 are expected"),
        (Faults(silent=(Span(2.0, 4.5),)), "gaps", "gaps"),
    ],
    ids=["damaged", "short", "some lost", "half lost", "silent for a while"],
)
def test_what_goes_wrong_meanwhile_is_a_doubt_with_its_count(faults: Faults, subject: str, says: str) -> None:
    found = heard_of(noisy(), faults)
    assert levels(found)[subject] == "doubt"
    assert says in text_of(found, subject)
    assert worst(found) == "doubt"
    assert verdict("it", found).startswith("verdict: it works, with a doubt: ")


@pytest.mark.parametrize(
    ("power", "subject", "says"),
    [
        (lambda _t_ns: Measured(5_760, 9), "values", "no supply is on the measured side"),
        (lambda _t_ns: Measured(510_000, 9), "values", "no load is on the measured side"),
    ],
    ids=["no supply", "no load"],
)
def test_values_that_mean_nothing_raise_a_doubt(power: Power, subject: str, says: str) -> None:
    found = heard_of(power)
    assert (levels(found)[subject], says in text_of(found, subject)) == ("doubt", True)


def test_values_that_are_held_are_told_by_their_rate_and_raise_no_doubt() -> None:
    found = heard_of(constant(2.5))
    assert set(levels(found).values()) == {"ok"}
    assert text_of(found, "rate").endswith("of which 0.0 differ from the one before")


def test_it_reads_for_as_long_as_it_says() -> None:
    samples, span_s = re.findall(r"^(\d+) samples in ([\d.]+) s", text_of(heard_of(noisy()), "rate"))[0]
    assert LISTEN_S <= float(span_s) <= LISTEN_S + 0.1
    assert int(samples) == pytest.approx(100 * LISTEN_S, abs=20)


def test_readings_that_the_service_would_refuse_are_counted_and_are_no_values() -> None:
    good, wrong = Reading(0, 5.0, 5.0, 1.0), Reading(1, 295.2, 36.0, 8.2)
    seconds = itertools.count(step=SECOND)
    heard = listen(Saying([good, wrong, wrong, good]), METER, lambda: next(seconds))
    assert (heard.readings, heard.implausible) == ((good, good), (wrong, wrong))
    heard = replace(heard, readings=tuple(Reading(t_ns, 5.0, 5.0, 1.0) for t_ns in (0, SECOND)))
    found = of_samples(heard)
    assert levels(found)["frames"] == "doubt"
    assert text_of(found, "frames").startswith("2 of 4 readings refused as implausible, the last: 295.2 W, 36.0000 V")
    assert text_of(found, "values").startswith("5 W")


def test_a_sensor_of_the_board_may_measure_what_no_usb_meter_can_and_currents_that_flow_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sensor = PowerSensor(Path("/sys/class/hwmon/hwmon1"), "ina226", "1-0040", None, ChannelFiles(1, "power1"), None)
    monkeypatch.setattr("opjoule.meter.opening.hwmon.find", lambda _name: sensor)
    stream = source_of(SENSOR, opener_at(SENSOR)).stream
    assert stream.ranges.allow(295.2, 36.0, 8.2)
    assert stream.ranges.allow(-0.2, 5.0, -0.002)
    assert not source_of(METER, opener_at(METER)).stream.ranges.allow(295.2, 36.0, 8.2)


def test_a_meter_of_which_every_reading_is_refused_says_so_and_names_one() -> None:
    readings = tuple(Reading(t_ns, 295.2, 36.0, 8.2) for t_ns in range(50))
    (found,) = of_samples(Heard("hwmon", 10_000_000, (), Counts(), MeterHealth(), readings))
    assert (found.level, found.subject) == ("error", "samples")
    refused = "no samples: 50 of 50 readings refused as implausible, the last: 295.2 W, 36.0000 V, 8.2000 A"
    assert found.text == refused


def test_a_meter_that_takes_commands_and_says_nothing_is_an_error_that_says_what_to_do() -> None:
    found = heard_of(noisy(), Faults(frozen=(Span(0.0, 1000.0),)))
    assert levels(found) == {"samples": "error"}
    assert "fallen silent" in found[0].text or "plug it in again" in found[0].text
    assert verdict("it", found).startswith("verdict: it: somebody must act: no samples")


def test_a_meter_of_the_other_family_is_given_the_time_to_be_found_out() -> None:
    found = heard_of(noisy(), setup=Setup(family="A", keep_alive="each report"))
    assert worst(found) == "doubt"
    assert int(text_of(found, "rate").partition(" samples")[0]) > 100
    assert "samples lost" in text_of(found, "gaps")


def test_a_bootloader_is_not_opened_and_is_an_error() -> None:
    found = list(examine(BOOTLOADER))
    assert levels(found) == {"device": "error"}


@pytest.fixture
def tc66c(tmp_path: Path) -> Iterator[Tc66OnPty]:
    """A TC66C that is plugged in."""
    meter = Tc66OnPty(tmp_path / "ttyACM0")
    draw = random.Random(1)
    meter.device.supply = lambda: (5.1, draw.randrange(40_000, 60_000) / 1e5)
    meter.plug_in()
    yield meter
    meter.unplug()


def test_a_tc66c_is_read_for_some_seconds_with_its_counter_and_temperature(
    tc66c: Tc66OnPty, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "LISTEN_S", 1.5)
    plugged = Plugged("tc66c", "TC66C", UsbDevice(str(tc66c.path)), files=(tc66c.path,))
    status = command.examine_all([plugged])
    said = capsys.readouterr().out
    assert "serial 4242, firmware 1.18, 27.0 °C (or °F, as it is set), energy counter" in said
    assert f"TC66C at {tc66c.path} works" in said.splitlines()[-1]
    assert status in (0, 1)


@pytest.mark.processes
def test_the_command_checks_a_meter_at_a_node_of_the_kernel(tmp_path: Path) -> None:
    with FakeHidraw(tmp_path) as usb:
        usb.plug_in(Fnb58(noisy()))
        ran = subprocess.run(
            [sys.executable, "-m", "opjoule", "meter", "doctor", "--node", "/dev/hidraw0"],
            env=usb.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    lines = ran.stdout.splitlines()
    assert lines[1].endswith("FNB58, USB id 2e3c:5558, port 1-2, serial 0001A0000000")
    assert "this user may open it" in lines[2]
    assert lines[-1].startswith("verdict: FNB58 at /dev/hidraw0 works"), ran.stdout + ran.stderr
    assert ran.returncode in (0, 1)


@pytest.mark.processes
def test_the_command_ends_with_a_verdict_and_status_2_where_nothing_is_plugged_in(tmp_path: Path) -> None:
    with FakeHidraw(tmp_path) as usb:
        ran = subprocess.run(
            [sys.executable, "-m", "opjoule", "meter", "doctor"],
            env=usb.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stdout.splitlines()[-1][:9]) == (2, "verdict: ")
    assert "micro-USB port" in ran.stdout
