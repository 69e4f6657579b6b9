"""Which trains are complete: all samples that they need have come, or will not come any more. Pure.

A meter's watermark is the time before which no more of its samples are expected. It only advances over batches that
follow each other without a missing `seq`, so a batch that is sent again late holds back what needs it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from aggregator.clocks import Placed, Timeline, place

StreamKey = tuple[str, str, str, str]
"""Site, DUT, meter, timeline."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A meter's timeline as far as it is known: first sample and watermark, on its own timeline, in ns."""

    key: StreamKey
    timeline: Timeline
    first_ns: int
    watermark_ns: int


@dataclass(frozen=True, slots=True)
class Held:
    """A train that waits for samples. Times in ns, its own timeline; `arrived_ns` is on the aggregator's."""

    event_id: UUID
    site: str
    dut: str
    timeline: Timeline
    start_ns: int
    end_ns: int
    arrived_ns: int


def by_identity(train: Held, meter: Timeline) -> Placed:
    """Where a train lies on a meter's timeline as far as it needs no exchange."""
    return Placed(place(train.timeline, meter))


@dataclass(slots=True)
class Joiner:
    """Holds trains until the watermark of every meter that saw them has passed their end, or a deadline has.

    A train whose clocks are not known, or not as well as they soon will be (for `patience_ns` at most), waits as well.
    """

    deadline_ns: int
    placing: Callable[[Held, Timeline], Placed] = by_identity
    patience_ns: int = 5_000_000_000
    _held: dict[tuple[str, str], dict[UUID, Held]] = field(default_factory=dict)
    _streams: dict[tuple[str, str], dict[StreamKey, Stream]] = field(default_factory=dict)
    _clock_waits: set[tuple[str, str]] = field(default_factory=set)

    @property
    def held(self) -> int:
        """How many trains wait."""
        return sum(len(trains) for trains in self._held.values())

    def duts(self) -> list[tuple[str, str]]:
        """Site and DUT of every train that waits."""
        return sorted(dut for dut, trains in self._held.items() if trains)

    def add_train(self, train: Held) -> None:
        """A new train; adding it again changes nothing."""
        self._held.setdefault((train.site, train.dut), {}).setdefault(train.event_id, train)

    def set_stream(self, stream: Stream) -> None:
        """What is now known of a meter's timeline."""
        site, dut, meter, _ = stream.key
        streams = self._streams.setdefault((site, dut), {})
        streams[stream.key] = stream
        for key in _outlived(streams.values(), meter):
            del streams[key]

    def wait_for_clocks(self) -> list[tuple[str, str]]:
        """Site and DUT of trains that have waited for clocks when they were looked at last."""
        return sorted(self._clock_waits)

    def complete(self, site: str, dut: str, now_ns: int) -> list[Held]:
        """Trains of a DUT whose samples have all come; they are no longer held. In order of their start."""
        streams = self._streams.get((site, dut), {}).values()
        looks = {train: self._look(train, streams, now_ns) for train in self._held.get((site, dut), {}).values()}
        self._clock_waits.discard((site, dut))
        if any(look.for_clock for look in looks.values()):
            self._clock_waits.add((site, dut))
        return self._take([train for train, look in looks.items() if look.is_complete])

    def _look(self, train: Held, streams: Iterable[Stream], now_ns: int) -> "_Look":
        patient = now_ns - train.arrived_ns < self.patience_ns
        return _look(train, [(stream, self.placing(train, stream.timeline)) for stream in streams], patient)

    def overdue(self, now_ns: int) -> list[Held]:
        """Trains that have waited for the deadline; they are no longer held. In order of their start."""
        everyone = [train for trains in self._held.values() for train in trains.values()]
        return self._take([train for train in everyone if now_ns - train.arrived_ns >= self.deadline_ns])

    def take(self, site: str, dut: str) -> list[Held]:
        """All trains of a DUT, whatever they wait for; they are no longer held."""
        return self._take(list(self._held.get((site, dut), {}).values()))

    def _take(self, trains: Iterable[Held]) -> list[Held]:
        taken = sorted(trains, key=lambda train: (train.start_ns, train.event_id))
        for train in taken:
            del self._held[train.site, train.dut][train.event_id]
        return taken


@dataclass(slots=True)
class Finished:
    """The last train of each DUT that is held no longer: tells at little cost that a batch of samples is not late."""

    offset_ns: Callable[[str, Timeline, Timeline], tuple[int, int]] = lambda _, train, meter: (
        place(train, meter).offset_ns,
        0,
    )
    _last: dict[tuple[str, str], Held] = field(default_factory=dict)

    def note(self, train: Held) -> None:
        """A train has results now."""
        last = self._last.get((train.site, train.dut))
        if last is None or last.timeline.timeline_id != train.timeline.timeline_id or train.end_ns > last.end_ns:
            self._last[train.site, train.dut] = train

    def may_concern(self, key: StreamKey, timeline: Timeline, start_ns: int) -> bool:
        """Whether samples from `start_ns` on, of this meter's timeline, may lie in a train that has results."""
        last = self._last.get(key[:2])
        return last is not None and start_ns < last.end_ns + self.offset_ns(key[0], last.timeline, timeline)[0]


STREAMS_KEPT = 4
"""Timelines remembered per meter: a meter that restarts often must not grow the state."""


def _outlived(streams: Iterable[Stream], meter: str) -> list[StreamKey]:
    mine = sorted((s for s in streams if s.key[2] == meter), key=lambda s: s.watermark_ns, reverse=True)
    return [stream.key for stream in mine[STREAMS_KEPT:]]


@dataclass(frozen=True, slots=True)
class _Look:
    """Whether a train is complete; if not, whether it is clocks that it waits for."""

    is_complete: bool
    for_clock: bool = False


def _look(train: Held, streams: Iterable[tuple[Stream, Placed]], patient: bool) -> _Look:
    """Complete: some meter's watermark is past the train and none that saw its beginning is still short of its end.

    A meter whose clock is not known is waited for, unless a later timeline of the same meter has the train.
    """
    passed, unknown, unsettled = set[str](), set[str](), False
    for stream, placed in streams:
        drift_ns = round((train.end_ns - train.start_ns) / 2 * abs(placed.state.drift_ppm) * 1e-6)
        start_ns = train.start_ns + placed.state.offset_ns
        end_ns = train.end_ns + placed.state.offset_ns + drift_ns
        has_passed = stream.watermark_ns >= end_ns and stream.first_ns < end_ns
        if placed.state.bound_s is None:
            unknown |= {stream.key[2]} if has_passed or start_ns < stream.watermark_ns else set()
        elif has_passed:
            passed.add(stream.key[2])
            unsettled = unsettled or (patient and not placed.settled)
        elif start_ns < stream.watermark_ns:
            return _Look(is_complete=False)
    for_clock = unsettled or bool(unknown - passed)
    return _Look(bool(passed) and not for_clock, for_clock)
