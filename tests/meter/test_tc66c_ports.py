"""Finding a TC66 among serial ports, none of which says what it is."""

import pytest

from errors import SettingsError
from meter.devices.tc66c import Tc66Device
from meter.sources.pacing import Pacing
from meter.sources.tc66c_ports import Tc66Finder
from meter.transports import UsbDevice


class StillClock:
    """A monotonic clock that only waiting moves."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, duration_s: float) -> None:
        self.now_ns += round(duration_s * 1e9)


class Ports:
    """Serial ports of a host: simulated meters, and things that answer with their own words or not at all."""

    def __init__(self) -> None:
        self.present: dict[UsbDevice, Tc66Device | bytes] = {}
        self.opened: list[str] = []
        self.busy: set[str] = set()
        self.time = StillClock()

    def finder(self, serial: str | None = None, path: str | None = None) -> Tc66Finder:
        pacing = Pacing(self.time.monotonic_ns, self.time.sleep)
        return Tc66Finder(path, serial, lambda: list(self.present), self._open, pacing)

    def _open(self, port: UsbDevice) -> "FakePort":
        self.opened.append(port.node)
        if port.node in self.busy:
            raise OSError(11, f"{port.node} is in use by another program")
        return FakePort(port, self.present[port], self.time)


class FakePort:
    """A port that answers at once."""

    def __init__(self, port: UsbDevice, device: Tc66Device | bytes, still: StillClock) -> None:
        self.device = port
        self._there = device
        self._time = still
        self._waiting = b""

    def read(self, timeout_s: float) -> bytes:
        self._time.sleep(0.001 if self._waiting else timeout_s)
        data, self._waiting = self._waiting, b""
        return data

    def write(self, report: bytes) -> None:
        self._waiting = self._there.command(report, 0.0)[1] if isinstance(self._there, Tc66Device) else self._there

    def close(self) -> None:
        self._waiting = b""


MODEM = UsbDevice("/dev/ttyACM0", (0x1199, 0x68C0), "m", "LTE modem", "1-1")
FNB58 = UsbDevice("/dev/ttyACM1", (0x2E3C, 0x5558), "f", "FNB58", "1-2")
TC66_A = UsbDevice("/dev/ttyACM2", (0x1234, 1), None, "TC66", "1-3")
TC66_B = UsbDevice("/dev/ttyACM3", (0x1234, 1), "usb-b", "TC66", "1-4")
UART = UsbDevice("/dev/ttyAMA0")


@pytest.fixture
def ports() -> Ports:
    """A host with a modem, an FNB58, a real UART and two meters."""
    ports = Ports()
    ports.present = {
        UART: b"login: ",
        MODEM: b"ERROR\r\n",
        FNB58: b"",
        TC66_A: Tc66Device(serial=1),
        TC66_B: Tc66Device(serial=2),
    }
    return ports


def open_in_the_end(finder: Tc66Finder) -> str:
    """The node that is opened once every port was asked that had to be."""
    for _ in range(5):
        try:
            finder.open()
        except OSError:
            continue
        assert finder.node
        return finder.node
    raise AssertionError("not found")


@pytest.mark.parametrize(("serial", "node"), [("1", TC66_A.node), ("2", TC66_B.node), ("usb-b", TC66_B.node)])
def test_a_meter_is_found_by_its_own_serial_number_or_that_of_its_port(ports: Ports, serial: str, node: str) -> None:
    finder = ports.finder(serial)
    assert open_in_the_end(finder) == node
    assert finder.is_wanted(serial)
    assert finder.is_wanted("3") == (serial == "usb-b")


def test_ports_of_fnirsi_meters_and_real_uarts_are_never_opened(ports: Ports) -> None:
    finder = ports.finder("no such")
    for _ in range(10):
        with pytest.raises(OSError, match="no TC66 with serial number no such is plugged in; "):
            finder.open()
    assert set(ports.opened) == {MODEM.node, TC66_A.node, TC66_B.node}


def test_a_modem_is_asked_once_with_one_line_until_it_is_plugged_in_anew(
    ports: Ports, caplog: pytest.LogCaptureFixture
) -> None:
    finder = ports.finder("no such")
    for _ in range(10):
        with pytest.raises(OSError, match="no TC66"):
            finder.open()
    assert ports.opened.count(MODEM.node) == 1
    assert [record.message for record in caplog.records] == [
        "/dev/ttyACM0 (LTE modem): no TC66 answers here; if it is one, plug it in anew (micro-USB port of the meter)"
    ]
    del ports.present[MODEM]
    with pytest.raises(OSError, match="no TC66"):
        finder.open()
    ports.present[MODEM] = b"ERROR\r\n"
    with pytest.raises(OSError, match="no TC66"):
        finder.open()
    assert ports.opened.count(MODEM.node) == 2


def test_of_two_meters_none_is_guessed(ports: Ports) -> None:
    finder = ports.finder()
    for _ in range(2):
        with pytest.raises(OSError, match="not asked yet"):
            finder.open()
    with pytest.raises(SettingsError, match=r"several TC66 .* --serial: 1 at /dev/ttyACM2, 2 at /dev/ttyACM3"):
        finder.open()


def test_the_only_meter_needs_no_number(ports: Ports) -> None:
    del ports.present[TC66_B]
    assert open_in_the_end(ports.finder()) == TC66_A.node


def test_a_port_in_use_is_asked_again_later(ports: Ports) -> None:
    ports.busy = {TC66_A.node}
    finder = ports.finder("1")
    for _ in range(4):
        with pytest.raises(OSError, match="/dev/ttyACM2 not asked yet"):
            finder.open()
    ports.busy = set()
    assert open_in_the_end(finder) == TC66_A.node


def test_a_meter_that_moved_to_another_port_is_found_there(ports: Ports) -> None:
    finder = ports.finder("1")
    assert open_in_the_end(finder) == TC66_A.node
    moved = UsbDevice("/dev/ttyACM9", (0x1234, 1), None, "TC66", "1-7")
    ports.present[moved] = ports.present.pop(TC66_A)
    assert open_in_the_end(finder) == moved.node


def test_meters_that_changed_places_are_not_mixed_up(ports: Ports) -> None:
    finder = ports.finder("1")
    assert open_in_the_end(finder) == TC66_A.node
    ports.present[TC66_A], ports.present[TC66_B] = ports.present[TC66_B], ports.present[TC66_A]
    assert open_in_the_end(finder) == TC66_B.node


def test_the_path_of_a_fnirsi_meter_is_refused(ports: Ports) -> None:
    with pytest.raises(SettingsError, match="FNIRSI meter, which says nothing on its serial port"):
        ports.finder(path=FNB58.node).open()
    assert ports.opened == []
