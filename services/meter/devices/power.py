"""What a simulated meter measures: power as whole steps of voltage and current, as its protocol says them. Pure."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

STEPS_PER_UNIT = 100_000
"""The FNIRSI protocol counts in 10 uV and 10 uA: fnirsi-usb-power-data-logger, checked on its log lines."""
STEPS_PER_W = STEPS_PER_UNIT**2
SUPPLY_V = 5.1
"""What a Raspberry Pi supply gives; invented for the simulation, as are all defaults of the power model."""
_LOWEST_V, _HIGHEST_V = 440_000, 560_000
"""Voltages of a USB supply, in steps, among which one is looked for that divides a recorded power."""
_MOST_A = 700_000
_CORRELATION_S = 0.1
"""Time constant of the noise: FNB58 recordings hold their values on a grid of 100 ms."""
_SHAPE = 4.0
"""Of the gamma distribution that each step of the noise is drawn from: skewness 2 / sqrt(4) = 1, to the right."""


class Measured(NamedTuple):
    """One sample: VBUS in steps of 10 uV, IBUS in steps of 10 uA."""

    voltage_steps: int
    current_steps: int


Power = Callable[[int], Measured]
"""The mean over the sample period that ends at this moment of the device's clock, in ns. Called in order."""


def at_voltage(power_w: float, voltage_v: float = SUPPLY_V) -> Measured:
    """The nearest power that a fixed voltage and whole current steps give, within V x 5 uA; never below zero."""
    voltage_steps = round(voltage_v * STEPS_PER_UNIT)
    current_steps = round(power_w * STEPS_PER_W / voltage_steps)
    return Measured(voltage_steps, min(max(current_steps, 0), _MOST_A))


def constant(power_w: float) -> Power:
    """Always the same."""
    measured = at_voltage(power_w)
    return lambda _t_ns: measured


def held(power: Power, samples: int) -> Power:
    """Each value for so many samples: a meter that says more often than it measures."""
    count, now = 0, Measured(0, 0)

    def hold(t_ns: int) -> Measured:
        nonlocal count, now
        if count % samples == 0:
            now = power(t_ns)
        count += 1
        return now

    return hold


def replay(values_w: Sequence[float], lead_in_samples: int = 0) -> Power:
    """Recorded values, one per sample, bit-exact; zero watts before them for a while, and after them for ever."""
    nothing = Measured(round(SUPPLY_V * STEPS_PER_UNIT), 0)
    samples = chain([nothing] * lead_in_samples, exact_steps(values_w))
    return lambda _t_ns: next(samples, nothing)


def exact_steps(values_w: Sequence[float]) -> Iterator[Measured]:
    """Voltages and currents whose product is each value at a resolution of 1e-10 W.

    Recorded powers are such products: every value in 371 files of an FNB58 is a multiple of 1e-10 W. The voltage is the
    divisor next to that of the sample before. A power without
    one comes as near as the last voltage allows, within 28 uW.
    """
    voltage_steps = round(SUPPLY_V * STEPS_PER_UNIT)
    for value_w in values_w:
        product = round(value_w * STEPS_PER_W)
        found = _divisor_near(product, voltage_steps)
        if found is None:
            yield at_voltage(value_w, voltage_steps / STEPS_PER_UNIT)
        else:
            voltage_steps = found
            yield Measured(voltage_steps, product // voltage_steps)


def _divisor_near(product: int, voltage_steps: int) -> int | None:
    if product <= 0:
        return voltage_steps if product == 0 else None
    for off in range(_HIGHEST_V - _LOWEST_V):
        for candidate in (voltage_steps - off, voltage_steps + off):
            if product % candidate == 0 and _LOWEST_V <= candidate <= _HIGHEST_V and product <= candidate * _MOST_A:
                return candidate
    return None


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


class CpuPower:
    """Power from CPU time, which is read when a sample is due and taken to grow evenly from one reading to the next.

    So a sample that is asked for late covers its own period and no other, and no CPU time is counted twice or lost.
    """

    def __init__(
        self, cpu_time_ns: Callable[[], int], model: PowerModel, noise: Noise, monotonic_ns: Callable[[], int]
    ) -> None:
        self._cpu_time_ns = cpu_time_ns
        self._model = model
        self._noise = noise
        self._monotonic_ns = monotonic_ns
        self._before = self._read = (monotonic_ns(), cpu_time_ns())
        self._last: tuple[int, float] = self._read

    def __call__(self, t_ns: int) -> Measured:
        """The mean since the last call."""
        if t_ns > self._read[0]:
            self._before, self._read = self._read, (self._monotonic_ns(), self._cpu_time_ns())
        last_ns, last_cpu_ns = self._last
        if t_ns > last_ns:
            self._last = (t_ns, self._cpu_at(t_ns))
        load = (self._last[1] - last_cpu_ns) / max(self._last[0] - last_ns, 1)
        return at_voltage(self._model.idle_w + self._model.watts_per_cpu_s * load + self._noise.next_w())

    def _cpu_at(self, t_ns: int) -> float:
        (before_ns, before_cpu_ns), (read_ns, read_cpu_ns) = self._before, self._read
        share = (t_ns - before_ns) / max(read_ns - before_ns, 1)
        return before_cpu_ns + (read_cpu_ns - before_cpu_ns) * min(max(share, 0.0), 1.0)
