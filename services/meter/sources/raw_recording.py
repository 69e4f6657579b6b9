"""Plays what a meter said to `opjoule meter record`, through the same protocol and timeline as the meter itself."""

import logging
from collections.abc import Callable

from clock import ServiceClock
from meter.playlist import PlaylistEntry
from meter.readings import Counts, MeterHealth, Reading, Source, Stream
from meter.sources.fnirsi import FnirsiSource
from meter.sources.pacing import Pacing
from meter.sources.tc66c import Tc66cSource
from meter.sources.tc66c_ports import GivenTransport
from meter.transports.tape import Tape, read_tape

log = logging.getLogger(__name__)


def open_raw(entry: PlaylistEntry, site: str, speed: float) -> "RawRecordingSource":
    """The recording of an entry. Its model is the meter's, where the entry says `unknown`. Raises ContractError."""
    tape = read_tape(entry.path)
    stream = Stream(
        site=site,
        dut=entry.dut,
        meter=entry.meter,
        meter_model=tape.header.meter_model if entry.meter_model == "unknown" else entry.meter_model,
        meter_kind="recorded",
        timeline_id=entry.timeline_id,
        host_clock=None,
        period_ns=tape.header.sample_period_ns,
    )
    return RawRecordingSource(stream, tape, entry.start_ns, speed, str(entry.path))


class RawRecordingSource:
    """One recording, which began at `start_ns`, at `speed` times real time; speed 0 is as fast as it is read."""

    def __init__(
        self, stream: Stream, tape: Tape, start_ns: int, speed: float, name: str, pacing: Pacing | None = None
    ) -> None:
        self.stream = stream
        self._tape = tape
        self._name = name
        tape.play_at(speed, pacing)
        clock = ServiceClock(wall_minus_monotonic_ns=start_ns, timeline_id=stream.timeline_id, boot_id=None)
        self._source: Source = _PLAYERS[tape.header.protocol](stream, tape, clock)
        self._has_ended = False

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W since the last call, oldest first; empty after the time-out, None when the recording is over."""
        if self._has_ended:
            return None
        try:
            return self._source.read(timeout_s)
        except EOFError:
            self._end()
            return self._held()

    @property
    def counts(self) -> Counts:
        """As the meter's."""
        return self._source.counts

    @property
    def health(self) -> MeterHealth:
        """As the meter's."""
        return self._source.health

    def close(self) -> None:
        """Close the file; nobody has to be told to stop."""
        self._tape.eject()

    def _held(self) -> list[Reading]:
        """What was held until its time would be known."""
        self._source.close()
        try:
            return self._source.read(0.0) or []
        except EOFError:
            return []

    def _end(self) -> None:
        self._has_ended = True
        if self._tape.flags:
            log.warning("%s: played up to where it is %s", self._name, " and ".join(self._tape.flags))


def _fnirsi(stream: Stream, tape: Tape, clock: ServiceClock) -> Source:
    return FnirsiSource(stream, tape.open, clock, family=tape.header.family, pacing=tape.pacing)


def _tc66c(stream: Stream, tape: Tape, clock: ServiceClock) -> Source:
    return Tc66cSource(stream, GivenTransport(tape.open, tape.header.node), clock, pacing=tape.pacing)


_PLAYERS: dict[str, Callable[[Stream, Tape, ServiceClock], Source]] = {"fnirsi": _fnirsi, "tc66c": _tc66c}
"""By `RawHeader.protocol`."""
