"""A serial port: exclusive, bounded, and every failure an OSError that says who must act."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import serial

from errors import SettingsError
from meter.devices.tc66c import Tc66OnPty
from meter.transports import UsbDevice
from meter.transports.serial_port import SerialPort, is_fnirsi, may_be_asked, node_identity, serial_ports


@pytest.fixture
def plugged(tmp_path: Path) -> Iterator[Tc66OnPty]:
    """A TC66C that is plugged in."""
    meter = Tc66OnPty(tmp_path / "ttyACM0")
    meter.plug_in()
    yield meter
    meter.unplug()


def test_an_open_port_is_locked_and_gives_its_descriptor_back(plugged: Tc66OnPty) -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    port = SerialPort(UsbDevice(str(plugged.path)))
    fd = os.open(plugged.path, os.O_RDWR | os.O_NOCTTY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    port.close()
    port.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_a_port_whose_device_is_gone_raises_oserror(plugged: Tc66OnPty) -> None:
    port = SerialPort(UsbDevice(str(plugged.path)))
    plugged.unplug()
    with pytest.raises(OSError, match="is gone"):
        port.read(0.1)
    with pytest.raises(OSError, match="takes nothing any more"):
        port.write(b"query")
    port.close()


def test_a_path_that_is_no_terminal_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="cannot be opened"):
        SerialPort(UsbDevice(str(tmp_path / "file")))


def test_reading_returns_what_has_come_as_soon_as_anything_has(plugged: Tc66OnPty) -> None:
    port = SerialPort(UsbDevice(str(plugged.path)))
    plugged.say(b"abc")
    assert port.read(5.0) == b"abc"
    assert port.read(0.0) == b""
    port.close()


def test_bytes_from_before_the_opening_are_dropped(plugged: Tc66OnPty) -> None:
    plugged.say(b"AT+GCAP\r\n")
    port = SerialPort(UsbDevice(str(plugged.path)))
    assert port.read(0.01) == b""
    port.close()


def test_a_missing_port_is_named_with_its_error_number(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is not there") as caught:
        SerialPort(UsbDevice(str(tmp_path / "ttyACM9")))
    assert caught.value.errno == errno.ENOENT


def test_a_port_that_was_plugged_in_anew_is_told_from_the_one_before(plugged: Tc66OnPty) -> None:
    before = node_identity(str(plugged.path))
    assert before == node_identity(str(plugged.path))
    plugged.unplug()
    assert node_identity(str(plugged.path)) is None


@pytest.mark.parametrize(
    ("vendor", "product", "fnirsi"),
    [
        (0x2E3C, 0x5558, True),
        (0x2E3C, 0x0049, True),
        (0x2E3C, 0x1234, True),
        (0x0483, 0x003A, True),
        (0x0483, 0x003B, True),
        (0x0483, 0x0038, True),
        (0x0483, 0x5740, False),
        (0x1A86, 0x003A, False),
    ],
)
def test_ports_of_fnirsi_meters_are_known_by_their_ids(vendor: int, product: int, fnirsi: bool) -> None:
    port = UsbDevice("/dev/ttyACM0", (vendor, product))
    assert is_fnirsi(port) == fnirsi
    assert may_be_asked(port) == (not fnirsi)


@pytest.mark.parametrize(
    "port", [UsbDevice("/dev/ttyAMA0"), UsbDevice("/dev/ttyS0"), UsbDevice("/dev/ttyUSB0", (0x0403, 0x6001))]
)
def test_real_lines_and_converters_are_not_asked(port: UsbDevice) -> None:
    assert not may_be_asked(port)


def test_listing_the_ports_of_this_host_opens_none() -> None:
    assert all(isinstance(port, UsbDevice) for port in serial_ports())


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "may not be opened by this user: add it to the group of the port"),
        (errno.EBUSY, "is in use by another program"),
        (errno.EAGAIN, "is in use by another program"),
        (errno.ENXIO, "is not there"),
        (errno.EINVAL, "cannot be opened: "),
    ],
)
def test_a_port_that_cannot_be_opened_says_who_must_act(
    number: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise serial.SerialException(number, os.strerror(number))

    monkeypatch.setattr(serial, "Serial", refuse)
    with pytest.raises(OSError, match=says) as caught:
        SerialPort(UsbDevice("/dev/ttyACM0"))
    assert caught.value.errno == number


def test_without_pyserial_the_operator_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(SettingsError, match="needs pyserial"):
        serial_ports()


def test_a_host_without_serial_meters_loads_neither_pyserial_nor_cryptography() -> None:
    code = "import sys, meter.sources; sys.exit(bool({'serial', 'cryptography'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
