"""One meter, opened as the meter service opens it, with room for something between it and its transport."""

from collections.abc import Callable, Sequence

from clock import ServiceClock
from meter.protocols.fnirsi import SAMPLE_PERIOD_NS, Family
from meter.readings import Source, Stream
from meter.sources import fnirsi_ports, hwmon, tc66c
from meter.sources.fnirsi import FnirsiSource
from meter.sources.tc66c import Tc66cSource
from meter.sources.tc66c_ports import GivenTransport, Tc66Finder
from meter.transports import UsbTransport
from opjoule.meter.plugged import Plugged

Open = Callable[[], UsbTransport]
Wrap = Callable[[UsbTransport], UsbTransport]
_NOBODY = "none"
"""What stands for the DUT: nothing is published."""


def period_ns(plugged: Plugged) -> int:
    """How long one sample of such a meter takes."""
    if plugged.source == "fnirsi":
        return SAMPLE_PERIOD_NS
    if plugged.source == "tc66c":
        return tc66c.PERIOD_NS
    return hwmon.period_ns_of(hwmon.find(plugged.device.node))


def opener_at(plugged: Plugged) -> Open:
    """Opens what is at its node now."""
    if plugged.source == "tc66c":
        return Tc66Finder(plugged.device.node).open
    return fnirsi_ports.opener(None, plugged.device.node)


def opener_of(plugged: Plugged, others: Sequence[Plugged]) -> Open:
    """Opens this meter wherever it is plugged in then: by serial number where no other has it, else by port or node."""
    device = plugged.device
    serial = None if device.serial in [each.device.serial for each in others] else device.serial
    if plugged.source == "tc66c":
        return Tc66Finder(None, serial).open if serial else Tc66Finder(device.node).open
    if serial is not None and plugged.is_a == "meter":
        return fnirsi_ports.opener(serial)
    return fnirsi_ports.opener(None, device.port or device.node)


def source_of(
    plugged: Plugged,
    open_transport: Open,
    wrap: Wrap = lambda transport: transport,
    family: Family | None = None,
    keep_alive_s: float | None = None,
) -> Source:
    """Nothing is opened yet: its first `read` does that."""
    clock = ServiceClock()
    stream = Stream(
        site=_NOBODY,
        dut=_NOBODY,
        meter=plugged.source,
        meter_model=plugged.model,
        meter_kind="measured",
        timeline_id=clock.timeline_id,
        host_clock=clock.host_clock,
        period_ns=period_ns(plugged),
    )
    if plugged.source == "hwmon":
        return hwmon.HwmonSource(stream, plugged.device.node, clock)
    if plugged.source == "tc66c":
        given = GivenTransport(lambda: wrap(open_transport()), plugged.device.node)
        return Tc66cSource(stream, given, clock)
    return FnirsiSource(stream, lambda: wrap(open_transport()), clock, family=family, keep_alive_s=keep_alive_s)
