"""Meters that are plugged in and that no setting names."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from errors import SettingsError
from meter.config import MeterEntry
from meter.strangers import StrangerWatch, strangers
from meter.transports import UsbDevice
from meter.transports.enumerate import devices
from meter.transports.hidraw import GLOBAL_ERROR, HidTransport
from tests.meter.rig import wait_until

FIRST = UsbDevice("/dev/hidraw0", (0x2E3C, 0x5558), "A", "USB Tester", "1-1.4")
SECOND = UsbDevice("/dev/hidraw1", (0x2E3C, 0x5558), "B", "USB Tester", "1-1.3")
NEW_MODEL = UsbDevice("/dev/hidraw2", (0x2E3C, 0x9999), None, "USB Tester 2", None)


def entry(**fields: str) -> MeterEntry:
    return MeterEntry.model_validate({"source": "fnirsi", "dut": "pi4", "meter": "m1", **fields})


@pytest.mark.parametrize(
    ("entries", "in_use", "expected"),
    [
        ([entry(serial="A")], [], [SECOND]),
        ([entry(node="1-1.3")], [], [FIRST]),
        ([entry(node="/dev/hidraw0"), entry(serial="B")], [], []),
        ([entry()], ["/dev/hidraw1"], [FIRST]),
        ([entry()], [], []),
        ([entry(source="tc66c")], [], [FIRST, SECOND]),
    ],
    ids=["by serial", "by port", "all named", "the only one found", "the only one not found yet", "another kind"],
)
def test_a_meter_is_strange_when_no_entry_means_it(
    entries: Sequence[MeterEntry], in_use: Sequence[str], expected: Sequence[UsbDevice]
) -> None:
    assert strangers([FIRST, SECOND], entries, in_use) == expected


def test_each_stranger_is_one_line_in_the_log_and_a_remark_as_long_as_it_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugged_in = [FIRST, SECOND, NEW_MODEL]
    watch = StrangerWatch([entry(serial="A")], lambda: plugged_in)
    watch.look()
    watch.look()
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "FNB58 at /dev/hidraw1, USB port 1-1.3, serial B",
        "unknown model USB Tester 2 at /dev/hidraw2, USB port unknown, serial none",
    ]
    assert watch.remark.startswith("not in the settings: FNB58 at /dev/hidraw1")
    del plugged_in[1:]
    watch.look()
    assert watch.remark == ""


def test_where_devices_cannot_be_listed_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def fail() -> list[UsbDevice]:
        raise SettingsError("no module reads USB HID devices")

    watch = StrangerWatch([entry()], fail, look_s=0.001)
    watch.start()
    wait_until(lambda: "no module reads USB HID devices" in caplog.text)
    watch.stop()
    assert watch.remark == ""
    assert {record.levelname for record in caplog.records} == {"DEBUG"}


class WatchfulModule:
    """Stands in for hidapi, and for its handle; notes whether it was called by one thread at a time."""

    def __init__(self) -> None:
        self.was_locked: list[bool] = []

    def device(self) -> "WatchfulModule":
        return self

    def enumerate(self, vendor_id: int = 0, product_id: int = 0) -> list[dict[str, Any]]:
        self.was_locked.append(GLOBAL_ERROR.locked())
        return []

    def open_path(self, path: bytes) -> None:
        self.was_locked.append(GLOBAL_ERROR.locked())

    def set_nonblocking(self, flag: int) -> int:
        return 0

    def read(self, max_length: int, timeout_ms: int = 0) -> list[int]:
        return []

    def write(self, buffer: bytes) -> int:
        return len(buffer)

    def close(self) -> None:
        """Nothing is held."""


def test_devices_are_listed_and_opened_by_one_thread_at_a_time() -> None:
    module = WatchfulModule()
    devices((0x2E3C,), module)
    HidTransport(UsbDevice("1-1.4:1.3"), module).close()
    assert module.was_locked == [True, True]
    assert not GLOBAL_ERROR.locked()
