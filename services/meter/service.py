"""The loop of the meter: take what meters say or recordings hold, hand it on to be published, say how it goes."""

import logging
import time
from collections.abc import Callable, Sequence

from clock import ServiceClock
from errors import ContractError
from meter.batching import Batcher, Position
from meter.group import MeterGroup
from meter.outlet import Outlet, Rules
from meter.readings import Source
from meter.sources.plan import Planned
from meter.status import Identity, StatusBoard
from meter.strangers import StrangerWatch
from schemas import SampleBatch

log = logging.getLogger(__name__)

ROUND_S = 0.1
"""What meters have said is taken so often."""
READ_TIMEOUT_S = 0.2
"""How long a read of a recording may take: the service stops and tells its status no later."""
_RECEIPT_WAIT_S = 0.02


class MeterService:
    """Forgets nothing that it read, until `stopping` says so.

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
        self._outlet = outlet
        self._publisher = outlet.publisher
        self._rules = rules
        self._board = StatusBoard(identity)
        self._clock = clock
        self._stopping = stopping
        self._watch = watch
        self._gave_up = False
        self._positions: dict[tuple[str, str, str, str], Position] = {}
        self._group = MeterGroup((), rules.limits(recorded=False), outlet)
        self._strangers: StrangerWatch | None = None

    def announce(self) -> None:
        """Say that the service is there, with no data yet; call before connecting, so that the last will is known."""
        self._tell()

    def serve(self, plans: Sequence[Planned], strangers: StrangerWatch | None = None) -> None:
        """Read all meters at once until stopped; then their last samples are published. A missing one is waited for."""
        self._group = group = MeterGroup(plans, self._rules.limits(recorded=False), self._outlet)
        self._strangers = strangers
        group.start()
        if strangers is not None:
            strangers.start()
        try:
            while not self._stopping() and not group.is_over:
                self._step(group)
                time.sleep(ROUND_S)
        finally:
            if strangers is not None:
                strangers.stop()
            for name in group.stop():
                log.warning("meter %s did not let go in time; it is left behind", name)
        self._step(group)
        group.flush()

    def play(self, plans: Sequence[Planned]) -> bool:
        """Read every recording to its end. False when one could not be opened; each such is one line in the log."""
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
        self._outlet.bus.set_status(self._rules.site, self._board.offline(self._health()))

    def _step(self, group: MeterGroup) -> None:
        group.step(self._clock.now_ns(), time.monotonic(), self._board)
        if self._strangers is not None:
            self._strangers.nodes_in_use = group.nodes
        self._publisher.step()
        self._tell()

    def _read_all(self, source: Source) -> None:
        stream = source.stream
        batcher = Batcher(stream, self._rules.limits(recorded=True), self._positions.get(stream.key))
        refused_before = batcher.position.refused
        ended = False
        while not ended and not self._stopping():
            samples = batcher.position.samples
            readings = source.read(READ_TIMEOUT_S)
            ended = readings is None
            batcher.note(source.counts, source.health.new_values_hz, self._outlet.dropped_samples(stream))
            self._publish(batcher.finish_file() if readings is None else batcher.add(readings))
            if batcher.position.samples > samples:
                self._board.saw_sample(stream.dut, time.monotonic())
            self._positions[stream.key] = batcher.position
            self._publisher.step()
            self._tell()
            if self._rules.speed == 0:
                ended = not self.confirm(self._rules.unconfirmed_batches) or ended
        source.close()
        refused = batcher.position.refused - refused_before
        if refused:
            log.warning("meter %s at %s: %d implausible or late readings refused", stream.meter, stream.dut, refused)

    def _publish(self, batches: Sequence[SampleBatch]) -> None:
        self._outlet.publish(batches)

    def _tell(self) -> None:
        self._watch()
        now_s, now_ns = time.monotonic(), self._clock.now_ns()
        remark = self._strangers.remark if self._strangers is not None else ""
        news = (self._group.news(now_ns), remark)
        if not self._board.is_due(now_s, news):
            return
        samples = self._group.samples + sum(position.samples for position in self._positions.values())
        status = self._board.tell(now_s, samples, self._health(), self._group.states(now_ns), remark, news)
        self._outlet.bus.set_status(self._rules.site, status)

    def _health(self) -> dict[str, float]:
        counters = self._group.counters(self._clock.now_ns())
        positions = self._positions.values()
        return {
            **counters,
            "rejected_frames": counters["rejected_frames"] + sum(each.rejected_frames for each in positions),
            "lost_samples": sum(
                [
                    counters["lost_samples"],
                    self._outlet.spool.lost_samples,
                    *(each.counts.lost_samples for each in positions),
                ]
            ),
            "spool_depth": self._publisher.pending,
            "lost_batches": self._outlet.spool.lost_batches,
        }
