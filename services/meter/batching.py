"""Readings become sample batches: numbered, checked, with a watermark. Pure: times come with the readings.

A batch leaves when it is full or spans its longest time; one of a recording only when a later reading follows, because
the last one of the file promises more. Nothing is filled in: a gap stays a gap, and is counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from meter.readings import Counts, Reading, Stream
from schemas import SampleBatch

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
    implausible: int = 0
    """Readings that a source gave and that its meter cannot have measured."""
    out_of_order: int = 0
    """Readings that are not later than the one before."""
    counts: Counts = field(default_factory=Counts)
    """What the sources did not give."""

    @property
    def refused(self) -> int:
        """Readings that a source gave and that were not used."""
        return self.implausible + self.out_of_order

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
        self.last_implausible: Reading | None = None
        """The last reading, where it was refused as one that the meter cannot have measured."""

    def note(self, counts: Counts, new_values_per_s: float | None = None, dropped_samples: int = 0) -> None:
        """What the source did not give since it was made, and how many samples of the stream a full spool dropped."""
        self.position = replace(self.position, counts=self._before.plus(counts))
        self._new_values_per_s, self._dropped_samples = new_values_per_s, dropped_samples

    def add(self, readings: Sequence[Reading]) -> list[SampleBatch]:
        """Batches that these readings complete."""
        batches: list[SampleBatch] = []
        for reading in readings:
            if not self._accept(reading):
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
        position = self.position
        if not self._is_plausible(reading):
            self.position = replace(position, implausible=position.implausible + 1)
            self.last_implausible = reading
        elif not self._is_later(reading):
            self.position = replace(position, out_of_order=position.out_of_order + 1)
        else:
            self.position = replace(
                position, last_ns=reading.t_ns, watermark_ns=reading.t_ns + 1, samples=position.samples + 1
            )
            self.last_implausible = None
            return True
        return False

    def _is_plausible(self, reading: Reading) -> bool:
        counter_j = reading.energy_counter_j
        is_counter = counter_j is None or math.isfinite(counter_j)
        return is_counter and self._stream.ranges.allow(reading.power_w, reading.voltage_v, reading.current_a)

    def _is_later(self, reading: Reading) -> bool:
        if not self.position.watermark_ns <= reading.t_ns < _END_OF_TIME_NS - 1:
            return False
        if not self._pending:
            return True
        first, last = self._pending[0], self._pending[-1]
        return _offset_us(reading, first) > _offset_us(last, first)

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
