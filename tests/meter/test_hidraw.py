"""The hidraw transport against a module that is told what to do (`test_umockdev.py` has hidapi itself), and the choice
of a meter."""

import errno
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from errors import SettingsError
from meter.protocols.fnirsi import Command, command
from meter.sources.fnirsi_ports import find, may_be_meter, model_of
from meter.transports import UsbDevice
from meter.transports.enumerate import devices
from meter.transports.hidraw import HidTransport, hid_module


@dataclass
class FakeHandle:
    """What cython-hidapi 0.15 was seen to do, without a device."""

    opens: bool = True
    answers: list[list[int] | Exception] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)
    write_result: int = 65
    asked: list[tuple[int, int]] = field(default_factory=list)
    is_open: bool = False

    def open_path(self, path: bytes) -> None:
        if not self.opens:
            raise OSError("open failed")
        self.is_open = True

    def set_nonblocking(self, flag: int) -> int:
        return 0

    def read(self, max_length: int, timeout_ms: int = 0) -> list[int]:
        if not self.is_open:
            raise ValueError("not open")
        self.asked.append((max_length, timeout_ms))
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer

    def write(self, buffer: bytes) -> int:
        if not self.is_open:
            raise ValueError("not open")
        self.written.append(buffer)
        return self.write_result

    def close(self) -> None:
        self.is_open = False


@dataclass
class FakeModule:
    handle: FakeHandle = field(default_factory=FakeHandle)
    entries: list[dict[str, Any]] = field(default_factory=list)

    def device(self) -> FakeHandle:
        return self.handle

    def enumerate(self, vendor_id: int = 0, product_id: int = 0) -> list[dict[str, Any]]:
        return self.entries


def opened(handle: FakeHandle, node: str = "1-1.4:1.3") -> HidTransport:
    return HidTransport(UsbDevice(node), FakeModule(handle))


def test_a_report_goes_out_with_65_bytes_that_begin_00_aa() -> None:
    handle = FakeHandle()
    opened(handle).write(command(Command.START))
    (written,) = handle.written
    assert (len(written), written[:3]) == (65, b"\x00\xaa\x82")


def test_a_report_comes_in_as_bytes_and_a_time_out_as_none() -> None:
    handle = FakeHandle(answers=[list(range(64)), []])
    transport = opened(handle)
    assert transport.read(0.25) == bytes(range(64))
    assert transport.read(0) == b""
    assert transport.read(0.0001) == b""
    assert handle.asked == [(64, 250), (64, 0), (64, 1)]  # 0 is nobody's time-out by accident


def test_a_write_that_fails_without_raising_is_an_error_all_the_same() -> None:
    transport = opened(FakeHandle(write_result=-1))
    with pytest.raises(OSError, match="could not be written"):
        transport.write(command(Command.START))


def test_a_device_that_is_gone_or_closed_is_an_os_error() -> None:
    transport = opened(FakeHandle(answers=[OSError("read error")]))
    with pytest.raises(OSError, match="read error"):
        transport.read(0.1)
    transport.close()
    transport.close()
    for use in (lambda: transport.read(0.1), lambda: transport.write(bytes(64))):
        with pytest.raises(OSError, match="not open"):
            use()


def test_a_device_that_libusb_may_not_open_names_the_rules_which_serve_libusb_too() -> None:
    with pytest.raises(SettingsError, match=r"1-1\.4:1\.3.*cp deploy/udev/60-opjoule-meters\.rules"):
        opened(FakeHandle(opens=False))


def test_a_node_that_this_user_may_not_open_names_the_rule_for_hidraw(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("meter.transports.hidraw.os.open", refuse)
    monkeypatch.setattr("meter.transports.rights.group_of", lambda _file: "root")
    with pytest.raises(SettingsError, match=r"may not open /dev/hidraw3: .*udev rule: .*deploy/udev"):
        opened(FakeHandle(), "/dev/hidraw3")
    monkeypatch.setattr("meter.transports.rights.group_of", lambda _file: "opjoule")
    with pytest.raises(SettingsError, match=r"may not open /dev/hidraw3: .*`sudo usermod -aG opjoule \$USER`"):
        opened(FakeHandle(), "/dev/hidraw3")


def test_a_meter_that_is_read_already_may_be_meant_by_another_entry_of_the_same_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    node = tmp_path / "hidraw0"
    node.touch()
    monkeypatch.setattr("meter.transports.hidraw.is_node", lambda _path: True)
    first = opened(FakeHandle(), str(node))
    with pytest.raises(SettingsError, match=r"another program .*, or another \[\[meter\]\] entry means the same one"):
        opened(FakeHandle(), str(node))
    first.close()
    opened(FakeHandle(), str(node)).close()


def test_a_node_that_has_gone_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        opened(FakeHandle(), "/dev/hidraw-there-is-none")


def modules(monkeypatch: pytest.MonkeyPatch, **present: types.ModuleType | None) -> None:
    for name in ("hidraw", "hid"):
        monkeypatch.setitem(sys.modules, name, present.get(name))  # None: importing it fails


def module_with(**attributes: object) -> types.ModuleType:
    module = types.ModuleType("hid")
    vars(module).update(attributes)
    return module


def test_the_hidraw_module_goes_first_and_that_of_libusb_stands_in_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hidraw, hid = module_with(device=object), module_with(device=object)
    modules(monkeypatch, hidraw=hidraw, hid=hid)
    assert hid_module() is hidraw
    modules(monkeypatch, hid=hid)
    assert hid_module() is hid


def test_the_other_package_that_is_called_hid_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    modules(monkeypatch, hid=module_with(Device=object))
    with pytest.raises(SettingsError, match="'hid' is not 'hidapi'"):
        hid_module()


def test_without_hidapi_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    modules(monkeypatch)
    with pytest.raises(SettingsError, match=r"opjoule\[meter\]"):
        hid_module()


def entry(path: bytes, ids: tuple[int, int], serial: str = "", product: str = "USB Tester") -> dict[str, Any]:
    return {
        "path": path,
        "vendor_id": ids[0],
        "product_id": ids[1],
        "serial_number": serial,
        "product_string": product,
    }


def test_each_node_is_listed_once_in_the_order_of_its_number_and_other_vendors_not_at_all() -> None:
    module = FakeModule(
        entries=[
            entry(b"/dev/hidraw10", (0x2E3C, 0x5558), "B"),
            entry(b"/dev/hidraw9", (0x2E3C, 0x5558), "A"),
            entry(b"/dev/hidraw9", (0x2E3C, 0x5558), "A"),  # another usage of the same interface
            entry(b"/dev/hidraw1", (0x046D, 0xC52B)),
            entry(b"1-1.4:1.3", (0x0483, 0x003A)),
        ]
    )
    found = devices((0x2E3C, 0x0483), module)
    assert [(each.node, each.serial) for each in found] == [
        ("/dev/hidraw9", "A"),
        ("/dev/hidraw10", "B"),
        ("1-1.4:1.3", None),
    ]
    assert found[2].port == "1-1.4"


def test_the_usb_port_of_a_node_comes_from_the_device_tree(tmp_path: Path) -> None:
    device = tmp_path / "devices/pci0000:00/usb1/1-1/1-1.4/1-1.4:1.3/0003:2E3C:5558.0001"
    (device / "hidraw/hidraw3").mkdir(parents=True)
    (tmp_path / "class/hidraw").mkdir(parents=True)
    (tmp_path / "class/hidraw/hidraw3").symlink_to(device / "hidraw/hidraw3")
    (device / "hidraw/hidraw3/device").symlink_to(device)
    module = FakeModule(entries=[entry(b"/dev/hidraw3", (0x2E3C, 0x5558))])
    assert [each.port for each in devices((0x2E3C,), module, tmp_path)] == ["1-1.4"]


FIRST = UsbDevice("/dev/hidraw0", (0x2E3C, 0x5558), "S1", "", "1-1.1")
SECOND = UsbDevice("/dev/hidraw1", (0x2E3C, 0x5558), "S2", "", "1-1.2")
UNKNOWN = UsbDevice("/dev/hidraw2", (0x2E3C, 0x9999), None, "", "1-1.3")


def test_a_meter_is_found_by_serial_number_by_node_and_by_usb_port() -> None:
    for serial, path in [("S2", None), (None, "/dev/hidraw1"), (None, "1-1.2"), ("S2", "1-1.2")]:
        assert find(serial, path, lambda: [FIRST, SECOND]) == SECOND
    assert find(found=lambda: [FIRST]) == FIRST


def test_of_two_meters_none_is_guessed() -> None:
    with pytest.raises(SettingsError, match=r"2 meters fit .*S1.*S2.*say which"):
        find(found=lambda: [FIRST, SECOND])
    with pytest.raises(SettingsError, match="2 meters fit"):
        find("S1", found=lambda: [FIRST, UsbDevice("/dev/hidraw7", FIRST.ids, "S1")])


def test_a_meter_that_is_not_there_names_the_port_that_carries_data() -> None:
    with pytest.raises(OSError, match=r"no FNIRSI meter is plugged in: .* micro-USB port marked PC"):
        find(found=lambda: [])
    with pytest.raises(OSError, match="no FNIRSI meter with serial number S9:"):
        find("S9", found=lambda: [FIRST])


def test_an_unknown_model_is_used_only_when_its_path_is_named() -> None:
    assert find(found=lambda: [UNKNOWN, FIRST]) == FIRST
    with pytest.raises(SettingsError, match="no model that is known"):
        find(found=lambda: [UNKNOWN])
    assert find(path="1-1.3", found=lambda: [UNKNOWN]) == UNKNOWN
    assert model_of(UNKNOWN) is None


@pytest.mark.parametrize(
    ("ids", "may"),
    [
        ((0x2E3C, 0x5558), True),
        ((0x0483, 0x003A), True),
        ((0x2E3C, 0x9999), True),
        ((0x0483, 0x0038), False),  # the bootloader of an FNB58
        ((0x0483, 0x5740), False),  # somebody's development board
        ((0x0716, 0x5030), False),
        (None, False),
    ],
)
def test_the_bootloader_and_the_devices_of_others_are_never_opened(ids: tuple[int, int] | None, may: bool) -> None:
    assert may_be_meter(UsbDevice("/dev/hidraw0", ids)) is may
