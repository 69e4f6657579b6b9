"""The sources by name. A new one: copy `_blueprint.py`, add a line to SOURCES and to `MeterSettings.source`."""

from collections.abc import Callable

from clock import ServiceClock
from meter.settings import MeterSettings
from meter.sources import recording, simulated
from meter.sources.plan import Planned

SOURCES: dict[str, Callable[[MeterSettings, ServiceClock], list[Planned]]] = {
    "recording": recording.plan,
    "simulated": simulated.plan,
}
"""What each source will play, in order. Planning raises SettingsError; opening may raise ContractError."""
