"""`opjoule meter doctor`: what is wrong with a meter, who must act, one verdict, an exit status."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clock import ServiceClock
from meter.devices.faults import Faults, Span, every
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.lockstep import Lockstep
from meter.devices.power import Measured, Power, constant
from meter.devices.tc66c import Tc66OnPty
from meter.readings import Stream
from meter.sources.fnirsi import FnirsiSource
from meter.transports import UsbDevice
from opjoule.meter import command, doctor
from opjoule.meter.doctor import chosen, examine, how_to_be_let_in, listen, nothing
from opjoule.meter.findings import Finding, of_samples, verdict, worst
from opjoule.meter.holders import holders
from opjoule.meter.plugged import Host, Plugged
from tests.meter.fake_hidraw import FakeHidraw

STREAM = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, 10_000_000)
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
        (constant(2.5), "rate", "the values stand still"),
    ],
    ids=["no supply", "no load", "a stuck meter"],
)
def test_values_that_mean_nothing_raise_a_doubt(power: Power, subject: str, says: str) -> None:
    found = heard_of(power)
    assert (levels(found)[subject], says in text_of(found, subject)) == ("doubt", True)


def test_a_meter_that_takes_commands_and_says_nothing_is_an_error_that_says_what_to_do() -> None:
    found = heard_of(noisy(), Faults(frozen=(Span(0.0, 1000.0),)))
    assert levels(found) == {"samples": "error"}
    assert "fallen silent" in found[0].text or "plug it in again" in found[0].text
    assert verdict("it", found).startswith("verdict: it: somebody must act: no samples")


def test_a_meter_of_the_other_family_is_given_the_time_to_be_found_out() -> None:
    found = heard_of(noisy(), setup=Setup(family="A", keep_alive="each report"))
    assert worst(found) == "doubt"
    assert "600 samples" in text_of(found, "rate")


def test_by_default_every_meter_is_checked_and_no_power_sensor() -> None:
    host = Host((METER, SENSOR, BOOTLOADER))
    assert chosen(host, None, None) == [METER, BOOTLOADER]
    assert chosen(host, SENSOR.device.node, None) == [SENSOR]
    assert chosen(host, "1-1.4", None) == [METER]
    assert chosen(host, None, "A1") == [METER]
    assert chosen(host, None, "B2") == []


def test_a_port_that_this_user_may_not_open_is_checked_where_no_other_meter_is_there() -> None:
    closed = Plugged("tc66c", "TC66C?", UsbDevice("/dev/ttyACM0"), "maybe", "may not be opened by this user")
    modem = Plugged("tc66c", "not a TC66C", UsbDevice("/dev/ttyACM1"), "not", "no TC66 answers here")
    assert chosen(Host((SENSOR, closed, modem)), None, None) == [closed]
    assert chosen(Host((METER, closed)), None, None) == [METER]


def test_where_nothing_is_plugged_in_the_port_is_named_and_what_was_not_looked_for() -> None:
    said = nothing(Host((SENSOR,), ("no module reads USB HID devices",)), is_asked=False)
    assert "micro-USB port, the one marked PC" in said
    assert "ina226@1-0040/1" in said
    assert said.endswith("no module reads USB HID devices")
    assert "FNB58 at /dev/hidraw0" in nothing(Host((METER,)), is_asked=True)


def test_a_bootloader_is_not_opened_and_is_an_error() -> None:
    found = list(examine(BOOTLOADER))
    assert levels(found) == {"device": "error"}


@pytest.mark.parametrize(
    ("plugged", "group", "says"),
    [
        (METER, "root", "60-opjoule-meters.rules"),
        (METER, "opjoule", "sudo usermod -aG opjoule $USER"),
        (Plugged("tc66c", "TC66C", UsbDevice("/dev/ttyACM0")), "dialout", "sudo usermod -aG dialout $USER"),
    ],
    ids=["no rule", "not in the group", "serial"],
)
def test_a_user_who_may_not_open_a_meter_is_told_the_commands(
    plugged: Plugged, group: str, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "group_of", lambda _file: group)
    closed = Plugged(plugged.source, plugged.model, plugged.device, files=(tmp_path / "missing",))
    found = list(examine(closed))
    assert levels(found)["rights"] == "error"
    assert says in found[-1].text
    assert found[-1].text == how_to_be_let_in(closed)


def test_the_rules_that_it_names_are_shipped(repository: Path) -> None:
    assert (repository / doctor.RULES).is_file()


def test_a_program_that_has_the_node_open_is_named(tmp_path: Path) -> None:
    node = tmp_path / "hidraw0"
    node.touch()
    process = tmp_path / "proc" / "4242"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "7").symlink_to(node)
    (process / "comm").write_text("flashmon\n")
    own = tmp_path / "proc" / str(os.getpid()) / "fd"
    own.mkdir(parents=True)
    (own / "3").symlink_to(node)
    (tmp_path / "proc" / "99").mkdir()
    assert holders(str(node), tmp_path / "proc") == ["flashmon (process 4242)"]
    assert holders(str(tmp_path / "other"), tmp_path / "proc") == []


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


@contextmanager
def held_open(path: Path, lock: bool) -> Iterator[int]:
    """Another program has it open, with a lock or without; its process."""
    code = "import os, sys, fcntl; fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); "
    code += "fcntl.flock(fd, fcntl.LOCK_EX); " if lock else ""
    code += "print('open', flush=True); sys.stdin.read()"
    command_line = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.stdin.close()


def test_a_meter_that_another_program_reads_is_an_error_that_names_it(tc66c: Tc66OnPty) -> None:
    plugged = Plugged("tc66c", "TC66C", UsbDevice(str(tc66c.path)), files=(tc66c.path,))
    with held_open(tc66c.path, lock=True) as pid:
        found = list(examine(plugged))
    assert levels(found) == {"device": "ok", "opening": "error"}
    assert "is in use by another program" in found[-1].text
    assert f"(process {pid}) has it open" in found[-1].text


def test_a_program_that_keeps_nobody_out_raises_a_doubt(tc66c: Tc66OnPty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LISTEN_S", 0.5)
    plugged = Plugged("tc66c", "TC66C", UsbDevice(str(tc66c.path)), files=(tc66c.path,))
    with held_open(tc66c.path, lock=False) as pid:
        found = list(examine(plugged))
    assert levels(found)["others"] == "doubt"
    assert f"(process {pid}) has it open too" in text_of(found, "others")
    assert worst(found) == "doubt"


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
