"""What the meters saw of a train, read back from the journal: only the batches around its segments."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aggregator.clocks import Timeline, place
from aggregator.journal import Journal, StreamRow, unpack_batch
from aggregator.result import MeterView
from aggregator.trace import concatenate
from schemas import OperationEvent

CACHED_BATCHES = 1024
MARGIN_NS = 200_000_000
"""Samples on either side of a segment that its integral may need."""

Columns = tuple[NDArray[np.int64], NDArray[np.float64]]


class Views:
    """Reads traces from the journal; remembers the batches that it decoded last."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._columns = lru_cache(maxsize=CACHED_BATCHES)(_columns)

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
        offset_ns = place(Timeline(event.timeline_id, event.host_clock), row.stream.timeline).offset_ns
        if not _may_overlap(event, row, offset_ns):
            return None
        parts = [part for stretch in _intervals(event, offset_ns) for part in self._parts(row.row, *stretch)]
        if not any(len(t_ns) for t_ns, _ in parts):
            return None
        trace = concatenate(parts, row.period_ns)
        return MeterView(row.stream.key[2], row.model, row.kind, row.stream.timeline, trace)

    def _parts(self, stream: int, start_ns: int, end_ns: int) -> list[Columns]:
        batches = self._journal.batches(stream, start_ns, end_ns)
        return [_between(self._columns(packed), start_ns, end_ns) for packed in batches]


def _columns(packed: bytes) -> Columns:
    batch = unpack_batch(packed)
    t_ns = batch.start_ns + 1000 * np.array(batch.offset_us, dtype=np.int64)
    return t_ns, np.array(batch.power_w, dtype=np.float64)


def _between(columns: Columns, start_ns: int, end_ns: int) -> Columns:
    t_ns, power_w = columns
    first, last = np.searchsorted(t_ns, [start_ns, end_ns])
    return t_ns[first:last], power_w[first:last]


def _may_overlap(event: OperationEvent, row: StreamRow, offset_ns: int) -> bool:
    first_ns, end_ns = event.start_ns + offset_ns, event.end_ns + offset_ns
    return row.stream.first_ns < end_ns and row.stream.watermark_ns > first_ns


def _intervals(event: OperationEvent, offset_ns: int) -> Sequence[tuple[int, int]]:
    """The segments with a margin, on the meter's timeline, merged where they touch."""
    merged: list[tuple[int, int]] = []
    for segment in event.segments:
        start_ns = segment.start_ns + offset_ns - MARGIN_NS
        end_ns = segment.end_ns + offset_ns + MARGIN_NS
        if merged and start_ns <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end_ns)
        else:
            merged.append((start_ns, end_ns))
    return merged
