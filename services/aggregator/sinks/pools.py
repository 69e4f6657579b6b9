"""Keeps the pools up with the results, and says their means: on their retained topics, and to the store."""

import logging

from aggregator.journal import Journal
from aggregator.pooling import pooled_energy
from aggregator.sinks.outbox import StoreOutbox
from aggregator.sinks.points import Point, pooled_point, pooled_superseded
from aggregator.sinks.results_topic import FLUSH_S
from bus import Bus
from schemas import EnergyResult, slug

log = logging.getLogger(__name__)

RESULTS_AT_ONCE = 500
"""Results that one round takes, so that a journal of years delays nothing else."""


class Pools:
    """The journal says how far it has come: after a kill it goes on there, and its means are those of no kill."""

    def __init__(self, bus: Bus, journal: Journal, store: StoreOutbox | None) -> None:
        self._bus, self._journal, self._store = bus, journal, store

    def step(self) -> None:
        """Take what results are new, then publish the means that changed."""
        self._take()
        if self._bus.connected:
            self._publish()

    def _take(self) -> None:
        pools = self._journal.pools
        before = pools.row()
        last, results, unreadable = self._journal.results.readable_after(before, RESULTS_AT_ONCE)
        for error in unreadable:
            log.warning("a result is in no pool: %s", error)
        if last == before:
            return
        with pools.transaction():
            for result in results:
                self._put(result)
            pools.set_row(last)

    def _put(self, result: EnergyResult) -> None:
        pools = self._journal.pools
        was = pools.pool_of(result)
        last_ns = None if was is None else pools.trains(was)[0].start_ns
        now = pools.put(result)
        for pool in sorted({each for each in (was, now) if each is not None}):
            pools.mark_changed(pool)
            if self._store is not None:
                self._store.put_pooled(self._points(pool, last_ns if pool == was else None))

    def _points(self, pool: int, last_ns: int | None) -> list[Point]:
        """The mean at its last train; where the last train of before has gone, no valid mean there."""
        key, trains = self._journal.pools.key(pool), self._journal.pools.trains(pool)
        pooled = pooled_energy(key, trains)
        now_ns = pooled.last_ns if pooled is not None else None
        gone = [pooled_superseded(key, last_ns)] if last_ns is not None and last_ns != now_ns else []
        return [*gone, *([pooled_point(key, pooled)] if pooled is not None else [])]

    def _publish(self) -> None:
        pools = self._journal.pools
        changed = pools.unpublished()
        for topic in dict.fromkeys(topic for _, topic in changed):
            newest = pools.newest(topic)
            pooled = None if newest is None else pooled_energy(pools.key(newest), pools.trains(newest))
            if pooled is not None:
                self._bus.publish(
                    "pooled",
                    pooled.site,
                    pooled,
                    dut=pooled.dut,
                    backend=pooled.backend,
                    operation=pooled.operation,
                    slug=slug(pooled.parameter_set),
                    variant=slug(pooled.variant),
                )
        if changed and self._bus.flush(FLUSH_S):
            with pools.transaction():
                pools.mark_published(pool for pool, _ in changed)
