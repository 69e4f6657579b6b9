"""A power meter of the FNIRSI family (FNB58, FNB48, FNB48S/P, C1, FNAC-28): reports become placed readings."""

import contextlib
import logging
import math
from collections.abc import Callable

from clock import ServiceClock
from errors import SettingsError
from meter.protocols.fnirsi import MODELS, Command, Family, command
from meter.readings import Counts, MeterHealth, Reading, Stream
from meter.recovery import JUST_OPENED, Recovery, Step
from meter.sources.fnirsi_intake import PlacedSample, ReportIntake
from meter.sources.pacing import Pacing
from meter.transports import ReportTransport, UsbDevice, UsbTransport

log = logging.getLogger(__name__)

OpenTransport = Callable[[], UsbTransport]
"""Finds and opens the meter, wherever it is plugged in now. Raises OSError or SettingsError while it cannot."""

_DRAIN_SILENCE_S = 0.02
_DRAIN_REPORTS = 200
_STOP_SILENCE_S = 1.0
_STOP_MOST_S = 5.0
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
        self._told = ""

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
        """Send nothing more, read until a second of silence (5 s at most), give the device back."""
        transport, self._transport = self._transport, None
        if transport is not None:
            with contextlib.suppress(OSError):
                self._drain(transport, _STOP_SILENCE_S, _STOP_MOST_S)
            transport.close()

    @property
    def _detail(self) -> str:
        detail, refused = self._recovery.detail, self._intake.refused
        return f"{detail}; what it sends is refused: {refused}" if detail and refused else detail

    def _tell(self) -> None:
        """The log gets every change once, and that nothing has come yet not at all."""
        told, self._told = self._told, self._detail
        if self._told and self._told not in (told, JUST_OPENED):
            log.warning("%s of %s: %s", self.stream.meter, self.stream.dut, self._told)
        elif told and not self._told:
            log.info("%s of %s: samples flow", self.stream.meter, self.stream.dut)

    def _act(self) -> None:
        while (step := self._recovery.next_step(self._now_s())) is not None:
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
        log.info("%s of %s opened at %s", self.stream.meter, self.stream.dut, transport.device.node)

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
                self._gone(f"the meter takes no commands any more: {error}")

    def _drain_stale(self) -> None:
        """What waits from before is no answer to what comes next; and what streams next has a phase of its own."""
        self._intake.restart()
        if self._transport is None:
            return
        try:
            self._drain(self._transport, _DRAIN_SILENCE_S, _STOP_MOST_S)
        except OSError as error:
            self._gone(f"the meter has gone: {error}")

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
        silent_ns = self._pacing.monotonic_ns() + math.ceil(wait_s * 1e9)
        try:
            report = self._transport.read(wait_s)
        except OSError as error:
            self._gone(f"the meter has gone: {error}")
            return
        arrival_ns = self._pacing.monotonic_ns()
        if not report:
            self._intake.silent(silent_ns)
        elif self._intake.take(report, arrival_ns):
            self._recovery.received(arrival_ns / 1e9)

    def _reading(self, placed: PlacedSample) -> Reading:
        monotonic_ns, sample = placed
        return Reading(self._clock.at_ns(monotonic_ns), sample.power_w, sample.voltage_v, sample.current_a)

    def _now_s(self) -> float:
        return self._pacing.monotonic_ns() / 1e9


def _timeout_s(wait_s: float) -> float:
    """Nothing, or a millisecond at the least, which is what poll(2) knows: no loop over a rounding error."""
    return max(wait_s, 0.001) if wait_s > 0 else 0.0
