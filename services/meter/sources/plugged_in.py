"""The meters that are plugged into this host, as its operator names them: by flags, or in a file."""

import functools
from collections.abc import Callable

from clock import ServiceClock
from meter.config import Kind, MeterEntry
from meter.protocols.fnirsi import SAMPLE_PERIOD_NS
from meter.readings import Source, Stream
from meter.settings import MeterSettings
from meter.sources import fnirsi_ports, hwmon, tc66c
from meter.sources.fnirsi import FnirsiSource
from meter.sources.plan import Planned
from meter.transports.hwmon import power_sensors


def plan(settings: MeterSettings, clock: ServiceClock) -> list[Planned]:
    """Every meter, whether it is there or not: one that is missing is waited for. Raises SettingsError."""
    return [
        Planned(
            entry.dut,
            functools.partial(_OPENERS[entry.source], entry, settings.site, clock),
            entry.meter,
            entry.model or "unknown",
            entry.role,
        )
        for entry in settings.entries()
    ]


def _open_fnirsi(entry: MeterEntry, site: str, clock: ServiceClock) -> Source:
    """Its model is known once it is there, and from then on only this very meter will do."""
    device = fnirsi_ports.find(entry.serial, entry.node)
    model = fnirsi_ports.model_of(device)
    name = entry.model or (model.name if model else "unknown")
    return FnirsiSource(
        _stream(entry, site, clock, name, SAMPLE_PERIOD_NS),
        fnirsi_ports.opener(entry.serial or device.serial, entry.node),
        clock,
        family=entry.family,
        keep_alive_s=entry.keep_alive_s,
    )


def _open_tc66c(entry: MeterEntry, site: str, clock: ServiceClock) -> Source:
    stream = _stream(entry, site, clock, entry.model or tc66c.MODEL, tc66c.PERIOD_NS, tc66c.COUNTER_RESOLUTION_J)
    return tc66c.open_tc66c(stream, clock, entry.node, entry.serial)


def _open_hwmon(entry: MeterEntry, site: str, clock: ServiceClock) -> Source:
    sensor = hwmon.choose(power_sensors(), entry.node or "")
    stream = _stream(entry, site, clock, entry.model or sensor.chip, hwmon.period_ns_of(sensor))
    return hwmon.HwmonSource(stream, sensor.name, clock)


_OPENERS: dict[Kind, Callable[[MeterEntry, str, ServiceClock], Source]] = {
    "fnirsi": _open_fnirsi,
    "hwmon": _open_hwmon,
    "tc66c": _open_tc66c,
}


def _stream(
    entry: MeterEntry,
    site: str,
    clock: ServiceClock,
    model: str,
    period_ns: int,
    counter_resolution_j: float | None = None,
) -> Stream:
    return Stream(
        site=site,
        dut=entry.dut,
        meter=entry.meter,
        meter_model=model,
        meter_kind="measured",
        timeline_id=clock.timeline_id,
        host_clock=clock.host_clock,
        period_ns=period_ns,
        counter_resolution_j=counter_resolution_j,
    )
