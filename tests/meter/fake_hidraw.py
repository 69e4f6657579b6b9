"""Fake hidraw nodes by umockdev, with simulated meters behind them, for programs that are started as children.

The kernel is not asked: a library that is loaded into the child shows it devices in a folder of ours (umockdev,
`Debian: umockdev, libumockdev0`). Reports pass a pseudo-terminal in raw mode.
"""

import ctypes
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pytest

from meter.devices.fnb58 import Fnb58
from meter.devices.port import serve

LIBRARY = "libumockdev.so.0"
PRELOAD = "libumockdev-preload.so.0"
FNB58_IDS = (0x2E3C, 0x5558)
_DESCRIPTION = """\
P: /devices/pci0000:00/0000:00:14.0/usb1/1-{port}
N: bus/usb/001/{usb:03}
E: DEVTYPE=usb_device
E: SUBSYSTEM=usb
E: DEVNAME=bus/usb/001/{usb:03}
A: idVendor={vendor:04x}\\n
A: idProduct={product:04x}\\n
A: manufacturer=FNIRSI\\n
A: product={name}\\n
A: serial={serial}\\n
A: bcdDevice=0200\\n

P: {interface}
E: DEVTYPE=usb_interface
E: SUBSYSTEM=usb
A: bInterfaceNumber=03\\n

P: {hid}
E: SUBSYSTEM=hid
E: HID_ID=0003:0000{vendor:04X}:0000{product:04X}
E: HID_NAME=FNIRSI {name}
E: HID_PHYS=usb-0000:00:14.0-{port}/input3
E: HID_UNIQ={serial}
H: report_descriptor=0600FF0901A101150026FF007508954009018102954009019102C0

P: {hid}/hidraw/hidraw{number}
N: hidraw{number}
L: device=../../../{hid_name}
E: SUBSYSTEM=hidraw
E: DEVNAME=hidraw{number}
E: MAJOR=245
E: MINOR={number}
"""
_IOCTL = "@DEV /dev/hidraw{number}\nHIDIOCGRDESCSIZE 0 1B000000\n"


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBRARY)
        ctypes.CDLL(PRELOAD)
    except OSError:
        pytest.skip("no umockdev library (Debian: umockdev and libumockdev0)")
    text, pointer = ctypes.c_char_p, ctypes.c_void_p
    for name, result, arguments in (
        ("new", pointer, []),
        ("get_root_dir", text, [pointer]),
        ("add_from_string", ctypes.c_int, [pointer, text, pointer]),
        ("load_ioctl", ctypes.c_int, [pointer, text, text, pointer]),
        ("get_dev_fd", ctypes.c_int, [pointer, text]),
        ("remove_device", None, [pointer, text]),
    ):
        function = getattr(library, f"umockdev_testbed_{name}")
        function.restype, function.argtypes = result, arguments
    library.g_object_unref.argtypes = [pointer]
    return library


class FakeHidraw:
    """A folder of devices. Give `environment` to the child."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = _library()
        self._bed = self._library.umockdev_testbed_new()
        root = self._library.umockdev_testbed_get_root_dir(self._bed).decode()
        self._root = Path(root)
        given = {"LD_PRELOAD": PRELOAD, "UMOCKDEV_DIR": root}
        self.environment = {**os.environ, **given}
        self.before = ("env", *(f"{name}={value}" for name, value in given.items()))
        """What to put before a command line instead."""
        self._plugs: dict[int, _Plug] = {}

    def __enter__(self) -> "FakeHidraw":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in [*self._plugs]:
            self.unplug(number)
        self._library.g_object_unref(self._bed)

    def plug_in(
        self,
        meter: Fnb58,
        number: int = 0,
        serial: str = "0001A0000000",
        ids: tuple[int, int] = FNB58_IDS,
        name: str = "USB Tester",
    ) -> str:
        """The node of a meter that begins to live now, e.g. `/dev/hidraw0`; each number once at a time."""
        port = number + 2
        hid_name = f"0003:{ids[0]:04X}:{ids[1]:04X}.{number + 1:04X}"
        interface = f"/devices/pci0000:00/0000:00:14.0/usb1/1-{port}/1-{port}:1.3"
        hid = f"{interface}/{hid_name}"
        values = {"port": port, "usb": port, "vendor": ids[0], "product": ids[1], "serial": serial, "name": name}
        described = _DESCRIPTION.format(number=number, interface=interface, hid=hid, hid_name=hid_name, **values)
        self._must(self._library.umockdev_testbed_add_from_string(self._bed, described.encode(), None))
        ioctl = self._folder / f"hidraw{number}.ioctl"
        ioctl.write_text(_IOCTL.format(number=number))
        self._must(self._library.umockdev_testbed_load_ioctl(self._bed, None, str(ioctl).encode(), None))
        node = f"/dev/hidraw{number}"
        meter_fd = self._library.umockdev_testbed_get_dev_fd(self._bed, node.encode())
        held_fd = os.open(
            (self._root / node[1:]).readlink(), os.O_RDWR | os.O_NOCTTY
        )  # else reading fails until it is opened
        self._plugs[number] = _Plug(f"/sys{hid}/hidraw/hidraw{number}", meter, meter_fd, held_fd)
        return node

    def unplug(self, number: int = 0) -> None:
        """The node vanishes, and whoever reads it gets an error."""
        plug = self._plugs.pop(number)
        plug.pull()
        self._library.umockdev_testbed_remove_device(self._bed, plug.syspath.encode())

    def _must(self, succeeded: int) -> None:
        assert succeeded, "umockdev refuses the device"


class _Plug:
    """A meter at its end of the pseudo-terminal."""

    def __init__(self, syspath: str, meter: Fnb58, meter_fd: int, held_fd: int) -> None:
        self.syspath = syspath
        self._fds = (meter_fd, held_fd)
        self._stop = threading.Event()
        meter.plug_in(time.monotonic_ns())
        self._thread = threading.Thread(target=serve, args=(meter, meter_fd, self._stop.is_set), daemon=True)
        self._thread.start()

    def pull(self) -> None:
        """End the thread and close both sides."""
        self._stop.set()
        self._thread.join()
        for fd in self._fds:
            with suppress(OSError):
                os.close(fd)
