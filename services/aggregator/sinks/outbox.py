"""Fills the journal's outbox with lines for the time series store, in the transaction of what they carry."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable

from aggregator.journal import Journal
from aggregator.journal_outbox import LineKind
from aggregator.sinks.points import Point, fleet_health, meter_health, operation_energy, superseded
from aggregator.sinks.power import PowerSeconds
from errors import ContractError
from schemas import EnergyResult, ServiceStatus

log = logging.getLogger(__name__)

CATCH_UP = 500
POWER_S = 1.0
"""Power points are looked for so often."""
TRIM_S = 10.0
NO_CLOCK_BEFORE_NS = 1_577_836_800 * 10**9
"""2020-01-01: who stamps an earlier time has not set its clock."""


class StoreOutbox:
    """What goes to the store. `line_of` raises ContractError for a point that no store takes."""

    def __init__(
        self, journal: Journal, line_of: Callable[[Point], str], now_ns: Callable[[], int], limit_bytes: int
    ) -> None:
        self._journal, self._line_of, self._now_ns, self._limit_bytes = journal, line_of, now_ns, limit_bytes
        self._power = PowerSeconds(journal.power)
        self._power_due_s = self._trim_due_s = float("-inf")
        self._unset_clocks: set[str] = set()
        self._heard: list[Point] = []
        self.counts: Counter[str] = Counter()
        journal.results.on_store = self._result

    def catch_up(self) -> None:
        """Lines of results that were stored while no store was configured, and power of the last hour before."""
        self._journal.power.begin()
        while found := self._journal.results.after(self._journal.outbox.results_row(), CATCH_UP):
            with self._journal.outbox.transaction():
                for row, result in found:
                    self._result(row, result, None)

    def step(self) -> None:
        """What services said, power points that are due; what is beyond the limit of the disk is given up."""
        now_s = time.monotonic()
        self.put_health()
        if now_s >= self._power_due_s:
            self._power_due_s = now_s + POWER_S
            self.put_power()
        if now_s >= self._trim_due_s:
            self._trim_due_s = now_s + TRIM_S
            if dropped := self._journal.outbox.trim(self._limit_bytes):
                log.warning("outbox full: gave up the %d oldest lines of power and health", dropped)

    def health(self, site: str, status: ServiceStatus) -> None:
        """A service's status, as it came; all that came in one round go in together."""
        now_ns = self._now_ns()
        self._heard += [fleet_health(site, status, now_ns), *meter_health(site, status, now_ns)]

    def figures(self) -> dict[str, float]:
        """Health counters of the outbox, by name."""
        totals, oldest_ns = self._journal.outbox.totals(), self._journal.outbox.oldest_ns()
        return {
            "outbox_depth": float(totals.lines),
            "outbox_bytes": float(totals.bytes),
            "outbox_dropped": float(totals.dropped),
            "dead_letters": float(self._journal.outbox.letters()),
            "lag_s": 0.0 if oldest_ns is None else max(0.0, (self._now_ns() - oldest_ns) / 1e9),
            **{name: float(count) for name, count in sorted(self.counts.items())},
        }

    def _result(self, row: int, result: EnergyResult, previous_ns: int | None) -> None:
        points: list[Point] = []
        if previous_ns is not None and previous_ns != result.start_ns:
            points.append(superseded(result, previous_ns))
        seen = self._journal.results.has_meter(result.event_id)
        if seen:
            points += self._without_meter(result)
        if result.meter is not None or not seen:
            points.append(operation_energy(result))
        self._put("energy", points)
        self._journal.outbox.set_results_row(row)

    def _without_meter(self, result: EnergyResult) -> list[Point]:
        """What must become of the point without a meter, if there is one, since a meter has a result for the train."""
        start_ns = self._journal.results.start_of(result.event_id, None)
        return [] if start_ns is None else [superseded(result.model_copy(update={"meter": None}), start_ns)]

    def put_pooled(self, points: Iterable[Point]) -> None:
        """Means of a pool that has changed, inside the transaction of the change."""
        self._put("energy", points)

    def put_health(self) -> None:
        """What services said since the last time."""
        if self._heard:
            with self._journal.outbox.transaction():
                self._put("health", self._heard)
            self._heard = []

    def put_power(self) -> None:
        """Power points that are due, with the progress that they are."""
        points, done = self._power.due()
        if done:
            with self._journal.power.transaction():
                self._put("power", points)
                self._journal.power.mark_done(done)

    def _put(self, kind: LineKind, points: Iterable[Point]) -> None:
        lines: list[str] = []
        for point in points:
            try:
                lines.append(self._line_of(point))
            except ContractError as error:
                self.counts["refused_points"] += 1
                log.warning("no line for a point (%d so far): %s", self.counts["refused_points"], error)
            if point.t_ns < NO_CLOCK_BEFORE_NS:
                self._note_unset_clock(point)
        self._journal.outbox.put(kind, lines, self._now_ns())

    def _note_unset_clock(self, point: Point) -> None:
        self.counts["before_2020"] += 1
        owner = f"{point.tags['site']}/{point.tags.get('dut', point.tags.get('instance', ''))}"
        if owner not in self._unset_clocks:
            self._unset_clocks.add(owner)
            log.warning(
                "times of %s are before 2020: set the clock of its host; points go to the store as stamped", owner
            )
