"""A power sensor of Linux's hardware monitoring, such as an INA219, INA226 or INA3221 on a board, or one of a supply.

The kernel does not say when a chip measured: a sample has the time in the middle of its reading, and shows what the
chip averaged over its last measurement. How many new values really come is measured (`health.new_values_hz`); a chip
that is read more often than it measures repeats itself.
"""

import errno
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from clock import ServiceClock
from errors import FrameError, SettingsError
from meter.cadence import Cadence
from meter.protocols.hwmon import decode
from meter.ranges import SENSOR
from meter.rates import Rates
from meter.readings import FRESH_NS, Counts, MeterHealth, Reading, Stream
from meter.sources.pacing import Pacing
from meter.transports.hwmon import OpenSensor, PowerSensor, power_sensors

log = logging.getLogger(__name__)

LEAST_PERIOD_NS, MOST_PERIOD_NS = 10_000_000, 100_000_000
_PAUSE_NS = 1_000_000_000
"""Between attempts to find it."""
_MOST_FAILURES = 10
"""Failed readings in a row; then it is looked for anew."""
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO)

ListSensors = Callable[[], list[PowerSensor]]


def choose(sensors: list[PowerSensor], name: str) -> PowerSensor:
    """The sensor of this name, chip, bus device or label. Raises OSError: there is none; SettingsError: several."""
    chosen = [sensor for sensor in sensors if sensor.is_called(name)]
    if len(chosen) > 1:
        raise SettingsError(f"{name} may be one of {_names(chosen)}: name one of them")
    if not chosen:
        raise OSError(errno.ENODEV, f"no power sensor is called {name}; there are: {_names(sensors) or 'none'}")
    return chosen[0]


def find(name: str) -> PowerSensor:
    """The sensor of this name on this host, for its model (`chip`) and period. Raises as `choose`."""
    return choose(power_sensors(), name)


def period_ns_of(sensor: PowerSensor) -> int:
    """How often to read it: as often as its driver says that it measures, else ten times a second."""
    stated_ns = MOST_PERIOD_NS if sensor.update_s is None else round(sensor.update_s * 1e9)
    return min(max(stated_ns, LEAST_PERIOD_NS), MOST_PERIOD_NS)


class HwmonSource:
    """One sensor, read on a grid of `stream.period_ns`; it is waited for while it is missing."""

    def __init__(
        self,
        stream: Stream,
        name: str,
        clock: ServiceClock,
        *,
        list_sensors: ListSensors = power_sensors,
        pacing: Pacing | None = None,
    ) -> None:
        self.stream = replace(stream, ranges=SENSOR)
        self._name = name
        self._clock = clock
        self._list_sensors = list_sensors
        self._pacing = pacing or Pacing()
        self._open: OpenSensor | None = None
        self._next_ns = self._pacing.monotonic_ns()
        self._last_ns: int | None = None
        self._rejected: Counter[str] = Counter()
        self._cadence = Cadence(stream.period_ns)
        self._rates = Rates()
        self._openings = 0
        self._failures = 0
        self._detail = ""

    def read(self, timeout_s: float) -> list[Reading] | None:
        """Power in W, one reading per period until the time-out, oldest first."""
        end_ns = self._pacing.monotonic_ns() + round(timeout_s * 1e9)
        readings: list[Reading] = []
        while self._next_ns <= end_ns:
            self._pacing.sleep_until(self._next_ns)
            try:
                readings.append(self._sample(self._open or self._find()))
            except (FrameError, OSError, SettingsError) as error:
                self._fail(error)
        if not readings:
            self._pacing.sleep_until(end_ns)
        return readings

    @property
    def counts(self) -> Counts:
        """Failed readings by reason, and samples that are missing."""
        return Counts(rejected=dict(self._rejected), lost_samples=self._cadence.lost_samples, gaps=self._cadence.gaps)

    @property
    def health(self) -> MeterHealth:
        """How it is now, with the rate at which new values really come."""
        sensor = self._open.sensor if self._open is not None else None
        is_fresh = self._last_ns is not None and self._pacing.monotonic_ns() - self._last_ns < FRESH_NS
        return MeterHealth(
            connected=sensor is not None and is_fresh,
            detail=self._detail,
            node=sensor.name if sensor is not None else None,
            model=sensor.chip if sensor is not None else None,
            rate_hz=self._rates.samples_hz,
            new_values_hz=self._rates.new_values_hz,
            reopened=max(0, self._openings - 1),
        )

    def close(self) -> None:
        """Give the files back."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _find(self) -> OpenSensor:
        self._open = OpenSensor(choose(self._list_sensors(), self._name))
        self._openings += 1
        return self._open

    def _sample(self, opened: OpenSensor) -> Reading:
        before_ns = self._pacing.monotonic_ns()
        power_w, voltage_v, current_a = decode(opened.sensor.files, opened.read())
        t_ns = (before_ns + self._pacing.monotonic_ns()) // 2
        self._step_on(before_ns)
        self._cadence.add(t_ns)
        self._rates.add(t_ns, [(power_w, voltage_v, current_a)])
        self._last_ns = t_ns
        self._failures, self._detail = 0, ""
        return Reading(self._clock.at_ns(t_ns), power_w, voltage_v, current_a)

    def _step_on(self, now_ns: int) -> None:
        """To the next slot; slots that have passed already are missed."""
        missed = (now_ns - self._next_ns) // self.stream.period_ns
        if missed > 0:
            self._cadence.disturb()
        self._next_ns += (missed + 1) * self.stream.period_ns

    def _fail(self, error: Exception) -> None:
        """A reading that failed costs itself; a sensor that has gone, or fails for long, is looked for anew."""
        self._cadence.disturb()
        now_ns = self._pacing.monotonic_ns()
        is_gone = self._open is None or (isinstance(error, OSError) and error.errno in _GONE)
        if not is_gone:
            self._rejected[str(error).partition(":")[0] if isinstance(error, FrameError) else "read_error"] += 1
            self._failures += 1
        if is_gone or self._failures >= _MOST_FAILURES:
            self._lose(error, now_ns)
        else:
            self._step_on(now_ns)

    def _lose(self, error: Exception, now_ns: int) -> None:
        self.close()
        self._failures = 0
        self._next_ns = now_ns + _PAUSE_NS
        detail = str(error.strerror or error) if isinstance(error, OSError) else str(error)
        if detail != self._detail:
            log.warning("meter %s at %s: %s", self.stream.meter, self.stream.dut, detail)
        self._detail = detail


def _names(sensors: list[PowerSensor]) -> str:
    return ", ".join(sensor.name for sensor in sensors)
