"""Plays recordings of meters: .cfn files of FNIRSI, the CSV files made from them, and our own raw ones."""

import functools
import logging
from collections.abc import Callable
from pathlib import Path

from clock import ServiceClock
from errors import ContractError
from meter.playlist import PlaylistEntry, read_playlist
from meter.protocols import cfn, power_csv, raw_recording
from meter.protocols.recording import Recording
from meter.readings import Counts, MeterHealth, Reading, Source, Stream
from meter.settings import MeterSettings
from meter.sources.pacing import Pacing
from meter.sources.plan import Planned
from meter.sources.raw_recording import open_raw

log = logging.getLogger(__name__)

_DECODERS: dict[str, Callable[[bytes], Recording]] = {".cfn": cfn.decode, ".csv": power_csv.decode}
_CHUNK_ROWS = 500
"""Rows per read when not paced: enough to be fast, few enough to stop soon."""


def plan(settings: MeterSettings, clock: ServiceClock) -> list[Planned]:
    """The entries of the playlist, or the one recording on a timeline of its own that starts now."""
    return [
        Planned(
            entry.dut,
            functools.partial(_open, entry, settings.site, settings.speed),
            entry.meter,
            entry.meter_model,
        )
        for entry in _entries(settings, clock)
    ]


def read_recording(path: Path) -> Recording:
    """The recording in a file, by its suffix. Raises ContractError with one line that names the file."""
    decode = _DECODERS.get(path.suffix.casefold())
    if decode is None:
        raise ContractError(f"{path}: {path.suffix or 'no suffix'} is not a recording; {' and '.join(_DECODERS)} are")
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise ContractError(f"{path}: {error.strerror}") from None
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from None


class RecordingSource:
    """One recording, row 0 at `start_ns`, at `speed` times real time; speed 0 is as fast as it is read."""

    def __init__(
        self,
        stream: Stream,
        recording: Recording,
        start_ns: int,
        speed: float,
        pacing: Pacing | None = None,
    ) -> None:
        self.stream = stream
        self._recording = recording
        self._start_ns = start_ns
        self._speed = speed
        self._pacing = pacing or Pacing()
        self._began_ns = self._pacing.monotonic_ns()
        self._next_row = 0

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W of the rows that are due, oldest first; empty after the time-out, None after the last row."""
        rows = len(self._recording.t_s)
        if self._next_row == rows:
            return None
        first = self._next_row
        end = min(rows, first + _CHUNK_ROWS)
        if self._speed == 0:
            self._next_row = end
        else:
            self._wait(self._due_ns(first), timeout_s)
            now_ns = self._pacing.monotonic_ns()
            while self._next_row < end and self._due_ns(self._next_row) <= now_ns:
                self._next_row += 1
        return [self._reading(row) for row in range(first, self._next_row)]

    @property
    def counts(self) -> Counts:
        """A file loses nothing on its way."""
        return Counts()

    @property
    def health(self) -> MeterHealth:
        """Of the meter that made the file only the model is known."""
        return MeterHealth(model=self.stream.meter_model)

    def close(self) -> None:
        """Nothing is held: the file was read whole."""

    def _wait(self, due_ns: int, timeout_s: float) -> None:
        self._pacing.sleep_until(min(due_ns, self._pacing.monotonic_ns() + round(timeout_s * 1e9)))

    def _due_ns(self, row: int) -> int:
        return self._began_ns + round(self._since_first_row_ns(row) / self._speed)

    def _since_first_row_ns(self, row: int) -> int:
        return round((self._recording.t_s[row] - self._recording.t_s[0]) * 1e9)

    def _reading(self, row: int) -> Reading:
        recording = self._recording
        return Reading(
            t_ns=self._start_ns + self._since_first_row_ns(row),
            power_w=recording.power_w[row],
            voltage_v=None if recording.voltage_v is None else recording.voltage_v[row],
            current_a=None if recording.current_a is None else recording.current_a[row],
            energy_counter_j=None if recording.energy_j is None else recording.energy_j[row],
        )


def _entries(settings: MeterSettings, clock: ServiceClock) -> list[PlaylistEntry]:
    if settings.playlist is not None:
        return read_playlist(settings.playlist)
    entry = {
        "path": settings.recording,
        "dut": settings.dut,
        "meter": settings.meter,
        "meter_model": settings.meter_model,
        "timeline_id": clock.timeline_id,
        "start_ns": clock.now_ns(),
    }
    return [PlaylistEntry.model_validate(entry)]


def _open(entry: PlaylistEntry, site: str, speed: float) -> Source:
    if entry.path.name.casefold().endswith(raw_recording.SUFFIX):
        return open_raw(entry, site, speed)
    recording = read_recording(entry.path)
    if recording.flags:
        log.warning("%s: played although %s", entry.path, ", ".join(recording.flags).replace("_", " "))
    stream = Stream(
        site=site,
        dut=entry.dut,
        meter=entry.meter,
        meter_model=entry.meter_model,
        meter_kind="recorded",
        timeline_id=entry.timeline_id,
        host_clock=None,
        period_ns=recording.period_ns,
        counter_resolution_j=recording.energy_step_j,
    )
    return RecordingSource(stream, recording, entry.start_ns, speed)
