"""What the meters saw of a train, read back from the journal: only the batches around its segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aggregator.clocks import shifted
from aggregator.counter import CounterReading
from aggregator.journal import Journal, StreamRow, held_of, unpack_batch
from aggregator.placing import Placer
from aggregator.result import MeterView
from aggregator.trace import concatenate
from schemas import OperationEvent, SampleBatch, Segment

CACHED_BATCHES = 1024
MARGIN_NS = 200_000_000
"""Samples on either side of a segment that its integral may need."""

Columns = tuple[NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Decoded:
    """Times and powers of a batch, and what the meter's counter said beside its last sample."""

    columns: Columns
    counter: CounterReading | None


class Views:
    """Reads traces from the journal; remembers the batches that it decoded last.

    `gain_u` is what the operator states of single meters, by SITE/METER, and of models.
    """

    def __init__(self, journal: Journal, gain_u: Mapping[str, float] | None = None) -> None:
        self._journal, self._placer = journal, Placer(journal.exchanges)
        self._gain_u = dict(gain_u or {})
        self._decode = lru_cache(maxsize=CACHED_BATCHES)(_decode)

    def of(self, event: OperationEvent) -> list[MeterView]:
        """One view per meter that has samples in the train: of the timeline that covers most of it."""
        best: dict[str, MeterView] = {}
        for row in self._journal.streams(event.site, event.dut):
            view = self._view(event, row)
            if view is None:
                continue
            other = best.get(view.meter)
            if other is None or len(view.trace.t_ns) > len(other.trace.t_ns):
                best[view.meter] = view
        return [best[meter] for meter in sorted(best)]

    def _view(self, event: OperationEvent, row: StreamRow) -> MeterView | None:
        train = held_of(event, 0)
        ahead_ns, near_ns = self._placer.rough_ns(event.site, train.timeline, row.stream.timeline)
        if not _may_overlap(row, event.start_ns + ahead_ns - near_ns, event.end_ns + ahead_ns + near_ns):
            return None
        clock = self._placer.for_result(train, row.stream.timeline).state
        segments = shifted(event.segments, clock)
        parts = [part for stretch in _intervals(segments) for part in self._parts(row.row, *stretch)]
        if not any(len(part.columns[0]) for part in parts):
            return None
        trace = concatenate([part.columns for part in parts], row.period_ns)
        counter = {part.counter.t_ns: part.counter for part in parts if part.counter is not None}
        site, _, meter, _ = row.stream.key
        return MeterView(
            meter=meter,
            model=row.model,
            kind=row.kind,
            timeline=row.stream.timeline,
            trace=trace,
            counter=tuple(counter[t_ns] for t_ns in sorted(counter)),
            clock=clock,
            gain_u=self._gain_u.get(f"{site}/{meter}", self._gain_u.get(row.model)),
        )

    def _parts(self, stream: int, start_ns: int, end_ns: int) -> list[Decoded]:
        decoded = [self._decode(packed) for packed in self._journal.batches(stream, start_ns, end_ns)]
        return [Decoded(_between(each.columns, start_ns, end_ns), each.counter) for each in decoded]


def _decode(packed: bytes) -> Decoded:
    batch = unpack_batch(packed)
    t_ns = batch.start_ns + 1000 * np.array(batch.offset_us, dtype=np.int64)
    return Decoded((t_ns, np.array(batch.power_w, dtype=np.float64)), _counter(batch))


def _counter(batch: SampleBatch) -> CounterReading | None:
    """Of a counter whose step is known; without one its figures have no uncertainty."""
    if batch.energy_counter_j is None or batch.counter_resolution_j is None or not batch.offset_us:
        return None
    last_ns = batch.start_ns + 1000 * batch.offset_us[-1]
    return CounterReading(last_ns, batch.energy_counter_j, batch.counter_resolution_j)


def _between(columns: Columns, start_ns: int, end_ns: int) -> Columns:
    t_ns, power_w = columns
    first, last = np.searchsorted(t_ns, [start_ns, end_ns])
    return t_ns[first:last], power_w[first:last]


def _may_overlap(row: StreamRow, first_ns: int, end_ns: int) -> bool:
    return row.stream.first_ns < end_ns and row.stream.watermark_ns > first_ns


def _intervals(segments: Sequence[Segment]) -> Sequence[tuple[int, int]]:
    """The segments with a margin, on the meter's timeline, merged where they touch."""
    merged: list[tuple[int, int]] = []
    for segment in segments:
        start_ns, end_ns = segment.start_ns - MARGIN_NS, segment.end_ns + MARGIN_NS
        if merged and start_ns <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end_ns)
        else:
            merged.append((start_ns, end_ns))
    return merged
