"""The journal: what has arrived and what was made of it, in one SQLite file. Committed before anything is acknowledged.

It is the only memory of the aggregator: a start after a kill reads from it all that the process knew.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from uuid import UUID

from aggregator.clocks import Timeline
from aggregator.join import Held, Stream, StreamKey
from aggregator.journal_batches import JournalBatches
from aggregator.journal_exchanges import Heard, JournalExchanges
from aggregator.journal_file import JournalFile, stored
from aggregator.journal_outbox import JournalOutbox
from aggregator.journal_pools import JournalPools
from aggregator.journal_power import JournalPower
from aggregator.journal_results import JournalResults
from errors import ContractError
from schemas import HostClock, MeterKind, OperationEvent, SampleBatch

_DONE = "FROM events WHERE done=1 AND site=:site AND dut=:dut AND end_ns>:start AND start_ns<:until"
_CLOCKS_APART_NS = 86_400 * 10**9
"""Timelines that may have to do with each other begin with clocks that are a day apart at most."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message that can be used, with the bytes and the topic that it came in."""

    message: SampleBatch | OperationEvent
    payload: bytes
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a group: new and stored, or refused because it contradicts what is there. The rest was there."""

    new: list[Arrival]
    refused: list[tuple[Arrival, str]]


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A meter's timeline as the journal knows it."""

    row: int
    stream: Stream
    model: str
    kind: MeterKind
    period_ns: int


class Journal:
    """One journal file. Raises SettingsError where the operator must act: in use, unreadable, disk full."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._file = JournalFile(path, read_only)
        self._db = self._file.db
        self.results = JournalResults(self._file)
        self.pools = JournalPools(self._file)
        self.outbox = JournalOutbox(self._file)
        self.power = JournalPower(self._file)
        self.arrived = JournalBatches(self._file, self.power)
        self.exchanges = JournalExchanges(self._file)

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self._file.path

    def close(self) -> None:
        """Close the file and give up the lock."""
        self._file.close()

    # --- what arrives -------------------------------------------------------------------------------------------

    def commit(self, arrivals: Sequence[Arrival], arrived_ns: int, heard: Sequence[Heard] = ()) -> Committed:
        """Store what is not there yet, and clock exchanges, in one transaction."""
        done = Committed([], [])
        with self._file.transaction():
            self.exchanges.store(heard, arrived_ns)
            for arrival in arrivals:
                try:
                    if self._store(arrival, arrived_ns):
                        done.new.append(arrival)
                except ContractError as error:
                    done.refused.append((arrival, str(error)))
        return done

    def _store(self, arrival: Arrival, arrived_ns: int) -> bool:
        payload = zlib.compress(arrival.payload, 1)
        if isinstance(arrival.message, SampleBatch):
            return self.arrived.store(arrival.message, payload, arrived_ns)
        return self._store_event(arrival.message, payload, arrived_ns)

    def _store_event(self, event: OperationEvent, payload: bytes, arrived_ns: int) -> bool:
        """Whether it is new. Raises ContractError when its id belongs to a train of another DUT."""
        owner = self._db.execute("SELECT site, dut FROM events WHERE event_id=?", (str(event.event_id),)).fetchone()
        if owner is not None and owner != (event.site, event.dut):
            raise ContractError(f"event_id {event.event_id} is that of a train of {owner[0]}/{owner[1]}")
        clock = event.host_clock
        cursor = self._db.execute(
            "INSERT OR IGNORE INTO events (event_id, site, dut, run_id, start_ns, end_ns, timeline_id, boot_id,"
            " wall_minus_monotonic_ns, arrived_ns, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                str(event.event_id),
                event.site,
                event.dut,
                event.run_id,
                event.start_ns,
                event.end_ns,
                event.timeline_id,
                clock.boot_id if clock else None,
                clock.wall_minus_monotonic_ns if clock else None,
                arrived_ns,
                payload,
            ),
        )
        return cursor.rowcount == 1

    # --- what is known ------------------------------------------------------------------------------------------

    def streams(self, site: str | None = None, dut: str | None = None) -> list[StreamRow]:
        """All meters' timelines, or those of one DUT."""
        where, values = ("", ()) if dut is None else (" WHERE site=? AND dut=?", (site, dut))
        rows = self._db.execute(
            "SELECT stream, site, dut, meter, timeline_id, boot_id, wall_minus_monotonic_ns, first_ns, watermark_ns,"
            f" model, kind, period_ns FROM streams{where} ORDER BY stream",
            values,
        )
        return [_stream_row(row) for row in rows]

    def held(self) -> list[Held]:
        """Trains that no result has been made of yet, in order of arrival."""
        rows = self._db.execute("SELECT payload, arrived_ns FROM events WHERE done=0 ORDER BY arrival")
        return [held_of(_event(payload), arrived_ns) for payload, arrived_ns in rows]

    def event(self, event_id: UUID) -> OperationEvent:
        """A train by its id; it must be there."""
        row = self._db.execute("SELECT payload FROM events WHERE event_id=?", (str(event_id),)).fetchone()
        return _event(row[0])

    def last_done(self) -> list[Held]:
        """The train of each DUT that ends last of those that have a result."""
        rows = self._db.execute(
            "SELECT payload, arrived_ns, max(end_ns) FROM events WHERE done=1 GROUP BY site, dut ORDER BY site, dut"
        )
        return [held_of(_event(payload), arrived_ns) for payload, arrived_ns, _ in rows]

    def done_overlapping(
        self, batch: SampleBatch, offset_ns: Callable[[Timeline], tuple[int, int]]
    ) -> list[OperationEvent]:
        """Trains that have a result and overlap a batch; not those from before samples that are forgotten.

        `offset_ns` gives what to add to times of a timeline to have them on the batch's, and how far that may be off.
        """
        who = {"site": batch.site, "dut": batch.dut}
        wide = {"start": batch.start_ns - _CLOCKS_APART_NS, "until": batch.until_ns + _CLOCKS_APART_NS}
        timelines = self._db.execute(
            f"SELECT DISTINCT timeline_id, boot_id, wall_minus_monotonic_ns {_DONE}", who | wide
        ).fetchall()
        found: list[tuple[int, str, OperationEvent]] = []
        for timeline_id, boot_id, constant in timelines:
            ahead_ns, near_ns = offset_ns(Timeline(timeline_id, _host_clock(boot_id, constant)))
            span = {"start": batch.start_ns - ahead_ns - near_ns, "until": batch.until_ns - ahead_ns + near_ns}
            span |= {"forgotten": self.arrived.forgotten_ns(batch) - ahead_ns}
            rows = self._db.execute(
                f"SELECT start_ns, event_id, payload {_DONE} AND timeline_id=:timeline AND start_ns>=:forgotten",
                who | span | {"timeline": timeline_id},
            )
            found += [(start_ns, event_id, _event(payload)) for start_ns, event_id, payload in rows]
        return [event for _, _, event in sorted(found, key=lambda each: each[:2])]

    def batches(self, stream: int, start_ns: int, end_ns: int) -> Iterator[bytes]:
        """Batches of a timeline that overlap [start, end], packed, in order of `seq`."""
        rows = self._db.execute(
            "SELECT payload FROM batches WHERE stream=? AND until_ns>=? AND start_ns<=? ORDER BY seq",
            (stream, start_ns, end_ns),
        )
        yield from (payload for (payload,) in rows)

    def last_batches(self, limit: int) -> list[SampleBatch]:
        """The batches that were committed last, all at once."""
        rows = self._db.execute(
            "SELECT arrived_ns, payload FROM batches ORDER BY batch DESC LIMIT ?", (limit,)
        ).fetchall()
        return [unpack_batch(payload) for arrived_ns, payload in reversed(rows) if arrived_ns == rows[0][0]]

    def counts(self) -> dict[str, int]:
        """Rows by table."""
        names = ("streams", "batches", "events", "results")
        return {name: self._db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def held_of(event: OperationEvent, arrived_ns: int) -> Held:
    """A train as the joiner holds it."""
    timeline = Timeline(event.timeline_id, event.host_clock)
    return Held(event.event_id, event.site, event.dut, timeline, event.start_ns, event.end_ns, arrived_ns)


def unpack_batch(packed: bytes) -> SampleBatch:
    """A batch as `Journal.batches` gives it."""
    return stored(SampleBatch, packed)


def _event(payload: bytes) -> OperationEvent:
    return stored(OperationEvent, payload)


def _stream_row(row: Sequence[object]) -> StreamRow:
    number, site, dut, meter, timeline_id, boot_id, constant, first_ns, watermark_ns, model, kind, period_ns = row
    clock = _host_clock(boot_id, constant)
    key: StreamKey = (str(site), str(dut), str(meter), str(timeline_id))
    stream = Stream(key, Timeline(key[3], clock), int(str(first_ns)), int(str(watermark_ns)))
    return StreamRow(int(str(number)), stream, str(model), cast(MeterKind, kind), int(str(period_ns)))


def _host_clock(boot_id: object, constant: object) -> HostClock | None:
    return HostClock(boot_id=str(boot_id), wall_minus_monotonic_ns=int(str(constant))) if boot_id else None
