"""A power meter of the FNIRSI family (FNB58, FNB48, FNB48S/P, C1, FNAC-28): reports become placed readings."""

import contextlib
import math
from collections.abc import Callable

from clock import ServiceClock
from errors import SettingsError
from meter.protocols.fnirsi import MODELS, Command, Family, command
from meter.readings import CLOSE_MOST_S, Counts, MeterHealth, Reading, Stream
from meter.recovery import Recovery, Step
from meter.sources.fnirsi_intake import PlacedSample, ReportIntake
from meter.sources.pacing import Pacing
from meter.sources.telling import Telling
from meter.transports import ReportTransport, UsbDevice, UsbTransport

OpenTransport = Callable[[], UsbTransport]
"""Finds and opens the meter, wherever it is plugged in now. Raises OSError or SettingsError while it cannot."""

_AWAY_S = 0.12
"""Not read for so long (3 report periods) the host was away: a meter may have stopped, told by nobody to go on."""
_AWAY_ANSWERING_S = 0.06
"""The same where each report must be answered."""
_DRAIN_SILENCE_S = 0.02
_DRAIN_REPORTS = 200
_STOP_SILENCE_S = 1.0
_STOP_MOST_S = CLOSE_MOST_S
"""On stop the meter is read until it is silent: left with unread reports its screen may freeze (METERS.md 1.8)."""


class FnirsiSource:
    """One meter. It survives unplugging at any instant and finds the meter again under whatever node it returns."""

    def __init__(
        self,
        stream: Stream,
        open_transport: OpenTransport,
        clock: ServiceClock,
        *,
        family: Family | None = None,
        keep_alive_s: float | None = None,
        pacing: Pacing | None = None,
    ) -> None:
        """Nothing is opened yet: `read` does that. `family` and `keep_alive_s`: None is what the model needs.

        The nominal period is that of the stream: 10 ms but for meters in compressed time.
        """
        self.stream = stream
        self._open_transport = open_transport
        self._clock = clock
        self._family = family
        self._pacing = pacing or Pacing()
        self._recovery = Recovery(family or "B", keep_alive_s)
        self._intake = ReportIntake(stream.period_ns)
        self._transport: ReportTransport | None = None
        self._device: UsbDevice | None = None
        self._opened = 0
        self._seen_ns = 0
        self._telling = Telling(f"{stream.meter} of {stream.dut}")

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W since the last call, oldest first; empty after the time-out. It never ends by itself.

        The first second after opening comes late and at once: until then sample times are not known.
        """
        end_s = self._now_s() + timeout_s
        while not (ready := self._intake.pop()):
            left_s = end_s - self._now_s()
            self._receive(_timeout_s(min(left_s, self._recovery.wait_s(self._now_s()))))
            self._act()
            if left_s <= 0:
                break
        return [self._reading(each) for each in ready]

    @property
    def counts(self) -> Counts:
        """Refused reports by reason, reports without samples by type, lost samples and gaps."""
        return self._intake.counts

    @property
    def health(self) -> MeterHealth:
        """Connected only while valid samples flow."""
        device = self._device
        model = MODELS.get(device.ids) if device is not None and device.ids is not None else None
        return MeterHealth(
            connected=self._recovery.has_data,
            detail=self._detail,
            node=device.node if device and self._transport else None,
            model=model.name if model else self.stream.meter_model,
            serial=device.serial if device else None,
            firmware=self._intake.firmware,
            temperature_c=self._intake.temperature_c,
            rate_hz=self._intake.rates.samples_hz,
            new_values_hz=self._intake.rates.new_values_hz,
            reopened=max(0, self._opened - 1),
        )

    def close(self) -> None:
        """Send nothing more, read until a second of silence (5 s at most), give the device back.

        What was held because its time was not known yet comes with the next read.
        """
        transport, self._transport = self._transport, None
        if transport is not None:
            with contextlib.suppress(OSError):
                self._drain(transport, _STOP_SILENCE_S, _STOP_MOST_S)
            transport.close()
        self._intake.restart()
        self._telling.closed(self._intake.lost_samples, self._intake.gaps)

    @property
    def _detail(self) -> str:
        detail, refused = self._recovery.detail, self._intake.refused
        return f"{detail}; what it sends is refused: {refused}" if detail and refused else detail

    def _tell(self) -> None:
        now_s = self._now_s()
        self._telling.state(self._detail, now_s)
        self._telling.lost(self._intake.lost_samples, self._intake.gaps, now_s)

    def _act(self) -> None:
        while not self._is_behind() and (step := self._recovery.next_step(self._now_s())) is not None:
            if isinstance(step, Command):
                self._send(step)
            elif step is Step.OPEN:
                self._open()
            elif step is Step.CLOSE:
                self._give_back()
            elif step is Step.DRAIN:
                self._drain_stale()
        self._tell()

    def _open(self) -> None:
        try:
            transport = self._open_transport()
        except (OSError, SettingsError) as error:
            self._gone(str(error.strerror or error) if isinstance(error, OSError) else str(error))
            return
        self._transport, self._device = transport, transport.device
        self._opened += 1
        self._intake.opened()
        if self._family is None and transport.device.ids in MODELS and self._opened == 1:
            self._recovery.learn_family(MODELS[transport.device.ids].family)
        self._recovery.opened(self._now_s())
        self._seen_ns = self._pacing.monotonic_ns()
        self._telling.opened(transport.device.node, self._now_s())

    def _gone(self, why: str) -> None:
        self._give_back()
        self._intake.restart()
        self._recovery.gone(self._now_s(), why)

    def _give_back(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _send(self, which: Command) -> None:
        if self._transport is None:
            return
        try:
            self._transport.write(command(which))
        except OSError as error:
            if not self._recovery.write_failed(self._now_s(), which):
                self._gone(f"the meter takes no commands any more: {error.strerror or error}")

    def _drain_stale(self) -> None:
        """What waits from before is no answer to what comes next; and what streams next has a phase of its own."""
        self._intake.restart()
        if self._transport is None:
            return
        try:
            self._drain(self._transport, _DRAIN_SILENCE_S, _STOP_MOST_S)
            self._seen_ns = self._pacing.monotonic_ns()
        except OSError as error:
            self._gone(f"the meter has gone: {error.strerror or error}")

    def _drain(self, transport: ReportTransport, silence_s: float, most_s: float) -> None:
        end_s = self._now_s() + most_s
        for _ in range(_DRAIN_REPORTS):
            if not transport.read(silence_s) or self._now_s() >= end_s:
                return

    def _receive(self, timeout_s: float) -> None:
        if self._transport is None:
            self._pacing.sleep(timeout_s)
            return
        quiet_s = self._intake.quiet_s
        wait_s = timeout_s if quiet_s is None else min(timeout_s, _timeout_s(quiet_s))
        try:
            self._listen(self._transport, wait_s)
        except OSError as error:
            self._gone(f"the meter has gone: {error.strerror or error}")

    def _listen(self, transport: ReportTransport, wait_s: float) -> None:
        begin_ns = self._pacing.monotonic_ns()
        if self._was_away(begin_ns, self._seen_ns):
            self._catch_up(transport, [])
            return
        silent_ns = begin_ns + math.ceil(wait_s * 1e9)
        report = transport.read(wait_s)
        self._seen_ns = arrival_ns = self._pacing.monotonic_ns()
        if self._was_away(arrival_ns, silent_ns):
            self._catch_up(transport, [report] if report else [])
        elif not report:
            self._intake.silent(silent_ns)
        elif self._intake.take(report, arrival_ns):
            self._recovery.received(arrival_ns / 1e9)

    def _is_behind(self) -> bool:
        """What waits must be read first: no meter is silent because the host was."""
        return self._transport is not None and self._was_away(self._pacing.monotonic_ns(), self._seen_ns)

    def _was_away(self, now_ns: int, due_ns: int) -> bool:
        return (now_ns - due_ns) / 1e9 > (_AWAY_S if self._recovery.keep_alive_s else _AWAY_ANSWERING_S)

    def _catch_up(self, transport: ReportTransport, waited: list[bytes]) -> None:
        """What waited while this process did not run comes at once, and its arrivals tell nothing."""
        while len(waited) < _DRAIN_REPORTS and (report := transport.read(0)):
            waited.append(report)
        self._seen_ns = now_ns = self._pacing.monotonic_ns()
        if self._intake.catch_up(waited, now_ns):
            self._recovery.received(now_ns / 1e9)

    def _reading(self, placed: PlacedSample) -> Reading:
        monotonic_ns, sample = placed
        return Reading(self._clock.at_ns(monotonic_ns), sample.power_w, sample.voltage_v, sample.current_a)

    def _now_s(self) -> float:
        return self._pacing.monotonic_ns() / 1e9


def _timeout_s(wait_s: float) -> float:
    """Nothing, or a millisecond at the least, which is what poll(2) knows: no loop over a rounding error."""
    return max(wait_s, 0.001) if wait_s > 0 else 0.0
