"""Trains on the timelines of meters: by identity where that is known, else by the exchanges in the journal."""

from collections.abc import Callable
from uuid import UUID

from aggregator.clocks import Placed, Timeline, by_exchange, place
from aggregator.exchange import Exchange, fit
from aggregator.join import Held
from aggregator.journal_exchanges import AFTER, Around, JournalExchanges

NEAR_NS = 5 * 10**9
"""How far a rough offset may be off: clocks drift by less until the next exchange."""
REMEMBERED = 4096
"""Trains and meters whose placing is not worked out again while nothing new is heard of them."""


class Placer:
    """Reads the journal and nothing else: the same journal places a train the same way."""

    def __init__(self, exchanges: JournalExchanges) -> None:
        self._exchanges = exchanges
        self._seen: dict[tuple[UUID, str], tuple[tuple[int, int], Placed]] = {}

    def now(self, train: Held, meter: Timeline) -> Placed:
        """With all exchanges that there are: is it time to compute? Worked out anew when there are new ones."""
        stored = self._exchanges.stored
        news = (
            stored[train.site, "runner", train.timeline.timeline_id],
            stored[train.site, "meter", meter.timeline_id],
        )
        key = (train.event_id, meter.timeline_id)
        if key not in self._seen or self._seen[key][0] != news:
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            self._seen[key] = (news, self._placed(train, meter, lambda: None))
        return self._seen[key][1]

    def for_result(self, train: Held, meter: Timeline) -> Placed:
        """With the exchanges that there were when results of the train were computed first."""
        return self._placed(train, meter, lambda: self._exchanges.fixed(train.event_id))

    def rough_ns(self, site: str, runner: Timeline, meter: Timeline) -> tuple[int, int]:
        """What to add to times of a runner, and how far that may be off; 0 where nobody knows."""
        state = place(runner, meter)
        if state.bound_s is not None:
            return state.offset_ns, 0
        mine = self._exchanges.clocks(site, "runner", runner.timeline_id)
        other = self._exchanges.clocks(site, "meter", meter.timeline_id) if mine else {}
        for asker in sorted(mine.keys() & other.keys()):
            a, b = self._exchanges.newest(mine[asker]), self._exchanges.newest(other[asker])
            if a is not None and b is not None:
                return b.high_ns - a.high_ns, NEAR_NS
        return 0, 0

    def _placed(self, train: Held, meter: Timeline, last: Callable[[], int | None]) -> Placed:
        state = place(train.timeline, meter)
        if state.bound_s is not None:
            return Placed(state)
        limit = last()
        runners = self._exchanges.clocks(train.site, "runner", train.timeline.timeline_id)
        meters = self._exchanges.clocks(train.site, "meter", meter.timeline_id) if runners else {}
        found = [
            self._by_asker(train, runners[asker], meters[asker], limit)
            for asker in sorted(runners.keys() & meters.keys())
        ]
        known = [each for each in found if each.state.bound_s is not None]
        return min(known, key=lambda each: each.state.bound_s or 0.0, default=Placed(state, settled=False))

    def _by_asker(self, train: Held, runner: int, meter: int, last: int | None) -> Placed:
        of_runner = self._exchanges.around(runner, train.start_ns, train.end_ns, last)
        runner_fit = fit(_used(of_runner))
        start, end = runner_fit.offset_at(train.start_ns), runner_fit.offset_at(train.end_ns)
        if start is None or end is None:
            return Placed(by_exchange(train.start_ns, train.end_ns, runner_fit, fit(())), settled=False)
        asked_ns = train.start_ns - start[0], train.end_ns - end[0]
        of_meter = self._exchanges.around(meter, *asked_ns, last, asked=True)
        meter_fit = fit(of_meter.before or of_meter.after)
        settled = len(of_runner.after) >= AFTER and bool(of_meter.before or len(of_meter.after) >= AFTER)
        return Placed(by_exchange(train.start_ns, train.end_ns, runner_fit, meter_fit), settled)


def _used(around: Around) -> tuple[Exchange, ...]:
    """Of a runner, which is silent inside its trains, those before and those after."""
    return around.before + around.after
