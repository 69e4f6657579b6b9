"""`opjoule meter list`: what is plugged in, whatever it is, and whether this user may open it."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from errors import SettingsError
from meter.devices.tc66c import Tc66Device, Tc66OnPty
from meter.protocols.hwmon import ChannelFiles
from meter.transports import UsbDevice
from meter.transports.hwmon import PowerSensor
from opjoule.meter.command import list_meters
from opjoule.meter.plugged import Lists, Plugged, ask_none, look

FNB58 = UsbDevice("/dev/hidraw0", (0x2E3C, 0x5558), "A1", "USB Tester", "1-1.4")
FNB58_SERIAL = UsbDevice("/dev/ttyACM0", (0x2E3C, 0x5558), "A1", "USB Tester", "1-1.4:1.1")
BOOTLOADER = UsbDevice("/dev/hidraw1", (0x0483, 0x0038), None, "boot", "1-1.3")
NEW_MODEL = UsbDevice("/dev/hidraw2", (0x2E3C, 0x9999), None, "USB Tester 2", "1-2")
ST_BOARD = UsbDevice("/dev/hidraw3", (0x0483, 0x374B), None, "ST-LINK", "1-3")
UART = UsbDevice("/dev/ttyAMA0")


def lists(hid: list[UsbDevice] | None = None, serial: list[UsbDevice] | None = None) -> Lists:
    return Lists(lambda: hid or [], lambda: serial or [], list)


def models(found: Lists, ask: Callable[[UsbDevice], bool] = ask_none) -> list[tuple[str, str, str]]:
    return [(each.model, each.device.node, each.is_a) for each in look(found, ask).plugged]


@pytest.fixture
def tc66c(tmp_path: Path) -> Iterator[Tc66OnPty]:
    """A TC66C that is plugged in."""
    meter = Tc66OnPty(tmp_path / "ttyACM1", Tc66Device(serial=777))
    meter.plug_in()
    yield meter
    meter.unplug()


def test_a_meter_is_listed_once_though_its_serial_port_is_there_too() -> None:
    assert models(lists([FNB58], [FNB58_SERIAL, UART])) == [("FNB58", "/dev/hidraw0", "meter")]


def test_a_meter_of_which_only_the_serial_port_is_there_says_what_is_missing() -> None:
    host = look(lists([], [FNB58_SERIAL]))
    assert [(each.model, each.is_a) for each in host.plugged] == [("FNB58", "not")]
    assert "HID interface is missing" in host.plugged[0].remark


def test_a_bootloader_is_named_as_such_and_is_no_meter() -> None:
    host = look(lists([BOOTLOADER]))
    assert [(each.model, each.is_a) for each in host.plugged] == [("FNB58", "not")]
    assert "bootloader" in host.plugged[0].remark


def test_an_unknown_product_of_the_maker_may_be_a_meter_and_a_board_of_st_is_none() -> None:
    assert models(lists([NEW_MODEL, ST_BOARD])) == [("unknown USB Tester 2", "/dev/hidraw2", "maybe")]


def test_a_serial_port_is_asked_only_on_request_and_then_named_by_its_answer(tc66c: Tc66OnPty) -> None:
    port = UsbDevice(str(tc66c.path), (0x1234, 1), None, "TC66", "1-5:1.0")
    assert models(lists(serial=[port])) == [("TC66C?", port.node, "maybe")]
    assert tc66c.device.answered == 0
    host = look(lists(serial=[port]), lambda _port: True)
    assert [(each.model, each.is_a, each.device.serial, each.device.port) for each in host.plugged] == [
        ("TC66C", "meter", "777", "1-5")
    ]


def test_a_tc66_that_waits_for_firmware_is_no_meter(tc66c: Tc66OnPty) -> None:
    tc66c.device.mode = b"boot"
    port = UsbDevice(str(tc66c.path), (0x1234, 1))
    (found,) = look(lists(serial=[port]), lambda _port: True).plugged
    assert found.is_a == "not"
    assert "firmware" in found.remark


def test_a_port_that_cannot_be_opened_may_still_be_one(tmp_path: Path) -> None:
    port = UsbDevice(str(tmp_path / "ttyACM7"), (0x1234, 1))
    (found,) = look(lists(serial=[port]), lambda _port: True).plugged
    assert (found.is_a, "is not there" in found.remark) == ("maybe", True)


def test_a_missing_library_hides_one_kind_of_meter_and_says_so() -> None:
    def fail() -> list[UsbDevice]:
        raise SettingsError("no module reads USB HID devices")

    sensor = PowerSensor(Path("/sys/class/hwmon/hwmon1"), "ina226", "1-0040", None, ChannelFiles(1, "power1"), None)
    host = look(Lists(fail, lambda: [], lambda: [sensor]))
    assert [(each.model, each.device.node) for each in host.plugged] == [("ina226", "ina226@1-0040/1")]
    assert host.remarks == ("no module reads USB HID devices",)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Where root runs the test, as another user; the saved identity leads back."""
    is_root = os.getuid() == 0
    if is_root:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if is_root:
            os.setresuid(0, 0, 0)


def test_whether_this_user_may_open_a_meter_is_found_out_without_opening_it(shared_folder: Path) -> None:
    node = shared_folder / "hidraw0"
    node.touch()
    plugged = Plugged("fnirsi", "FNB58", UsbDevice(str(node)), files=(node,))
    assert plugged.may_open is True
    node.chmod(0o000)
    with as_nobody():
        assert plugged.may_open is False
    assert Plugged("fnirsi", "FNB58", UsbDevice("1-1.4:1.3")).may_open is None


def test_the_table_has_a_line_for_each_and_says_where_to_plug_in_when_there_is_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list_meters(look(lists([FNB58, BOOTLOADER])), as_json=False) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["model", "node", "port", "serial"]
    assert first.split()[:4] == ["FNB58", "/dev/hidraw0", "1-1.4", "A1"]
    assert "bootloader" in second
    assert list_meters(look(lists()), as_json=False) == 0
    assert "micro-USB port, the one marked PC" in capsys.readouterr().out


def test_json_names_everything_that_settings_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_meters(look(lists([FNB58])), as_json=True) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["source"], entry["node"], entry["port"], entry["serial"]) == ("fnirsi", FNB58.node, "1-1.4", "A1")
    assert (entry["vendor_id"], entry["product_id"], entry["is_a"]) == (0x2E3C, 0x5558, "meter")
