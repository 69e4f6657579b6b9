"""Readings become sample batches: numbered, checked, with a watermark. Pure: times come with the readings.

A batch leaves when it is full or spans its longest time; one of a recording only when a later reading follows, because
the last one of the file promises more. Nothing is filled in: a gap stays a gap, and is counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from meter.readings import Counts, Reading, Stream
from schemas import SampleBatch

VOLTAGE_RANGE_V = (0.0, 30.0)
CURRENT_RANGE_A = (0.0, 7.0)
"""What the meters can measure; a stale frame of an FNB58 really said 188.7 V and 170.4 A."""
POWER_RANGE_W = (-0.1, 250.0)
"""A little more than voltage times current can be, and a little below zero for an offset of the meter."""
_END_OF_TIME_NS = 2**62


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch is complete: samples in it, or time between its first and its newest sample (None: no limit)."""

    samples: int
    span_ns: int | None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a stream stands: what the next batch must continue. The counters are totals since the timeline began."""

    seq: int = 0
    watermark_ns: int = 0
    last_ns: int | None = None
    samples: int = 0
    refused: int = 0
    """Readings that a source gave and that are implausible or out of order."""
    counts: Counts = field(default_factory=Counts)
    """What the sources did not give."""

    @property
    def rejected_frames(self) -> int:
        """Frames and readings that were received and not used."""
        return self.refused + sum(self.counts.rejected.values())


class Batcher:
    """Batches the readings of one source. `position` lets the next source of the same stream continue."""

    def __init__(self, stream: Stream, limits: BatchLimits, position: Position | None = None) -> None:
        self._stream = stream
        self._limits = limits
        self._live = stream.meter_kind != "recorded"
        self._pending: list[Reading] = []
        self.position = position or Position()
        self._before = self.position.counts
        self._new_values_per_s: float | None = None
        self._dropped_samples = 0

    def note(self, counts: Counts, new_values_per_s: float | None = None, dropped_samples: int = 0) -> None:
        """What the source did not give since it was made, and how many samples of the stream a full spool dropped."""
        self.position = replace(self.position, counts=self._before.plus(counts))
        self._new_values_per_s, self._dropped_samples = new_values_per_s, dropped_samples

    def add(self, readings: Sequence[Reading]) -> list[SampleBatch]:
        """Batches that these readings complete."""
        batches: list[SampleBatch] = []
        for reading in readings:
            if not self._accept(reading):
                self.position = replace(self.position, refused=self.position.refused + 1)
                continue
            if not self._live and self._is_complete():
                batches += self.flush()
            self._pending.append(reading)
            if self._live and self._is_complete():
                batches += self.flush()
        return batches

    def expire(self, now_ns: int) -> list[SampleBatch]:
        """The unfinished batch, when its first sample is older than the span (for a source that fell silent)."""
        span_ns = self._limits.span_ns
        if not self._pending or span_ns is None or now_ns - self._pending[0].t_ns < span_ns:
            return []
        return self.flush()

    def flush(self, until_ns: int | None = None) -> list[SampleBatch]:
        """The unfinished batch. `until_ns` promises that no sample before it will follow; never less than known."""
        if not self._pending:
            return []
        return [self._take(max(until_ns or 0, self._pending[-1].t_ns + 1))]

    def finish_file(self) -> list[SampleBatch]:
        """The last batch of a recording: its last sample stands for one whole period."""
        last_ns = self.position.last_ns
        return self.flush(None if last_ns is None else last_ns + self._stream.period_ns)

    def _accept(self, reading: Reading) -> bool:
        if not _is_plausible(reading) or not self.position.watermark_ns <= reading.t_ns < _END_OF_TIME_NS - 1:
            return False
        if self._pending and _offset_us(reading, self._pending[0]) <= _offset_us(self._pending[-1], self._pending[0]):
            return False
        self.position = replace(
            self.position,
            last_ns=reading.t_ns,
            watermark_ns=reading.t_ns + 1,
            samples=self.position.samples + 1,
        )
        return True

    def _is_complete(self) -> bool:
        span_ns = self._limits.span_ns
        if not self._pending:
            return False
        if len(self._pending) >= self._limits.samples:
            return True
        return span_ns is not None and self._pending[-1].t_ns - self._pending[0].t_ns >= span_ns

    def _take(self, until_ns: int) -> SampleBatch:
        readings, self._pending = self._pending, []
        until_ns = min(until_ns, _END_OF_TIME_NS - 1)
        stream, position = self._stream, self.position
        self.position = replace(position, seq=position.seq + 1, watermark_ns=max(position.watermark_ns, until_ns))
        return SampleBatch(
            site=stream.site,
            dut=stream.dut,
            meter=stream.meter,
            meter_model=stream.meter_model,
            meter_kind=stream.meter_kind,
            seq=position.seq,
            timeline_id=stream.timeline_id,
            host_clock=stream.host_clock,
            start_ns=readings[0].t_ns,
            until_ns=until_ns,
            period_ns=stream.period_ns,
            offset_us=tuple(_offset_us(reading, readings[0]) for reading in readings),
            power_w=tuple(reading.power_w for reading in readings),
            voltage_v=_column([reading.voltage_v for reading in readings]),
            current_a=_column([reading.current_a for reading in readings]),
            energy_counter_j=readings[-1].energy_counter_j,
            counter_resolution_j=stream.counter_resolution_j,
            new_values_per_s=self._new_values_per_s,
            rejected_frames=position.rejected_frames,
            lost_samples=position.counts.lost_samples + self._dropped_samples,
            gaps=position.counts.gaps,
        )


def _offset_us(reading: Reading, first: Reading) -> int:
    """Rounded down, so that no sample moves past a watermark."""
    return (reading.t_ns - first.t_ns) // 1000


def _column(values: list[float | None]) -> tuple[float, ...] | None:
    present = [value for value in values if value is not None]
    return tuple(present) if len(present) == len(values) else None


def _is_plausible(reading: Reading) -> bool:
    counter_j = reading.energy_counter_j
    return (
        _within(reading.power_w, POWER_RANGE_W)
        and (reading.voltage_v is None or _within(reading.voltage_v, VOLTAGE_RANGE_V))
        and (reading.current_a is None or _within(reading.current_a, CURRENT_RANGE_A))
        and (counter_j is None or math.isfinite(counter_j))
    )


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]
