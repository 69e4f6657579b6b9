"""A meter that is not there: power computed from CPU time. Every figure that comes of it is SIMULATED.

It knows the DUT only by what the kernel has accounted to a process: no messages, plans or events. Sample k covers the
CPU time between its own time and that of sample k - 1; a late sample carries its true, late time; a missed one is a
gap. Children that end within a sample are accounted in steps of 10 ms (`ProcessCpuTime`): single samples are coarse,
means right.
"""

import math
import random
from dataclasses import dataclass

from clock import ServiceClock
from errors import SettingsError
from meter.readings import Reading, Stream
from meter.settings import MeterSettings
from meter.sources.pacing import Pacing
from meter.sources.plan import Planned
from meter.transports.cpu_time import CpuTime, cpu_time_of

VOLTAGE_V = 5.1
"""What a Raspberry Pi supply gives; invented for the simulation, as are all defaults of the power model."""
_CORRELATION_S = 0.1
"""Time constant of the noise: FNB58 recordings hold their values on a grid of 100 ms."""
_SHAPE = 4.0
"""Of the gamma distribution that each step of the noise is drawn from: skewness 2 / sqrt(4) = 1, to the right."""


def plan(settings: MeterSettings, clock: ServiceClock) -> list[Planned]:
    """One meter that never ends. Raises SettingsError where its CPU time cannot be known."""
    if settings.dut is None or settings.meter is None:
        raise SettingsError("--source simulated needs --dut and --meter")
    cpu_time_ns = cpu_time_of(settings.simulated_pid)
    model = PowerModel(settings.simulated_idle_w, settings.simulated_watts_per_cpu_s, settings.simulated_noise_w)
    stream = Stream(
        site=settings.site,
        dut=settings.dut,
        meter=settings.meter,
        meter_model="simulated",
        meter_kind="simulated",
        timeline_id=clock.timeline_id,
        host_clock=clock.host_clock,
        period_ns=round(1e9 / settings.simulated_rate_hz),
    )
    return [Planned(stream.dut, lambda: SimulatedSource(stream, cpu_time_ns, model, settings.simulated_seed, clock))]


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Power is `idle_w` + `watts_per_cpu_s` x CPU seconds per second + noise of standard deviation `noise_w`."""

    idle_w: float
    watts_per_cpu_s: float
    noise_w: float


class Noise:
    """Skewed, correlated noise of mean zero: a first-order autoregression of centred gamma steps, from a seed."""

    def __init__(self, noise_w: float, period_s: float, seed: int) -> None:
        self._random = random.Random(seed)
        self._memory = math.exp(-period_s / _CORRELATION_S)
        self._step_w = noise_w * math.sqrt(1 - self._memory**2)
        self._now_w = 0.0

    def next_w(self) -> float:
        """The noise of the next sample, in W."""
        step = (self._random.gammavariate(_SHAPE, 1.0) - _SHAPE) / math.sqrt(_SHAPE)  # mean 0, variance 1
        self._now_w = self._memory * self._now_w + self._step_w * step
        return self._now_w


class SimulatedSource:
    """Samples on a fixed grid of the monotonic clock, without drift."""

    def __init__(
        self,
        stream: Stream,
        cpu_time_ns: CpuTime,
        model: PowerModel,
        seed: int,
        clock: ServiceClock,
        pacing: Pacing | None = None,
    ) -> None:
        self.stream = stream
        self._cpu_time_ns = cpu_time_ns
        self._model = model
        self._noise = Noise(model.noise_w, stream.period_ns / 1e9, seed)
        self._clock = clock
        self._pacing = pacing or Pacing()
        self._origin_ns = self._last_ns = self._pacing.monotonic_ns()
        self._last_cpu_ns = cpu_time_ns()
        self._next_ns = self._origin_ns + stream.period_ns

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W, one reading per period until the time-out, oldest first."""
        end_ns = self._pacing.monotonic_ns() + round(timeout_s * 1e9)
        readings: list[Reading] = []
        while self._next_ns <= end_ns:
            self._pacing.sleep_until(self._next_ns)
            readings.append(self._sample())
        if not readings:
            self._pacing.sleep_until(end_ns)
        return readings

    def _sample(self) -> Reading:
        now_ns = self._pacing.monotonic_ns()
        cpu_ns = self._cpu_time_ns()
        load = (cpu_ns - self._last_cpu_ns) / (now_ns - self._last_ns)
        self._last_ns, self._last_cpu_ns = now_ns, cpu_ns
        self._next_ns = self._slot_after(now_ns)
        power_w = self._model.idle_w + self._model.watts_per_cpu_s * load + self._noise.next_w()
        return Reading(self._clock.at_ns(now_ns), power_w, VOLTAGE_V, power_w / VOLTAGE_V)

    def _slot_after(self, now_ns: int) -> int:
        """The slot after the one nearest to now: two samples are never closer than half a period."""
        period_ns = self.stream.period_ns
        return self._origin_ns + (round((now_ns - self._origin_ns) / period_ns) + 1) * period_ns
