"""Which of the things that are plugged in `opjoule meter doctor` and `record` take, by the flags that were given."""

import argparse
from pathlib import Path

import pytest

from meter.protocols.hwmon import ChannelFiles
from meter.transports import UsbDevice
from meter.transports.hwmon import PowerSensor
from opjoule.meter import command
from opjoule.meter.doctor import chosen, nothing
from opjoule.meter.plugged import Host, Lists, Plugged, look
from tests.opjoule.test_meter_doctor import BOOTLOADER, METER, SENSOR


def test_by_default_every_meter_is_checked_and_no_power_sensor() -> None:
    host = Host((METER, SENSOR, BOOTLOADER))
    assert chosen(host, None, None) == [METER, BOOTLOADER]
    assert chosen(host, SENSOR.device.node, None) == [SENSOR]
    assert chosen(host, "1-1.4", None) == [METER]
    assert chosen(host, None, "A1") == [METER]
    assert chosen(host, None, "B2") == []


def test_what_is_no_known_model_is_sent_nothing_unless_its_node_is_named() -> None:
    unknown = Plugged(
        "fnirsi", "unknown X", UsbDevice("/dev/hidraw2", (0x2E3C, 0x9999), "Z9"), "maybe", "tried by --node"
    )
    host = Host((unknown, METER))
    assert chosen(host, None, None) == [METER]
    assert chosen(host, None, "Z9") == chosen(Host((unknown,)), None, None) == []
    assert chosen(host, "/dev/hidraw2", None) == [unknown]
    assert "--node names it: unknown X at /dev/hidraw2" in nothing(Host((unknown,)), is_asked=False)
    assert nothing(host, is_asked=True).endswith("; unknown X at /dev/hidraw2: tried by --node")


@pytest.mark.parametrize("action", [["doctor"], ["record", "new.raw.gz"]], ids=["doctor", "record"])
def test_the_commands_leave_an_unknown_product_alone(
    action: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = Plugged("fnirsi", "unknown USB Tester 2", UsbDevice("/dev/hidraw2", (0x2E3C, 0x9999)), "maybe")
    monkeypatch.setattr(command, "look", lambda ask: Host((unknown,)))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args(action)) == 2
    assert "Not checked unless --node names it: unknown USB Tester 2" in capsys.readouterr().out


def test_a_sensor_is_meant_by_every_name_that_the_service_takes() -> None:
    sensor = PowerSensor(Path("/sys/class/hwmon/hwmon1"), "ina226", "1-0040", "core", ChannelFiles(1, "power1"), None)
    (plugged,) = look(Lists(list, list, lambda: [sensor])).plugged
    for name in ("ina226", "1-0040", "core", "ina226@1-0040/1", "ina226/core"):
        assert chosen(Host((METER, plugged)), name, None) == [plugged]
    assert chosen(Host((METER, plugged)), "ina219", None) == []


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
    assert nothing(Host((METER, SENSOR)), is_asked=True).endswith(
        "FNB58 at /dev/hidraw0 serial A1, ina226 at ina226@1-0040/1"
    )
