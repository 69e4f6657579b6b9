"""An FNB58, or another meter of the FNIRSI family, without a wire: frames in, reports out. Pure, times come with calls.

What starts and stops a stream is as fnirsi-usb-power-data-logger found it: 81, then 82 (family B) or 82 and 83 (family
A); then 83 again and again. How long a real meter goes on without is unknown: `Setup.patience_s` is invented.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from meter.devices.faults import Faults, Span
from meter.devices.fnb58_reports import (
    command_of,
    data_report,
    information_report,
    shortened,
    spoiled,
    stale_report,
    unknown_report,
)
from meter.devices.power import Measured, Power
from meter.protocols.fnirsi import SAMPLE_PERIOD_NS, SAMPLES_PER_REPORT, Command, Family


@dataclass(frozen=True, slots=True)
class Setup:
    """Which meter it is. `keep_alive`: what it needs to go on streaming."""

    family: Family = "B"
    sample_period_ns: int = SAMPLE_PERIOD_NS
    keep_alive: Literal["each report", "in time", "never"] = "in time"
    patience_s: float = 1.5
    """Of a meter that needs an 83 in time; about half more than the 1 s that hosts keep."""
    firmware: float = 1.11
    serial: int = 123_456
    temperature_c: float = 27.3


class Fnb58:
    """The meter. `wake_ns` says when it wants to be asked again; nothing happens between."""

    def __init__(self, power: Power, setup: Setup | None = None, faults: Faults | None = None) -> None:
        self._power = power
        self._setup = setup or Setup()
        self._faults = faults or Faults()
        self._plugged_ns = 0
        self._next_ns = 0
        self._boots = 0
        self._number = 0
        self._samples: list[Measured] = []
        self._waiting: list[bytes] = []
        self._is_frozen = self._is_identified = self._may_start = self._is_streaming = self._is_asked = False
        self._heard_ns = 0
        self._start_frame_ns = self._deaf_until_ns = -math.inf
        self.heard: Counter[int | None] = Counter()
        """Frames from the host by type, None for what is no frame, since the meter was made."""
        self.sent = 0
        """Data reports with right contents that it handed to the wire, each counted once."""
        self.measured = 0
        """Samples that it took while it streamed."""

    @property
    def is_streaming(self) -> bool:
        """Whether it measures and sends."""
        return self._is_streaming

    @property
    def is_frozen(self) -> bool:
        """Whether only plugging it in again would help."""
        return self._is_frozen

    @property
    def wake_ns(self) -> int | None:
        """When its next sample is due; None while it does not stream."""
        return self._next_ns if self._is_streaming else None

    def plug_in(self, now_ns: int) -> None:
        """It gets power: it knows nothing of before, and its clock starts at this moment."""
        self._plugged_ns = self._heard_ns = now_ns
        self._boots += 1
        self._is_frozen = self._is_identified = self._may_start = self._is_streaming = False
        self._deaf_until_ns = self._start_frame_ns = -math.inf
        self._samples, self._waiting = [], []
        self._next_ns = now_ns + self._setup.sample_period_ns
        if self._faults.already_streaming:
            self._is_identified = self._may_start = True
            self._start(now_ns)

    def skip_to(self, now_ns: int) -> None:
        """Nobody was there to take its reports: they are lost."""
        self._samples, self._waiting = [], []
        missed = max(0, (now_ns - self._next_ns) // self._setup.sample_period_ns + 1)
        self._next_ns += missed * self._setup.sample_period_ns
        self._check_patience(now_ns)

    def hear(self, frame: bytes, now_ns: int) -> None:
        """A frame of 64 bytes from the host. What is none is ignored, as is all that is not understood now."""
        command = command_of(frame)
        self.heard[command] += 1
        if self._is_out(self._faults.frozen, now_ns) or self._is_frozen or now_ns < self._deaf_until_ns:
            return
        if command in (Command.IDENTIFY, Command.START):
            self._check_gap(now_ns)
        if command == Command.IDENTIFY:
            self._identify(now_ns)
        elif command == Command.START and self._is_identified:
            self._may_start = self._is_asked = True
            self._heard_ns = now_ns
            if self._setup.family == "B":
                self._start(now_ns)
        elif command == Command.CONTINUE:
            self._is_asked, self._heard_ns = True, now_ns
            if self._may_start:
                self._start(now_ns)

    def say(self, now_ns: int) -> list[bytes]:
        """The reports that it has put on the wire by now, oldest first."""
        said: list[bytes] = []
        while self._is_streaming and self._next_ns <= now_ns:
            self._samples.append(self._power(self._next_ns))
            self.measured += 1
            if len(self._samples) == SAMPLES_PER_REPORT:
                said += self._report(self._next_ns)
            self._next_ns += self._setup.sample_period_ns
        if self._waiting and not self._is_out(self._faults.late, now_ns):
            said, self._waiting = self._waiting + said, []
        return said

    def _identify(self, now_ns: int) -> None:
        self._is_identified = True
        if self._faults.deaf_after_81_s:
            self._deaf_until_ns = now_ns + self._faults.deaf_after_81_s * 1e9
            self._is_streaming = self._may_start = False
        else:
            self._waiting.append(information_report(self._setup.firmware, self._setup.serial, self._boots))

    def _check_gap(self, now_ns: int) -> None:
        gap_ns, self._start_frame_ns = now_ns - self._start_frame_ns, now_ns
        if gap_ns < self._faults.crashes_below_gap_s * 1e9:
            self._freeze()

    def _start(self, now_ns: int) -> None:
        if self._is_streaming or self._is_frozen:
            return
        self._is_streaming = True
        self._samples = []
        periods = max(0, (now_ns - self._next_ns) // self._setup.sample_period_ns + 1)
        self._next_ns += periods * self._setup.sample_period_ns
        self._waiting += [stale_report(self._faults.garbage_is_valid)] * self._faults.garbage_first

    def _freeze(self) -> None:
        self._is_frozen, self._is_streaming = True, False
        self._waiting = []

    def _report(self, t_ns: int) -> list[bytes]:
        samples, self._samples = self._samples, []
        number, self._number = self._number, self._number + 1
        if not self._goes_on(t_ns) or self._is_out(self._faults.silent + self._faults.frozen, t_ns):
            return []
        said = self._with_faults(number, data_report(samples, self._setup.temperature_c))
        if self._is_out(self._faults.late, t_ns):
            self._waiting += said
            return []
        return said

    def _goes_on(self, t_ns: int) -> bool:
        self._check_patience(t_ns)
        if not self._is_streaming:
            return False
        if self._setup.keep_alive == "each report":
            asked, self._is_asked = self._is_asked, False
            return asked
        return True

    def _check_patience(self, now_ns: int) -> None:
        waits = self._is_streaming and self._setup.keep_alive == "in time"
        if not waits or now_ns - self._heard_ns <= self._setup.patience_s * 1e9:
            return
        self._is_streaming = False
        if self._faults.freezes_without_keep_alive:
            self._freeze()

    def _with_faults(self, number: int, report: bytes) -> list[bytes]:
        faults = self._faults
        before = [information_report(self._setup.firmware, self._setup.serial, self._boots)]
        said = before if faults.information_before(number) else []
        said += [unknown_report()] if faults.unknown_before(number) else []
        if faults.dropped(number):
            return said
        if faults.bad_crc(number):
            return [*said, spoiled(report)]
        if faults.short(number):
            return [*said, shortened(report)]
        self.sent += 1
        return [*said, *[report] * (2 if faults.duplicated(number) else 1)]

    def _is_out(self, spans: tuple[Span, ...], t_ns: int) -> bool:
        t_s = (t_ns - self._plugged_ns) / 1e9
        return any(span.contains(t_s) for span in spans)
