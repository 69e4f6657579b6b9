"""An RDTech TC66 or TC66C on its serial port: asked for a reading as fast as it answers, ten times a second at most.

The power that counts is voltage times current of one reply. The time of a sample is the middle between request and
answer, and so off by at most half of what lies between them, evenly distributed. What the meter averages, and how often
it measures, is not published; a constant delay of it is part of the `power_latency_s` that the aggregator learns.
"""

import errno
import logging
from collections import Counter
from typing import Protocol

from clock import ServiceClock
from errors import FrameError, SettingsError
from meter.cadence import Cadence
from meter.protocols.tc66c import ENERGY_STEP_J, Tc66Reply
from meter.protocols.tc66c_dialogue import EnergyCounter, Tc66Dialogue, Tc66Sample
from meter.rates import Rates
from meter.readings import FRESH_NS, Counts, MeterHealth, Reading, Stream
from meter.sources.pacing import Pacing
from meter.sources.tc66c_ports import Tc66Finder
from meter.transports import ReportTransport

log = logging.getLogger(__name__)

MODEL = "TC66C"
"""For `Stream.meter_model`. Replies say `TC66` for both; they differ in Bluetooth only."""
PERIOD_NS = 100_000_000
"""For `Stream.period_ns`: ten readings a second, the most that anybody has shown."""
COUNTER_RESOLUTION_J = ENERGY_STEP_J
"""For `Stream.counter_resolution_j`: the counter knows whole mWh."""
_LEAST_PAUSE_NS = 1_000_000_000
"""Between attempts to open it; it doubles with every failure."""
_MOST_PAUSE_NS = 15_000_000_000
_MOST_PAUSE_OF_STRANGERS_NS = 600_000_000_000
"""Where no TC66 was ever seen: what is there may be something else, and must not be written to again and again."""
_MISSING = (errno.ENOENT, errno.ENODEV, errno.ENXIO)


class Finder(Protocol):
    """Finds the meter, wherever it is plugged in now."""

    node: str | None
    """Where it was opened last."""

    def open(self) -> ReportTransport:
        """Opens it. Raises OSError or SettingsError while it cannot."""
        ...

    def identity(self) -> object:
        """Another one as soon as another device is where the meter is looked for."""
        ...

    def is_wanted(self, serial: str) -> bool:
        """Whether a meter that gives itself this number is the right one."""
        ...


def open_tc66c(
    stream: Stream, clock: ServiceClock, path: str | None = None, serial: str | None = None
) -> "Tc66cSource":
    """The TC66 at a path, or with a serial number, or the only one plugged in; waited for while it is missing."""
    return Tc66cSource(stream, Tc66Finder(path, serial), clock)


class Tc66cSource:
    """One meter. It survives unplugging at any instant and finds the meter again under whatever name it returns."""

    def __init__(self, stream: Stream, finder: Finder, clock: ServiceClock, *, pacing: Pacing | None = None) -> None:
        self.stream = stream
        self._finder = finder
        self._clock = clock
        self._pacing = pacing or Pacing()
        self._transport: ReportTransport | None = None
        self._dialogue = Tc66Dialogue(0, stream.period_ns, Counter())
        self._rejected: Counter[str] = Counter()
        self._counter = EnergyCounter()
        self._cadence = Cadence(stream.period_ns)
        self._rates = Rates()
        self._last: Tc66Sample | None = None
        self._retry_ns = 0
        self._failed_at: object = None
        self._pause_ns = _LEAST_PAUSE_NS
        self._openings = 0
        self._detail = ""

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W since the last call; empty after the time-out. Looking for a missing meter may take 6 s more."""
        end_ns = self._pacing.monotonic_ns() + round(timeout_s * 1e9)
        while True:
            try:
                reading = self._step(end_ns)
            except (FrameError, OSError, SettingsError) as error:
                self._lose(error)
                reading = None
            if reading is not None:
                return [reading]
            if self._pacing.monotonic_ns() >= end_ns:
                return []

    @property
    def counts(self) -> Counts:
        """Replies that were not used, by reason, and samples that are missing."""
        return Counts(
            rejected=dict(self._rejected),
            lost_samples=self._cadence.lost_samples,
            gaps=self._cadence.gaps,
            counter_resets=self._counter.resets,
        )

    @property
    def health(self) -> MeterHealth:
        """How it is now; the temperature is what the meter shows, in Fahrenheit when it is set so."""
        reply = self._last.reply if self._last is not None else None
        is_fresh = self._last is not None and self._pacing.monotonic_ns() - self._last.answered_ns < FRESH_NS
        return MeterHealth(
            connected=self._transport is not None and is_fresh,
            detail=self._detail,
            node=self._finder.node,
            model=MODEL,
            serial=str(reply.serial) if reply else None,
            firmware=reply.firmware if reply else None,
            temperature_c=float(reply.temperature_c) if reply else None,
            rate_hz=self._rates.samples_hz,
            new_values_hz=self._rates.new_values_hz,
            reopened=max(0, self._openings - 1),
        )

    def close(self) -> None:
        """Give the port back. A TC66 that is not asked says nothing: there is nothing to stop."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _step(self, end_ns: int) -> Reading | None:
        """One request or one answer; returns at the end at the latest."""
        now_ns = self._pacing.monotonic_ns()
        if self._transport is None:
            if now_ns < self._retry_ns and self._finder.identity() == self._failed_at:
                self._pacing.sleep_until(min(end_ns, self._retry_ns))
                return None
            self._transport = self._finder.open()
            now_ns = self._pacing.monotonic_ns()
            self._dialogue = Tc66Dialogue(now_ns, self.stream.period_ns, self._rejected)
            self._openings += 1
        return self._exchange(self._transport, now_ns, end_ns)

    def _exchange(self, transport: ReportTransport, now_ns: int, end_ns: int) -> Reading | None:
        used_before = self._rejected.total()
        request = self._dialogue.request(now_ns)
        if request:
            transport.write(request)
        data = transport.read(max(0, min(end_ns, self._dialogue.wake_ns) - now_ns) / 1e9)
        sample = self._dialogue.hear(data, self._pacing.monotonic_ns()) if data else None
        if self._rejected.total() != used_before:
            self._cadence.disturb()
        return self._place(sample) if sample is not None else None

    def _place(self, sample: Tc66Sample) -> Reading:
        reply = sample.reply
        self._check_identity(reply)
        if sample.late_ns > self.stream.period_ns:
            self._cadence.disturb()
        self._cadence.add(sample.t_ns)
        self._rates.add(sample.t_ns, [(reply.voltage_v, reply.current_a)])
        self._last = sample
        self._detail, self._pause_ns = "", _LEAST_PAUSE_NS
        return Reading(
            t_ns=self._clock.at_ns(sample.t_ns),
            power_w=reply.power_w,
            voltage_v=reply.voltage_v,
            current_a=reply.current_a,
            energy_counter_j=self._counter.add(reply.energy_steps) * ENERGY_STEP_J,
        )

    def _check_identity(self, reply: Tc66Reply) -> None:
        """Another meter than the one that this stream began with would mix two meters in one series."""
        serial = str(reply.serial)
        if not self._finder.is_wanted(serial):
            raise FrameError(f"{self._finder.node} is TC66 {serial}, not the one that was asked for")
        if self._last is not None and self._last.reply.serial != reply.serial:
            raise FrameError(
                f"TC66 {serial} is plugged in where {self._last.reply.serial} was: if that is meant, restart the meter"
            )

    def _lose(self, error: Exception) -> None:
        """Close, and try again after a pause, or at once when something else is plugged in."""
        self.close()
        self._cadence.disturb()
        detail = str(error.strerror or error) if isinstance(error, OSError) else str(error)
        if detail != self._detail:
            log.warning("meter %s at %s: %s", self.stream.meter, self.stream.dut, detail)
        self._detail = detail
        self._failed_at = self._finder.identity()
        self._retry_ns = self._pacing.monotonic_ns() + min(self._pause_ns, self._longest_pause_ns(error))
        self._pause_ns = min(2 * self._pause_ns, _MOST_PAUSE_OF_STRANGERS_NS)

    def _longest_pause_ns(self, error: Exception) -> int:
        if isinstance(error, OSError):
            return _LEAST_PAUSE_NS if error.errno in _MISSING else _MOST_PAUSE_NS
        is_stranger = isinstance(error, FrameError) and self._last is None
        return _MOST_PAUSE_OF_STRANGERS_NS if is_stranger else _MOST_PAUSE_NS
