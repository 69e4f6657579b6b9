"""The sources by name. A new one: copy `_blueprint.py`, add a line to SOURCES and to `MeterSettings.source`."""

from collections.abc import Callable

from clock import ServiceClock
from meter.settings import MeterSettings
from meter.sources import plugged_in, recording, simulated
from meter.sources.plan import Planned

SOURCES: dict[str, Callable[[MeterSettings, ServiceClock], list[Planned]]] = {
    "auto": plugged_in.plan,
    "fnirsi": plugged_in.plan,
    "hwmon": plugged_in.plan,
    "recording": recording.plan,
    "simulated": simulated.plan,
    "tc66c": plugged_in.plan,
}
"""What each source will play, in order; meters at once. Planning raises SettingsError; for opening see `Planned`."""
