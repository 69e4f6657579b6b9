"""Recorded power through the byte protocol: measured by a simulated FNB58, read as from a real one."""

from collections.abc import Sequence
from itertools import dropwhile, islice

from clock import ServiceClock
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.lockstep import Lockstep
from meter.devices.power import replay
from meter.protocols.fnirsi import SAMPLES_PER_REPORT
from meter.readings import Reading, Stream
from meter.sources.fnirsi import FnirsiSource
from meter.sources.fnirsi_intake import AFTER_OPENING

_READ_S = 0.2
_MORE_REPORTS = 100
"""Read after the last value: a timeline may hold reports back."""


def play_back(values_w: Sequence[float], reports_per_s: float = 100.0) -> list[Reading]:
    """What the service reads of these values, the first of which must not be zero; as many readings as arrived.

    Zero watts go before them, of which the reports that are dropped after opening are made.
    """
    period_ns = round(1e9 / reports_per_s / SAMPLES_PER_REPORT)
    stream = Stream("lab", "board", "meter", "FNB58 (simulated)", "simulated", "playback", None, period_ns)
    device = Fnb58(replay(values_w, (AFTER_OPENING + 1) * SAMPLES_PER_REPORT), Setup(sample_period_ns=period_ns))
    lockstep = Lockstep(device)
    lockstep.plug_in()
    clock = ServiceClock(wall_minus_monotonic_ns=0, timeline_id=stream.timeline_id, boot_id=None)
    source = FnirsiSource(stream, lockstep.open, clock, family="B", pacing=lockstep.pacing)
    readings: list[Reading] = []
    while device.measured < len(values_w) + _MORE_REPORTS * SAMPLES_PER_REPORT:
        readings += source.read(_READ_S) or []
    source.close()
    lockstep.unplug()
    return list(islice(dropwhile(lambda reading: not reading.power_w, readings), len(values_w)))
