"""Which FNIRSI meter is meant, wherever it is plugged in now."""

import errno
from collections.abc import Callable, Sequence

from errors import SettingsError
from meter.protocols.fnirsi import BOOTLOADER, MODELS, VENDORS, Model, is_made_by_fnirsi
from meter.transports import UsbDevice
from meter.transports.enumerate import devices
from meter.transports.hidraw import HidTransport

ListDevices = Callable[[], Sequence[UsbDevice]]


def meters() -> list[UsbDevice]:
    """Everything plugged in that is a FNIRSI meter or may be one; never one that waits for new firmware."""
    return [each for each in devices(VENDORS) if may_be_meter(each)]


def may_be_meter(device: UsbDevice) -> bool:
    """By its ids. An unknown product of FNIRSI's own vendor id may be a new model."""
    return is_made_by_fnirsi(device.ids) and device.ids != BOOTLOADER


def model_of(device: UsbDevice) -> Model | None:
    """None for an unknown product."""
    return MODELS.get(device.ids) if device.ids else None


def find(serial: str | None = None, path: str | None = None, found: ListDevices = meters) -> UsbDevice:
    """The one meter with this serial number, or at this node or USB port (`1-1.4`); without both the only one.

    Raises OSError while it is not plugged in, SettingsError where the operator must say which one is meant.
    """
    fitting = [each for each in found() if _fits(each, serial, path)]
    if path is None:
        fitting = [each for each in fitting if model_of(each)] or fitting
    if not fitting:
        raise OSError(errno.ENODEV, _not_there(serial, path))
    if len(fitting) > 1:
        raise SettingsError(f"{len(fitting)} meters fit ({_listed(fitting)}): say which by serial number or USB port")
    (device,) = fitting
    if model_of(device) is None and path is None:
        raise SettingsError(f"{_listed(fitting)} is no model that is known: name its path to try it all the same")
    return device


def opener(serial: str | None = None, path: str | None = None) -> Callable[[], HidTransport]:
    """Finds and opens that meter anew each time: after a replug its node has another name."""
    return lambda: HidTransport(find(serial, path))


def _fits(device: UsbDevice, serial: str | None, path: str | None) -> bool:
    return (serial is None or device.serial == serial) and (path is None or path in (device.node, device.port))


def _not_there(serial: str | None, path: str | None) -> str:
    wanted = " ".join(part for part in (serial and f"with serial number {serial}", path and f"at {path}") if part)
    return f"no FNIRSI meter {wanted or 'is plugged in'}: data come only from its micro-USB port marked PC"


def _listed(meters_found: Sequence[UsbDevice]) -> str:
    return ", ".join(f"{each.node} port {each.port or '?'} serial {each.serial or 'none'}" for each in meters_found)
