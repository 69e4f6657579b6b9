"""Reports by the `hidapi` package: its `hidraw` module, else `hid`, which is libusb on Linux, native elsewhere."""

import errno
import importlib
import os
import sys
import threading
from pathlib import Path
from typing import Any, Protocol, cast

from errors import SettingsError
from meter.transports import UsbDevice
from meter.transports.descriptor import REPORT_ID
from meter.transports.rights import hid_rights_needed

_INSTALL = "install the extra that reads meters: pip install 'opjoule[meter]'"
_MOST_BYTES = 64
GLOBAL_ERROR = threading.Lock()
"""Held while devices are listed or opened: hidapi 0.15 keeps the last error of these in one place, and two threads at
once free it twice, which ends the process."""


class HidHandle(Protocol):
    """An open device of the package `hidapi` (cython-hidapi 0.15)."""

    def open_path(self, path: bytes) -> None:
        """Raises OSError without an error number."""

    def set_nonblocking(self, flag: int) -> int:
        """Whether a read without time-out returns at once."""

    def read(self, max_length: int, timeout_ms: int = 0) -> list[int]:
        """Empty after the time-out. Raises OSError when the device is gone, ValueError when not open."""

    def write(self, buffer: bytes) -> int:
        """-1 where it failed. Raises ValueError when not open."""

    def close(self) -> None:
        """Never fails."""


class HidModule(Protocol):
    """One of the two modules of the package `hidapi`."""

    def device(self) -> HidHandle:
        """A handle, not yet open."""

    def enumerate(self, vendor_id: int = 0, product_id: int = 0) -> list[dict[str, Any]]:
        """One entry per usage of each HID interface: one path may come several times."""


def hid_module() -> HidModule:
    """The hidraw back end where there is one. Raises SettingsError that says what to install."""
    for name in ("hidraw", "hid"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(module, "device"):
            return cast(HidModule, module)
        raise SettingsError(
            f"the installed package 'hid' is not 'hidapi', though it has its name: uninstall it, and {_INSTALL}"
        )
    raise SettingsError(f"no module reads USB HID devices: {_INSTALL}")


class HidTransport:
    """One opened device. On Linux a lock on its node keeps a second program of ours out."""

    def __init__(self, device: UsbDevice, module: HidModule | None = None) -> None:
        """Raises SettingsError where the operator must act (rights, another program), OSError where it is gone."""
        self.device = device
        self._handle = (module or hid_module()).device()
        self._lock = _lock(device.node)
        try:
            with GLOBAL_ERROR:
                self._handle.open_path(os.fsencode(device.node))
            self._handle.set_nonblocking(1)
        except OSError as error:
            self.close()
            raise _why_not_open(device.node, error) from None

    def read(self, timeout_s: float) -> bytes:
        """One report; empty after the time-out. Raises OSError when the device is gone."""
        timeout_ms = max(1, round(timeout_s * 1000)) if timeout_s > 0 else 0
        try:
            return bytes(self._handle.read(_MOST_BYTES, timeout_ms))
        except ValueError as error:
            raise OSError(errno.EBADF, str(error)) from None

    def write(self, report: bytes) -> None:
        """65 bytes go out, a report id of 0 first. Raises OSError."""
        try:
            written = self._handle.write(REPORT_ID + report)
        except ValueError as error:
            raise OSError(errno.EBADF, str(error)) from None
        if written < 0:  # the library does not raise
            raise OSError(errno.EIO, "the report could not be written")

    def close(self) -> None:
        """Close the device; never a USB reset, which makes FNIRSI meters lock up (baryluk, issue 7)."""
        self._handle.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def is_node(path: str) -> bool:
    """Whether a path of hidapi is a node of the hidraw back end; that of libusb looks like `1-1.4:1.3`."""
    return path.startswith("/dev/")


def _lock(node: str) -> int | None:
    """An advisory lock on the node; None where the back end has no node: libusb lets only one program in anyway."""
    if not is_node(node) or sys.platform == "win32":
        return None
    import fcntl  # noqa: PLC0415, there is none on Windows

    try:
        descriptor = os.open(Path(node), os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except PermissionError:
        raise SettingsError(hid_rights_needed(node)) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise SettingsError(
            f"another program reads the meter at {node}, or another [[meter]] entry means the same one: end one of them"
        ) from None
    return descriptor


def _why_not_open(node: str, error: OSError) -> SettingsError | OSError:
    """hidapi says only `open failed`: a node that is not there is gone; else rights are the likely reason."""
    if is_node(node):
        return OSError(errno.ENODEV, f"{node} could not be opened as a HID device ({error})")
    return SettingsError(hid_rights_needed(node))
