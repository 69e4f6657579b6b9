"""All meters of the service: each in its thread, their batches made here, in the main loop."""

import logging
import math
import time
from collections.abc import Sequence

from meter.batching import BatchLimits
from meter.feed import Feed
from meter.live import LiveMeter
from meter.outlet import Outlet
from meter.readings import CLOSE_MOST_S
from meter.sources.plan import Planned
from meter.status import StatusBoard
from schemas import MeterState

log = logging.getLogger(__name__)

STOP_S = CLOSE_MOST_S + 3.0
"""Meters are given so long to end their read and to be closed; one that is stuck in its driver is left behind. Whoever
runs the service kills it after 15 s (deploy/pi, docker-compose.yml)."""
WARN_EVERY_S = 60.0
"""Between two warnings that readings of a meter are refused: a sensor has up to 100 a second."""


class MeterGroup:
    """Nothing here waits for a meter, but `stop`, which is bounded."""

    def __init__(self, plans: Sequence[Planned], limits: BatchLimits, outlet: Outlet) -> None:
        self._meters = [(LiveMeter(planned), Feed(limits)) for planned in plans]
        self._outlet = outlet
        self._warned = [(0, -math.inf) for _ in self._meters]
        """Of each meter: implausible readings at the last warning, and its moment."""

    def start(self) -> None:
        """Begin to read."""
        for meter, _ in self._meters:
            meter.start()

    def step(self, now_ns: int, now_s: float, board: StatusBoard) -> None:
        """Publish what has come; `now_ns` is of the timeline. Raises RuntimeError when a reader has failed."""
        for meter, feed in self._meters:
            said = meter.take()
            if said:
                self._outlet.publish(feed.add(said, self._outlet.dropped_samples(feed.stream)))
                if feed.last_ns is not None:
                    board.saw_sample(meter.planned.dut, now_s - (now_ns - feed.last_ns) / 1e9)
            self._outlet.publish(feed.expire(now_ns))
        self._warn(now_s)

    def stop(self) -> list[str]:
        """End reading and close the meters. The names of those that did not let go in time."""
        for meter, _ in self._meters:
            meter.stop()
        end_s = time.monotonic() + STOP_S
        stuck = [meter for meter, _ in self._meters if not meter.join(max(0.0, end_s - time.monotonic()))]
        return [f"{meter.planned.meter} of {meter.planned.dut}" for meter in stuck]

    def flush(self) -> None:
        """Publish the unfinished batches."""
        for _, feed in self._meters:
            self._outlet.publish(feed.flush())

    @property
    def is_over(self) -> bool:
        """Whether every source has ended and everything was taken."""
        return all(meter.is_over for meter, _ in self._meters)

    def news(self, now_ns: int) -> object:
        """Another value when a meter comes, goes or is in trouble."""
        return tuple(
            (
                feed.is_fresh(now_ns),
                bool(feed.implausible),
                meter.health.connected,
                meter.health.detail,
                meter.health.node,
            )
            for meter, feed in self._meters
        )

    @property
    def nodes(self) -> frozenset[str]:
        """Where the meters are that were found."""
        return frozenset(meter.health.node for meter, _ in self._meters if meter.health.node is not None)

    @property
    def samples(self) -> int:
        """Valid ones so far."""
        return sum(feed.position.samples for _, feed in self._meters)

    def states(self, now_ns: int) -> tuple[MeterState, ...]:
        """For the status."""
        return tuple(
            feed.state(meter.planned, meter.counts, meter.health, self._outlet.dropped_samples(feed.stream), now_ns)
            for meter, feed in self._meters
            if meter.planned.meter
        )

    def counters(self, now_ns: int) -> dict[str, float]:
        """Sums over all meters, for the status; what the spool dropped is not among the lost samples."""
        states = self.states(now_ns)
        return {
            "rejected_frames": sum(sum(each.rejected.values()) for each in states),
            "lost_samples": sum(meter.counts.lost_samples for meter, _ in self._meters),
            "gaps": sum(each.gaps for each in states),
            "meters_connected": sum(each.connected for each in states),
            "new_values_per_s": sum(each.new_values_per_s or 0.0 for each in states),
        }

    def _warn(self, now_s: float) -> None:
        """Data that are lost are in the log, with the number so far."""
        for place, (meter, feed) in enumerate(self._meters):
            told, told_s = self._warned[place]
            number = feed.position.implausible
            if number > told and now_s - told_s >= WARN_EVERY_S:
                self._warned[place] = (number, now_s)
                last = f", the last: {feed.implausible}" if feed.implausible else ""
                name, dut = meter.planned.meter, meter.planned.dut
                log.warning("meter %s at %s: %d implausible readings refused so far%s", name, dut, number, last)
