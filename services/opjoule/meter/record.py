"""`opjoule meter record`: what a meter says, frame by frame, in a file that can be sent and played again."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from errors import SettingsError
from meter.live import LiveMeter
from meter.protocols.fnirsi import MODELS, Family
from meter.protocols.raw_recording import SUFFIX, Event, RawHeader
from meter.sources.plan import Planned
from meter.transports.tape import RecordingTransport, TapeWriter
from opjoule.meter.opening import opener_of, period_ns, source_of
from opjoule.meter.plugged import Plugged

PROGRESS_S = 1.0
_LOOK_S = 0.05
_CLOSING_S = 10.0
"""A FNIRSI meter is read until it is silent, 5 s at most; one that is stuck in its driver is left behind."""
Progress = Callable[[str], None]


@dataclass(slots=True)
class Reel:
    """A recording that a full disk ends: from then on nothing is written, and `problem` says why."""

    writer: TapeWriter
    problem: str = ""
    _is_closed: bool = False

    def add(self, event: Event, data: bytes = b"") -> None:
        """What happened just now. Never fails: the reader would take an error for one of the meter."""
        if self.problem or self._is_closed:
            return
        try:
            self.writer.add(event, data)
        except OSError as error:
            self.problem = error.strerror or str(error)

    def close(self) -> None:
        """End the file."""
        self._is_closed = True
        try:
            self.writer.close()
        except OSError as error:
            self.problem = self.problem or error.strerror or str(error)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of it."""

    frames: int
    samples: int
    duration_s: float
    problem: str
    """Why it ended early; empty when it did not."""
    detail: str
    """What is wrong with the meter at the end; empty when all is well."""


def must_be_new(path: Path) -> None:
    """Raises SettingsError where no recording can be begun under this name, before any meter is opened."""
    if not path.name.casefold().endswith(SUFFIX):
        raise SettingsError(f"{path}: the name of a recording ends in {SUFFIX}, by which it is known when it is played")
    if path.exists():
        raise SettingsError(f"{path} is there already, and a recording is never written over another file")


def the_one(meters: list[Plugged]) -> Plugged:
    """The meter that is recorded. Raises SettingsError where it is none, or one of several."""
    fit = [each for each in meters if each.is_a != "not" and each.source != "hwmon"]
    if len(fit) == 1:
        return fit[0]
    if fit:
        found = ", ".join(each.name_and_serial for each in fit)
        raise SettingsError(f"several meters are plugged in; say which one with --node or --serial: {found}")
    why = "; ".join(f"{each.name}: {each.remark}" for each in meters)
    raise SettingsError(f"no meter that has frames to record: {why}")


def record(
    plugged: Plugged,
    others: list[Plugged],
    path: Path,
    stopping: Callable[[float], bool],
    family: Family | None = None,
    keep_alive_s: float | None = None,
    progress: Progress = lambda line: None,
) -> Recorded:
    """Record until `stopping(seconds since the start)` or a full disk. Raises SettingsError: the file cannot be made.

    The meter may be unplugged and plugged in again meanwhile: the recording says so and goes on.
    """
    reel = Reel(TapeWriter(path, header_of(plugged, family)))
    open_transport = opener_of(plugged, others)
    source = source_of(
        plugged, open_transport, lambda transport: RecordingTransport(transport, reel), family, keep_alive_s
    )
    live = LiveMeter(Planned(plugged.device.node, lambda: source, plugged.source))
    live.start()
    try:
        samples, duration_s = _run(live, reel, stopping, progress)
        detail = live.health.detail
    finally:
        live.stop()
        live.join(_CLOSING_S)
        reel.close()
    samples += _taken(live)
    return Recorded(reel.writer.frames, samples, duration_s, reel.problem, detail)


def header_of(plugged: Plugged, family: Family | None) -> RawHeader:
    """The first line of the file: what is known of the meter now."""
    device = plugged.device
    vendor_id, product_id = device.ids or (None, None)
    model = MODELS.get(device.ids) if device.ids and plugged.source == "fnirsi" else None
    return RawHeader(
        protocol="tc66c" if plugged.source == "tc66c" else "fnirsi",
        started_ns=time.time_ns(),
        sample_period_ns=period_ns(plugged),
        family=family or (model.family if model else None),
        meter_model=plugged.model[:64],
        vendor_id=vendor_id,
        product_id=product_id,
        serial=device.serial,
        node=device.node,
    )


def _run(live: LiveMeter, reel: Reel, stopping: Callable[[float], bool], progress: Progress) -> tuple[int, float]:
    """Samples and duration. The meter is read in another thread: signals reach this one, and cut no read short."""
    began_s = said_s = time.monotonic()
    samples = 0
    while not reel.problem and not stopping(time.monotonic() - began_s):
        time.sleep(_LOOK_S)
        samples += _taken(live)
        now_s = time.monotonic()
        if now_s - said_s >= PROGRESS_S:
            said_s = now_s
            progress(_line(now_s - began_s, reel.writer.frames, samples, live))
    return samples, time.monotonic() - began_s


def _taken(live: LiveMeter) -> int:
    return sum(len(said.readings) for said in live.take())


def _line(duration_s: float, frames: int, samples: int, live: LiveMeter) -> str:
    health = live.health
    state = health.detail if not health.connected and health.detail else ""
    return f"{duration_s:.0f} s, {frames} frames, {samples} samples" + (f"; {state}" if state else "")


def progress_on_terminal(line: str) -> None:
    """On one line that is written anew, where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line[:78]}", end="", file=sys.stderr, flush=True)
