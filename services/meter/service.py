"""The loop of the meter: read, batch, hand to the spooling publisher, say how it goes."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bus import Bus, Spool, SpoolingPublisher
from clock import ServiceClock
from errors import ContractError
from meter.batching import Batcher, BatchLimits, Position
from meter.readings import Source, Stream
from meter.sources.plan import Planned
from meter.status import Identity, StatusBoard
from schemas import SampleBatch

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 0.2
"""How long a read may take: the service stops and tells its status no later."""
_RECEIPT_WAIT_S = 0.02


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

    def limits(self, stream: Stream) -> BatchLimits:
        """Of a live stream the age of a sample counts; a recording is as much faster as its speed, or has no age."""
        pace = 1.0 if stream.meter_kind != "recorded" else self.speed
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


class MeterService:
    """Plays one source after the other and forgets nothing that it read, until `stopping` says so.

    `watch` is called in every round and may raise what ends it.
    """

    def __init__(
        self,
        outlet: Outlet,
        rules: Rules,
        identity: Identity,
        clock: ServiceClock,
        stopping: Callable[[], bool],
        watch: Callable[[], object] = lambda: None,
    ) -> None:
        self._bus = outlet.bus
        self._spool = outlet.spool
        self._publisher = outlet.publisher
        self._rules = rules
        self._board = StatusBoard(identity)
        self._clock = clock
        self._stopping = stopping
        self._watch = watch
        self._gave_up = False
        self._positions: dict[tuple[str, str, str, str], Position] = {}

    def announce(self) -> None:
        """Say that the service is there, with no data yet; call before connecting, so that the last will is known."""
        self._tell()

    def play(self, plans: Sequence[Planned]) -> bool:
        """Read every source to its end. False when one could not be opened; each such is one line in the log."""
        complete = True
        for planned in plans:
            if self._stopping() or self._gave_up:
                break
            try:
                source = planned.open()
            except ContractError as error:
                log.error("not played: %s", error)
                complete = False
                continue
            self._read_all(source)
        return complete

    def confirm(self, most: int = 0) -> bool:
        """Wait until at most `most` batches lack a receipt. False when stopped, or when no receipt came in time."""
        pending, since_s = self._publisher.pending, time.monotonic()
        while self._publisher.pending > most and not self._stopping() and not self._gave_up:
            self._publisher.wait_until_confirmed(_RECEIPT_WAIT_S)
            self._tell()
            if self._publisher.pending != pending:
                pending, since_s = self._publisher.pending, time.monotonic()
            self._gave_up = self._rules.is_too_long(time.monotonic() - since_s)
        return self._publisher.pending <= most

    def linger(self) -> None:
        """Go on sending what is unconfirmed until stopped."""
        while not self._stopping():
            self._publisher.wait_until_confirmed(READ_TIMEOUT_S)
            self._tell()
            if self._publisher.pending == 0:
                time.sleep(READ_TIMEOUT_S)

    def say_goodbye(self) -> None:
        """The status becomes offline."""
        self._bus.set_status(self._rules.site, self._board.offline(self._health()))

    def _read_all(self, source: Source) -> None:
        stream = source.stream
        batcher = Batcher(stream, self._rules.limits(stream), self._positions.get(stream.key))
        refused_before = batcher.position.rejected_frames
        ended = False
        while not ended and not self._stopping():
            samples = batcher.position.samples
            readings = source.read(READ_TIMEOUT_S)
            ended = readings is None
            self._publish(batcher.finish_file() if readings is None else batcher.add(readings))
            if stream.meter_kind != "recorded":
                self._publish(batcher.expire(self._clock.now_ns()))
            if batcher.position.samples > samples:
                self._board.saw_sample(stream.dut, time.monotonic())
            self._positions[stream.key] = batcher.position
            self._publisher.step()
            self._tell()
            if stream.meter_kind == "recorded" and self._rules.speed == 0:
                ended = not self.confirm(self._rules.unconfirmed_batches) or ended
        if stream.meter_kind != "recorded":  # a recording played again must be cut into the same batches
            self._publish(batcher.flush())
            self._positions[stream.key] = batcher.position
        refused = batcher.position.rejected_frames - refused_before
        if refused:
            log.warning("meter %s at %s: %d implausible or late readings refused", stream.meter, stream.dut, refused)

    def _publish(self, batches: Sequence[SampleBatch]) -> None:
        for batch in batches:
            self._publisher.put(batch)

    def _tell(self) -> None:
        self._watch()
        now_s = time.monotonic()
        if self._board.is_due(now_s):
            samples = sum(position.samples for position in self._positions.values())
            self._bus.set_status(self._rules.site, self._board.tell(now_s, samples, self._health()))

    def _health(self) -> dict[str, float]:
        positions = self._positions.values()
        return {
            "rejected_frames": sum(position.rejected_frames for position in positions),
            "lost_samples": sum(position.lost_samples for position in positions) + self._spool.lost_samples,
            "spool_depth": self._publisher.pending,
            "lost_batches": self._spool.lost_batches,
        }
