"""A meter that is not there: power computed from CPU time. Every figure that comes of it is SIMULATED.

It is a whole FNB58 (`devices/fnb58.py`) behind a socket, read through the same transport, protocol and timeline as a
real one. It knows the DUT only by what the kernel has accounted to a process: no messages, plans or events. Children
that end within a sample are accounted in steps of 10 ms (`ProcessCpuTime`): single samples are coarse, means right.
"""

import time

from clock import ServiceClock
from errors import SettingsError
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.port import Port
from meter.devices.power import CpuPower, Noise, Power, PowerModel
from meter.readings import Counts, MeterHealth, Reading, Stream
from meter.settings import MeterSettings
from meter.sources.fnirsi import FnirsiSource
from meter.sources.plan import Planned
from meter.transports.cpu_time import cpu_time_of

MODEL = "FNB58 (simulated)"


def plan(settings: MeterSettings, clock: ServiceClock) -> list[Planned]:
    """One meter that never ends. Raises SettingsError where its CPU time cannot be known."""
    if settings.dut is None or settings.meter is None:
        raise SettingsError("--source simulated needs --dut and --meter")
    stream = Stream(
        site=settings.site,
        dut=settings.dut,
        meter=settings.meter,
        meter_model=MODEL,
        meter_kind="simulated",
        timeline_id=clock.timeline_id,
        host_clock=clock.host_clock,
        period_ns=round(1e9 / settings.simulated_rate_hz),
    )
    power = _power(settings, stream.period_ns / 1e9)
    return [Planned(stream.dut, lambda: SimulatedSource(stream, power, clock), stream.meter, MODEL)]


class SimulatedSource:
    """One simulated FNB58, plugged in from the beginning, in a thread of its own."""

    def __init__(self, stream: Stream, power: Power, clock: ServiceClock) -> None:
        self.stream = stream
        self._port = Port(Fnb58(power, Setup(sample_period_ns=stream.period_ns)))
        self._port.plug_in()
        self._source = FnirsiSource(stream, self._port.open, clock, family="B")

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W since the last call, oldest first; empty after the time-out."""
        return self._source.read(timeout_s)

    @property
    def counts(self) -> Counts:
        """As of a real meter."""
        return self._source.counts

    @property
    def health(self) -> MeterHealth:
        """As of a real meter."""
        return self._source.health

    def close(self) -> None:
        """Unplug it first: there is no screen that could freeze."""
        self._port.unplug()
        self._source.close()


def _power(settings: MeterSettings, period_s: float) -> Power:
    model = PowerModel(settings.simulated_idle_w, settings.simulated_watts_per_cpu_s, settings.simulated_noise_w)
    noise = Noise(model.noise_w, period_s, settings.simulated_seed)
    return CpuPower(cpu_time_of(settings.simulated_pid), model, noise, time.monotonic_ns)
