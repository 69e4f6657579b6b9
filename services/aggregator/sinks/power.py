"""Power per second and meter, from the samples in the journal: the same journal gives the same points."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aggregator.journal import unpack_batch
from aggregator.journal_power import SECOND_NS, JournalPower, MeterKey, Pending
from aggregator.sinks.points import Point, power

CHUNK_NS = 60 * SECOND_NS
BUDGET_S = 0.2
"""How long one round may take: intake waits meanwhile, the rest comes in the next one."""
CACHED_BATCHES = 2048

Columns = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]
"""Times, powers, voltages, and whether each sample is simulated."""

_NONE: Columns = (np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.bool_))


class PowerSeconds:
    """Makes the points of seconds that a meter's watermark has passed."""

    def __init__(self, journal: JournalPower) -> None:
        self._journal = journal
        self._columns = lru_cache(maxsize=CACHED_BATCHES)(_columns)

    def due(self) -> tuple[list[Point], list[Pending]]:
        """Points that are due, and the stretches that they are of, as far as one round goes."""
        end_s = time.monotonic() + BUDGET_S
        points: dict[tuple[MeterKey, int], Point] = {}
        done: list[Pending] = []
        for pending in self._journal.pending():
            if time.monotonic() > end_s:
                break
            stretch, samples = self._bounded(pending)
            for point in _points(stretch, samples):
                points[stretch.meter, point.t_ns] = point
            done.append(stretch)
        return list(points.values()), done

    def _bounded(self, pending: Pending) -> tuple[Pending, Columns]:
        """The stretch, or its beginning as far as one chunk from its first sample goes, and the samples around it.

        A late stretch is a batch long and stays whole.
        """
        if pending.late is not None:
            return pending, self._samples(pending)
        start_ns = _floor(self._journal.next_batch_ns(pending.stream, pending.start_ns, pending.until_ns))
        chunk = replace(pending, start_ns=start_ns, until_ns=min(pending.until_ns, start_ns + CHUNK_NS))
        samples = self._samples(chunk)
        after = samples[0][np.searchsorted(samples[0], start_ns) :]
        if len(after) and after[0] < chunk.until_ns:
            return chunk, samples
        next_ns = int(after[0]) if len(after) else pending.until_ns
        beyond_ns = self._journal.next_batch_ns(pending.stream, chunk.until_ns, pending.until_ns, started=False)
        return replace(chunk, until_ns=_floor(max(chunk.until_ns, min(next_ns, beyond_ns, pending.until_ns)))), samples

    def _samples(self, stretch: Pending) -> Columns:
        """Of all batches of the meter that overlap the stretch, in order of time."""
        batches = self._journal.batches(stretch.meter, stretch.start_ns, stretch.until_ns)
        parts = [self._columns(packed) for packed in batches] or [_NONE]
        t_ns, power_w, voltage_v, simulated = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(t_ns, kind="stable")
        return t_ns[order], power_w[order], voltage_v[order], simulated[order]


def _points(stretch: Pending, samples: Columns) -> Iterator[Point]:
    """One for each second of the stretch that has a sample."""
    t_ns, power_w, voltage_v, simulated = samples
    first, last = np.searchsorted(t_ns, [stretch.start_ns, stretch.until_ns])
    for second in np.unique(t_ns[first:last] // SECOND_NS):
        a, b = np.searchsorted(t_ns, [second * SECOND_NS, (second + 1) * SECOND_NS])
        made_up = bool(simulated[a:b].any())
        yield power(stretch.meter, int(second) * SECOND_NS, power_w[a:b], voltage_v[a:b], made_up)


def _floor(t_ns: int) -> int:
    return t_ns // SECOND_NS * SECOND_NS


def _columns(packed: bytes) -> Columns:
    batch = unpack_batch(packed)
    t_ns = batch.start_ns + 1000 * np.array(batch.offset_us, dtype=np.int64)
    power_w = np.array(batch.power_w, dtype=np.float64)
    voltage_v = np.full(len(t_ns), np.nan) if batch.voltage_v is None else np.array(batch.voltage_v, dtype=np.float64)
    return t_ns, power_w, voltage_v, np.full(len(t_ns), batch.meter_kind == "simulated")
