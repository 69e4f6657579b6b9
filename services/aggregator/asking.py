"""The aggregator's side of the clock exchange: whom it asks when, and which answers count."""

from collections import Counter, deque
from dataclasses import dataclass, field

from aggregator.exchange import Exchange, fit
from aggregator.intake import parse_pong
from aggregator.journal_exchanges import Heard
from bus import Bus, Received
from clock import ServiceClock
from schemas import ClockPing, ServiceStatus
from schemas.status import Service

Key = tuple[str, Service, str]
"""Site, service, instance."""

BURST = 8
"""Pings to a publisher that has just come: a runner may be there for two seconds only."""
PAIR = 2
"""So many of them at once."""
QUICK_NS = 240_000_000
EVERY_NS = 5 * 10**9
PER_S = 20
"""All together are asked no oftener than this in the long run, however many there are."""
STEP_LIMIT = 64
LONGEST_DELAY_NS = 10 * 10**9
OPEN = 16
"""Pings without an answer that are remembered; later answers do not count."""
RECENT = 24


@dataclass(slots=True)
class _Publisher:
    """One that is there, or that is measuring. `due_ns` is on the aggregator's timeline."""

    started_ns: int
    is_online: bool = False
    due_ns: int = 0
    burst: int = 0
    asked: dict[str, int] = field(default_factory=dict)
    timeline_id: str = ""
    recent: deque[Exchange] = field(default_factory=lambda: deque(maxlen=RECENT))


class ClockAsker:
    """Asks every publisher that is online. What it says of clocks is for health; results read the journal."""

    def __init__(self, bus: Bus, clock: ServiceClock, without_meter: tuple[str, ...] = ()) -> None:
        self._bus, self._clock, self._without_meter = bus, clock, frozenset(without_meter)
        self._publishers: dict[Key, _Publisher] = {}
        self._bounds_s: dict[Key, float] = {}
        self._number = 0
        self.counts: Counter[str] = Counter(clock_exchanges=0)

    def saw_status(self, site: str, status: ServiceStatus) -> dict[str, float]:
        """Who is there. Returns what is known of its clock, by field name."""
        if status.service == "aggregator" or (status.duts and self._without_meter.issuperset(status.duts)):
            return {}
        key: Key = (site, status.service, status.instance)
        if status.state == "offline":
            self._publishers.pop(key, None)
            self._bounds_s.pop(key, None)
            return {}
        known = self._publishers.get(key)
        if known is None or known.started_ns != status.started_ns:
            known = self._publishers[key] = _Publisher(status.started_ns)
        if status.state == "online" and not known.is_online:
            known.due_ns, known.burst = self._clock.now_ns(), BURST
        known.is_online = status.state == "online"
        return self._figures(key, known)

    def ask(self) -> None:
        """Send the pings that are due, those that have waited longest first."""
        if not self._bus.connected:
            return
        now_ns = self._clock.now_ns()
        online = [(each.due_ns, key, each) for key, each in self._publishers.items() if each.is_online]
        due = sorted(each[:2] for each in online if each[0] <= now_ns)[:STEP_LIMIT]
        every_ns = max(EVERY_NS, len(online) * 10**9 // PER_S)
        for _, key in due:
            publisher = self._publishers[key]
            for _ in range(PAIR if publisher.burst else 1):
                self._ping(key, publisher)
            publisher.burst = max(0, publisher.burst - PAIR)
            publisher.due_ns = now_ns + (QUICK_NS if publisher.burst else every_ns)

    def _ping(self, key: Key, publisher: _Publisher) -> None:
        site, service, instance = key
        self._number += 1
        ping_id = f"{self._clock.timeline_id}-{self._number}"
        while len(publisher.asked) >= OPEN:
            del publisher.asked[next(iter(publisher.asked))]
        t1_ns = publisher.asked[ping_id] = self._clock.now_ns()
        self._bus.publish("ping", site, ClockPing(ping_id=ping_id, t1_ns=t1_ns), service=service, instance=instance)

    def heard(self, received: Received) -> Heard | None:
        """The exchange that an answer completes; None where it answers nothing of ours. Raises ContractError."""
        (site, service, instance), pong = parse_pong(received.topic, received.payload, received.retained)
        publisher = self._publishers.get((site, service, instance))
        t1_ns = publisher.asked.pop(pong.ping_id, None) if publisher is not None else None
        t4_ns = self._clock.at_ns(received.arrival_ns)
        if publisher is None or t1_ns is None:
            return None
        exchange = self._on_host_clock(t1_ns, pong.t2_ns, pong.t3_ns, t4_ns)
        if not (pong.t1_ns == t1_ns and pong.t2_ns <= pong.t3_ns and 0 <= exchange.delay_ns <= LONGEST_DELAY_NS):
            self.counts["clock_exchanges_refused"] += 1
            return None
        if pong.timeline_id != publisher.timeline_id:
            publisher.timeline_id = pong.timeline_id
            publisher.recent.clear()
        publisher.recent.append(exchange)
        self.counts["clock_exchanges"] += 1
        return Heard(self._asker, site, service, pong.timeline_id, exchange)

    def figures(self) -> dict[str, float]:
        """Health counters: exchanges so far, and the worst bound of all that are there."""
        worst = {"clock_bound_s": max(self._bounds_s.values())} if self._bounds_s else {}
        return {name: float(count) for name, count in sorted(self.counts.items())} | worst

    @property
    def _asker(self) -> str:
        """Whose clock t1 and t4 are of: that of a boot of this host outlives this process."""
        return self._clock.boot_id or self._clock.timeline_id

    def _on_host_clock(self, t1_ns: int, t2_ns: int, t3_ns: int, t4_ns: int) -> Exchange:
        constant_ns = self._clock.wall_minus_monotonic_ns if self._clock.boot_id else 0
        return Exchange(t1_ns - constant_ns, t2_ns, t3_ns, t4_ns - constant_ns)

    def _figures(self, key: Key, publisher: _Publisher) -> dict[str, float]:
        """Offset of its timeline against ours, and the bound: as they are now."""
        constant_ns = self._clock.wall_minus_monotonic_ns if self._clock.boot_id else 0
        known = fit(tuple(publisher.recent))
        found = known.offset_at(known.asked_at(self._clock.now_ns() - constant_ns))
        if found is None:
            self._bounds_s.pop(key, None)
            return {}
        self._bounds_s[key] = found[1]
        return {"clock_offset_s": (found[0] - constant_ns) / 1e9, "clock_bound_s": found[1]}
