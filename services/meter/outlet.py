"""Where batches and the status go, and how batches are cut."""

from collections.abc import Iterable
from dataclasses import dataclass

from bus import Bus, Spool, SpoolingPublisher
from meter.batching import BatchLimits
from meter.readings import Stream
from schemas import SampleBatch


@dataclass(frozen=True, slots=True)
class Rules:
    """How batches are cut and how receipts are waited for."""

    site: str
    batch_samples: int
    batch_s: float
    speed: float
    unconfirmed_batches: int
    confirm_timeout_s: float | None
    """After so long without a receipt waiting for one is given up; None: never."""

    def limits(self, recorded: bool) -> BatchLimits:
        """Of a meter the age of a sample counts; a recording is as much faster as its speed, or has no age."""
        pace = self.speed if recorded else 1.0
        return BatchLimits(self.batch_samples, round(self.batch_s * pace * 1e9) or None)

    def is_too_long(self, without_receipt_s: float) -> bool:
        """Whether waiting for a receipt has become pointless."""
        return self.confirm_timeout_s is not None and without_receipt_s > self.confirm_timeout_s


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where batches and status go."""

    bus: Bus
    spool: Spool
    publisher: SpoolingPublisher

    def publish(self, batches: Iterable[SampleBatch]) -> None:
        """Hand over; what no receipt names is kept."""
        for batch in batches:
            self.publisher.put(batch)

    def dropped_samples(self, stream: Stream | None) -> int:
        """How many samples of a stream the full spool has dropped."""
        return self.spool.lost_samples_of(stream.key) if stream is not None else 0
