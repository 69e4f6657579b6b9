"""The journal's clock exchanges: what an aggregator's host heard of each timeline, and which of it a train used."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from aggregator.exchange import Exchange
from aggregator.journal_file import JournalFile
from schemas.status import Service

BEFORE_NS = 300 * 10**9
"""Exchanges from so long before a train are used for it."""
AFTER = 4
"""And the first ones after it, this many."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An exchange with a service. `asker` is the clock of t1 and t4: a boot of a host, or the aggregator's timeline."""

    asker: str
    site: str
    service: Service
    timeline_id: str
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class Around:
    """Exchanges around a train, in order of time."""

    before: tuple[Exchange, ...]
    """From before its end."""
    after: tuple[Exchange, ...]


class JournalExchanges:
    """Reads them by the time of a train; stores them inside the transactions of the journal."""

    def __init__(self, file: JournalFile) -> None:
        self._file, self._db = file, file.db
        self.stored: Counter[tuple[str, Service, str]] = Counter()
        """How many this process has stored, by site, service and timeline: tells that there are new ones."""

    def store(self, heard: Iterable[Heard], arrived_ns: int) -> None:
        """Put them down."""
        for each in heard:
            who = (each.asker, each.site, each.service, each.timeline_id)
            self._db.execute(
                "INSERT OR IGNORE INTO clocks (asker, site, service, timeline_id) VALUES (?, ?, ?, ?)", who
            )
            self.stored[who[1:]] += 1
            t = each.exchange
            self._db.execute(
                "INSERT INTO exchanges (clock, t1_ns, t2_ns, t3_ns, t4_ns, arrived_ns) VALUES"
                " ((SELECT clock FROM clocks WHERE asker=? AND site=? AND service=? AND timeline_id=?), ?, ?, ?, ?, ?)",
                (*who, t.t1_ns, t.t2_ns, t.t3_ns, t.t4_ns, arrived_ns),
            )

    def clocks(self, site: str, service: Service, timeline_id: str) -> dict[str, int]:
        """Number of a timeline's clock with each asker that has exchanges with it."""
        rows = self._db.execute(
            "SELECT asker, clock FROM clocks WHERE site=? AND service=? AND timeline_id=? ORDER BY asker",
            (site, service, timeline_id),
        )
        return {str(asker): int(clock) for asker, clock in rows}

    def around(self, clock: int, start_ns: int, end_ns: int, last: int | None, *, asked: bool = False) -> Around:
        """Around a train in time of the publisher (`asked`: of the asker); only those up to the row `last`."""
        column, limit = "t1_ns" if asked else "t2_ns", 2**62 if last is None else last
        what = f"SELECT t1_ns, t2_ns, t3_ns, t4_ns FROM exchanges WHERE clock=? AND exchange<=? AND {column}"
        before = self._db.execute(
            f"{what}>=? AND {column}<=? ORDER BY {column}", (clock, limit, start_ns - BEFORE_NS, end_ns)
        ).fetchall()
        after = self._db.execute(f"{what}>? ORDER BY {column} LIMIT ?", (clock, limit, end_ns, AFTER)).fetchall()
        return Around(tuple(Exchange(*row) for row in before), tuple(Exchange(*row) for row in after))

    def newest(self, clock: int) -> Exchange | None:
        """The last exchange with a timeline."""
        row = self._db.execute(
            "SELECT t1_ns, t2_ns, t3_ns, t4_ns FROM exchanges WHERE clock=? ORDER BY t2_ns DESC LIMIT 1", (clock,)
        ).fetchone()
        return Exchange(*row) if row else None

    def fixed(self, event_id: UUID) -> int:
        """The last row that results of a train may use: the newest when this is asked first, ever after the same."""
        wanted = "SELECT last_exchange FROM clock_limits WHERE event_id=?"
        row = self._db.execute(wanted, (str(event_id),)).fetchone()
        if row is None:
            with self._file.transaction():
                self._db.execute(
                    "INSERT INTO clock_limits (event_id, last_exchange)"
                    " VALUES (?, coalesce((SELECT max(exchange) FROM exchanges), 0))",
                    (str(event_id),),
                )
            row = self._db.execute(wanted, (str(event_id),)).fetchone()
        return int(row[0])

    def forget(self, before_ns: int) -> int:
        """Delete what arrived before a time, in a transaction of its own; returns how many. The newest row stays."""
        with self._file.transaction():
            gone = self._db.execute(
                "DELETE FROM exchanges WHERE arrived_ns<? AND exchange<(SELECT max(exchange) FROM exchanges)",
                (before_ns,),
            ).rowcount
            self._db.execute(
                "DELETE FROM clocks WHERE NOT EXISTS (SELECT 1 FROM exchanges e WHERE e.clock=clocks.clock)"
            )
        self.stored.clear()
        return gone
