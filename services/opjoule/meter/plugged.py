"""Which meters are plugged into this host. It lists; only where it is asked to does it speak to a serial port."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from errors import FrameError, SettingsError
from meter.config import Kind
from meter.protocols.fnirsi import BOOTLOADER, MODELS, VENDORS
from meter.sources.fnirsi_ports import may_be_meter
from meter.sources.pacing import Pacing
from meter.sources.tc66c import MODEL as TC66C
from meter.sources.tc66c_ports import ask_serial
from meter.transports import UsbDevice
from meter.transports.enumerate import devices
from meter.transports.hidraw import is_node
from meter.transports.hwmon import PowerSensor, power_sensors
from meter.transports.serial_port import SerialPort, is_fnirsi, may_be_asked, serial_ports

_BOOTLOADER = (
    "waits for new firmware (bootloader) and is never opened: plug it in again; where it comes back like this, its "
    "firmware has to be installed anew by the maker's program"
)
_SENSOR = "a power sensor of this host"
Is = Literal["meter", "maybe", "not"]
"""A meter that can be read; a port or model that may be one; one that cannot be read as it is."""


@dataclass(frozen=True, slots=True)
class Plugged:
    """One thing that is plugged in. `device.node` is what --node takes."""

    source: Kind
    model: str
    device: UsbDevice
    is_a: Is = "meter"
    remark: str = ""
    """What a person should know or do, in one line."""
    files: tuple[Path, ...] = ()
    """What must be opened; empty where the back end has no node."""
    sensor: PowerSensor | None = None
    """Of `hwmon`: which one, for it has several names."""

    @property
    def may_open(self) -> bool | None:
        """Whether this user may; None where only trying tells."""
        wanted = os.R_OK if self.source == "hwmon" else os.R_OK | os.W_OK
        return all(os.access(file, wanted) for file in self.files) if self.files else None

    @property
    def name(self) -> str:
        """`FNB58 at /dev/hidraw0`."""
        return f"{self.model} at {self.device.node}"

    @property
    def name_and_serial(self) -> str:
        """`FNB58 at /dev/hidraw0 serial A1`, or without where the kind of thing has no serial number."""
        return self.name if self.source == "hwmon" else f"{self.name} serial {self.device.serial or 'none'}"

    @property
    def is_unknown_model(self) -> bool:
        """A product of FNIRSI's that nobody has tried: nothing is sent to it unless its node is named."""
        return self.source == "fnirsi" and self.is_a == "maybe"

    def is_meant(self, node: str | None, serial: str | None) -> bool:
        """Whether these flags mean it; without both all is meant, but an unknown model only where `node` names it."""
        if serial not in (None, self.device.serial):
            return False
        if node is None:
            return not self.is_unknown_model
        return node in (self.device.node, self.device.port) or (self.sensor is not None and self.sensor.is_called(node))


@dataclass(frozen=True, slots=True)
class Host:
    """All that is plugged in, and what could not be looked for."""

    plugged: tuple[Plugged, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lists:
    """Where to look; tests bring their own."""

    hid: Callable[[], Sequence[UsbDevice]] = field(default=lambda: devices(VENDORS))
    serial: Callable[[], Sequence[UsbDevice]] = serial_ports
    sensors: Callable[[], Sequence[PowerSensor]] = power_sensors


def ask_none(port: UsbDevice) -> bool:
    """No port is sent anything."""
    return False


def look(lists: Lists | None = None, ask: Callable[[UsbDevice], bool] = ask_none) -> Host:
    """All meters. `ask`: which of the ports that may be a TC66C are sent `query`; one that is silent takes 6 s."""
    lists = lists or Lists()
    remarks: list[str] = []
    hid = _tried(lists.hid, remarks)
    ports = _tried(lists.serial, remarks)
    fnirsi = [_fnirsi(each) for each in hid if may_be_meter(each) or each.ids == BOOTLOADER]
    mute = [_mute(each) for each in ports if is_fnirsi(each) and not _has_hid(each, hid)]
    tc66 = [_tc66c(each, ask(each)) for each in ports if may_be_asked(each)]
    return Host((*fnirsi, *mute, *tc66, *map(_sensor, lists.sensors())), tuple(remarks))


def _tried(find: Callable[[], Sequence[UsbDevice]], remarks: list[str]) -> Sequence[UsbDevice]:
    """Without a library one kind of meter is not seen; the others are."""
    try:
        return find()
    except SettingsError as error:
        remarks.append(str(error))
        return ()


def _fnirsi(device: UsbDevice) -> Plugged:
    files = (Path(device.node),) if is_node(device.node) else ()
    if device.ids == BOOTLOADER:
        return Plugged("fnirsi", "FNB58", device, "not", _BOOTLOADER, files)
    model = MODELS.get(device.ids) if device.ids else None
    if model is None:
        remark = "no model that is known; it is tried where --node names it"
        return Plugged("fnirsi", f"unknown {device.product}".strip(), device, "maybe", remark, files)
    return Plugged("fnirsi", model.name, device, files=files)


def _mute(port: UsbDevice) -> Plugged:
    """Its serial port carries nothing (METERS.md 1.2)."""
    model = MODELS.get(port.ids) if port.ids else None
    remark = (
        _BOOTLOADER
        if port.ids == BOOTLOADER
        else "only its serial port is there, which carries no data; its HID interface is missing: plug it in again, "
        "directly and not through a hub; in a container or virtual machine pass the whole USB device on"
    )
    return Plugged("fnirsi", model.name if model else "FNIRSI meter", port, "not", remark)


def _has_hid(port: UsbDevice, hid: Sequence[UsbDevice]) -> bool:
    """By USB port: that of a serial port names the interface too, `1-1.4:1.1`. By ids where ports are not known."""
    where = (port.port or "").partition(":")[0]
    return any(where == each.port if where and each.port else port.ids == each.ids for each in hid)


def _tc66c(port: UsbDevice, ask: bool) -> Plugged:
    device = UsbDevice(port.node, port.ids, port.serial, port.product, (port.port or "").partition(":")[0] or None)
    files = (Path(port.node),) if os.name == "posix" else ()
    if not ask:
        return Plugged("tc66c", f"{TC66C}?", device, "maybe", "a serial port that may be one; not asked", files)
    try:
        serial = _asked(port)
    except FrameError as error:
        return Plugged("tc66c", f"not a {TC66C}", device, "not", f"{port.product or 'serial port'}: {error}", files)
    except OSError as error:
        return Plugged("tc66c", f"{TC66C}?", device, "maybe", error.strerror or str(error), files)
    return Plugged("tc66c", TC66C, UsbDevice(port.node, port.ids, serial, port.product, device.port), files=files)


def _asked(port: UsbDevice) -> str:
    transport = SerialPort(port)
    try:
        return ask_serial(transport, Pacing())
    finally:
        transport.close()


def _sensor(sensor: PowerSensor) -> Plugged:
    files = tuple(sensor.folder / name for name in sensor.files.names)
    return Plugged("hwmon", sensor.chip, UsbDevice(sensor.name), remark=_SENSOR, files=files, sensor=sensor)
