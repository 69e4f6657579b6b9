"""From what the thread of one meter said to batches, and to its state in the status. Pure: times come as arguments."""

from collections.abc import Iterable, Mapping

from meter.batching import Batcher, BatchLimits, Position
from meter.readings import FRESH_NS, Counts, MeterHealth, Reading, Said, Stream
from meter.sources.plan import Planned
from meter.status import MOST_DETAIL
from schemas import MeterState, SampleBatch

_MOST_TEXT = 256
_STUCK = f"no valid sample for {FRESH_NS / 1e9:.0f} s: it is stuck, or what it says is refused"


class Feed:
    """Batches of one meter. Its stream is known with the first reading, and stays the same."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._batcher: Batcher | None = None
        self.stream: Stream | None = None

    @property
    def position(self) -> Position:
        """Where the stream stands."""
        return self._batcher.position if self._batcher else Position()

    @property
    def last_ns(self) -> int | None:
        """The time of its newest valid sample."""
        return self.position.last_ns

    def add(self, said: Iterable[Said], dropped_samples: int) -> list[SampleBatch]:
        """Batches that are complete now; `dropped_samples`: lost by the spool."""
        batches: list[SampleBatch] = []
        for each in said:
            batcher = self._of(each.stream)
            batcher.note(each.counts, each.health.new_values_hz, dropped_samples)
            batches += batcher.add(each.readings)
        return batches

    def expire(self, now_ns: int) -> list[SampleBatch]:
        """The unfinished batch, when it has waited for too long."""
        return self._batcher.expire(now_ns) if self._batcher else []

    def flush(self) -> list[SampleBatch]:
        """The unfinished batch."""
        return self._batcher.flush() if self._batcher else []

    def is_fresh(self, now_ns: int) -> bool:
        """Whether its newest valid sample is younger than 2 s."""
        return self.last_ns is not None and now_ns - self.last_ns < FRESH_NS

    @property
    def implausible(self) -> str:
        """The last reading where it was refused as one that the meter cannot have measured, else empty."""
        reading = self._batcher.last_implausible if self._batcher else None
        return _text(reading) if reading else ""

    def state(
        self, planned: Planned, counts: Counts, health: MeterHealth, dropped_samples: int, now_ns: int
    ) -> MeterState:
        """What the status says of the meter. One whose reader is stuck cannot say itself that it is not connected."""
        connected = health.connected and self.is_fresh(now_ns)
        return MeterState(
            dut=planned.dut,
            meter=planned.meter,
            model=(health.model or planned.model)[:_MOST_TEXT],
            role=planned.role,
            connected=connected,
            detail=(health.detail or (self._trouble() if health.connected and not connected else ""))[:MOST_DETAIL],
            node=_short(health.node),
            serial=_short(health.serial),
            firmware=_short(health.firmware),
            temperature_c=health.temperature_c if connected else None,
            samples_per_s=health.rate_hz if connected else None,
            new_values_per_s=health.new_values_hz if connected else None,
            rejected=_rejected(counts.rejected, self.position),
            lost_samples=counts.lost_samples + dropped_samples,
            gaps=counts.gaps,
            counter_resets=counts.counter_resets,
            reopened=health.reopened,
        )

    def _trouble(self) -> str:
        """Why no valid samples come of a meter that is there."""
        if self.implausible:
            return f"what it says is refused as implausible: {self.implausible}"
        return _STUCK if self.last_ns is not None else ""

    def _of(self, stream: Stream) -> Batcher:
        if self._batcher is None or self.stream is None:
            self._batcher = Batcher(stream, self._limits)
            self.stream = stream
        return self._batcher


def _rejected(by_reason: Mapping[str, int], position: Position) -> dict[str, int]:
    ours = {"implausible_reading": position.implausible, "reading_out_of_order": position.out_of_order}
    return {**by_reason, **{reason: count for reason, count in ours.items() if count}}


def _text(reading: Reading) -> str:
    parts = [(reading.voltage_v, "V"), (reading.current_a, "A"), (reading.power_w, "W")]
    return ", ".join(f"{value:.6g} {unit}" for value, unit in parts if value is not None)


def _short(text: str | None) -> str | None:
    return text[:_MOST_TEXT] if text is not None else None
