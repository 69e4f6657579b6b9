"""A serial port, by pyserial: bytes as they come. Finds ports, and says which must never be opened."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from errors import SettingsError
from meter.protocols.fnirsi import is_made_by_fnirsi
from meter.transports import UsbDevice

if sys.platform != "win32":
    import termios

    _TERMINAL_ERRORS: tuple[type[Exception], ...] = (OSError, termios.error)
else:
    _TERMINAL_ERRORS = (OSError,)

BAUD = 115_200
"""What libsigrok sets for a TC66; its USB port is no real line and takes any."""
_WRITE_TIMEOUT_S = 1.0
_MOST_BYTES = 4096

ListPorts = Callable[[], list[UsbDevice]]


def serial_ports() -> list[UsbDevice]:
    """Every serial port of this host, by path; those that are not on USB have no ids. SettingsError: no pyserial."""
    _require_pyserial()
    from serial.tools import list_ports  # noqa: PLC0415

    ports = [
        UsbDevice(
            node=port.device,
            ids=None if port.vid is None or port.pid is None else (port.vid, port.pid),
            serial=port.serial_number,
            product=port.description or "",
            port=port.location,
        )
        for port in list_ports.comports()
    ]
    return sorted(ports, key=lambda port: port.node)


def is_fnirsi(port: UsbDevice) -> bool:
    """Whether it is the serial port of a FNIRSI meter: it carries nothing and may not come back after an opening."""
    return is_made_by_fnirsi(port.ids)


def may_be_asked(port: UsbDevice) -> bool:
    """Whether it may be sent a word to find out what it is: a USB port of the class of a TC66, no FNIRSI meter."""
    is_cdc = Path(port.node).name.startswith("ttyACM") or sys.platform != "linux"
    return port.ids is not None and is_cdc and not is_fnirsi(port)


def node_identity(path: str) -> tuple[int, int] | None:
    """Another value after each plugging in, though the path is the same; None where nothing is."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


class SerialPort:
    """An open port, for this process alone. Every method raises OSError when the device is gone."""

    def __init__(self, device: UsbDevice) -> None:
        """Opens it; raises OSError whose text says who must act, and SettingsError without pyserial."""
        _require_pyserial()
        import serial  # noqa: PLC0415

        self.device = device
        path = device.node
        try:
            self._port = serial.Serial(
                path, BAUD, timeout=0, write_timeout=_WRITE_TIMEOUT_S, exclusive=True if os.name == "posix" else None
            )
        except _TERMINAL_ERRORS as error:
            raise OSError(_number(error), _why_not_opened(path, error)) from None

    def read(self, timeout_s: float) -> bytes:
        """What has come, as soon as anything has; empty after the time-out."""
        try:
            self._port.timeout = max(0.0, timeout_s)
            first = self._port.read(1)
            return first + self._port.read(min(self._port.in_waiting, _MOST_BYTES)) if first else b""
        except _TERMINAL_ERRORS as error:  # of a port that is gone pyserial says "reports readiness to read but ..."
            raise OSError(_number(error), f"{self.device.node} is gone: it was unplugged, or others read it") from None

    def write(self, report: bytes) -> None:
        """Send these bytes."""
        try:
            self._port.write(report)
        except _TERMINAL_ERRORS as error:
            raise OSError(_number(error), f"{self.device.node} takes nothing any more: {error}") from None

    def close(self) -> None:
        """Give the port back; may be called again."""
        self._port.close()


def _require_pyserial() -> None:
    try:
        import serial  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise SettingsError("a serial meter needs pyserial: pip install 'opjoule[meter]'") from None


def _number(error: Exception) -> int:
    number = getattr(error, "errno", None)
    return number if isinstance(number, int) else errno.EIO


def _why_not_opened(path: str, error: Exception) -> str:
    number = _number(error)
    if number in (errno.EACCES, errno.EPERM):
        return f"{path} may not be opened by this user: add it to the group of the port (ls -l {path})"
    if number in (errno.EAGAIN, errno.EBUSY):
        return f"{path} is in use by another program"
    if number in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        return f"{path} is not there: nothing is plugged in, or it has another name now"
    return f"{path} cannot be opened: {error}"
