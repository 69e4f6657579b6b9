"""The journal: what has arrived and what was made of it, in one SQLite file. Committed before anything is acknowledged.

It is the only memory of the aggregator: a start after a kill reads from it all that the process knew.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from uuid import UUID

from aggregator.clocks import Timeline
from aggregator.join import Held, Stream, StreamKey
from aggregator.journal_file import JournalFile
from aggregator.journal_outbox import JournalOutbox
from aggregator.journal_power import JournalPower
from aggregator.journal_results import JournalResults
from schemas import HostClock, MeterKind, OperationEvent, SampleBatch

_CLOCKS_APART_NS = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message that can be used, with the bytes that it came in."""

    message: SampleBatch | OperationEvent
    payload: bytes


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
        self.outbox = JournalOutbox(self._file)
        self.power = JournalPower(self._file)

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self._file.path

    def close(self) -> None:
        """Close the file and give up the lock."""
        self._file.close()

    # --- what arrives -------------------------------------------------------------------------------------------

    def commit(self, arrivals: Sequence[Arrival], arrived_ns: int) -> list[Arrival]:
        """Store what is not there yet, in one transaction; returns what was new."""
        with self._file.transaction():
            return [arrival for arrival in arrivals if self._store(arrival, arrived_ns)]

    def _store(self, arrival: Arrival, arrived_ns: int) -> bool:
        payload = zlib.compress(arrival.payload, 1)
        if isinstance(arrival.message, SampleBatch):
            return self._store_batch(arrival.message, payload, arrived_ns)
        return self._store_event(arrival.message, payload, arrived_ns)

    def _store_event(self, event: OperationEvent, payload: bytes, arrived_ns: int) -> bool:
        cursor = self._db.execute(
            "INSERT OR IGNORE INTO events (event_id, site, dut, run_id, start_ns, end_ns, arrived_ns, payload)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                str(event.event_id),
                event.site,
                event.dut,
                event.run_id,
                event.start_ns,
                event.end_ns,
                arrived_ns,
                payload,
            ),
        )
        return cursor.rowcount == 1

    def _store_batch(self, batch: SampleBatch, payload: bytes, arrived_ns: int) -> bool:
        stream = self._stream_row(batch)
        cursor = self._db.execute(
            "INSERT OR IGNORE INTO batches (stream, seq, start_ns, until_ns, arrived_ns, payload)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (stream, batch.seq, batch.start_ns, batch.until_ns, arrived_ns, payload),
        )
        if cursor.rowcount == 1:
            self._db.execute("UPDATE streams SET first_ns=min(first_ns, ?) WHERE stream=?", (batch.start_ns, stream))
            self._advance(stream)
            self.power.note_late(stream, batch.start_ns, batch.until_ns)
        return cursor.rowcount == 1

    def _stream_row(self, batch: SampleBatch) -> int:
        found = self._db.execute(
            "SELECT stream FROM streams WHERE site=? AND dut=? AND meter=? AND timeline_id=?", batch.stream
        ).fetchone()
        if found:
            return int(found[0])
        clock = batch.host_clock
        cursor = self._db.execute(
            "INSERT INTO streams (site, dut, meter, timeline_id, boot_id, wall_minus_monotonic_ns, model, kind,"
            " period_ns, first_ns, watermark_ns, next_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *batch.stream,
                clock.boot_id if clock else None,
                clock.wall_minus_monotonic_ns if clock else None,
                batch.meter_model,
                batch.meter_kind,
                batch.period_ns,
                batch.start_ns,
                batch.start_ns,
                batch.seq,
            ),
        )
        return int(cursor.lastrowid or 0)

    def _advance(self, stream: int) -> None:
        """Move the watermark over the batches that follow each other without a gap in `seq`."""
        (next_seq,) = self._db.execute("SELECT next_seq FROM streams WHERE stream=?", (stream,)).fetchone()
        rows = self._db.execute(
            "SELECT seq, until_ns FROM batches WHERE stream=? AND seq>=? ORDER BY seq", (stream, next_seq)
        )
        until_ns = None
        for seq, batch_until_ns in rows:
            if seq != next_seq:
                break
            next_seq, until_ns = seq + 1, batch_until_ns
        if until_ns is not None:
            self._db.execute(
                "UPDATE streams SET next_seq=?, watermark_ns=max(watermark_ns, ?) WHERE stream=?",
                (next_seq, until_ns, stream),
            )

    def skip_missing(self, site: str, dut: str) -> None:
        """Stop waiting for batches of a DUT that have not come by a deadline."""
        with self._file.transaction():
            rows = self._db.execute(
                "SELECT s.stream, min(b.seq) FROM streams s JOIN batches b ON b.stream=s.stream AND b.seq>s.next_seq"
                " WHERE s.site=? AND s.dut=? GROUP BY s.stream",
                (site, dut),
            ).fetchall()
            for stream, seq in rows:
                self._db.execute("UPDATE streams SET next_seq=? WHERE stream=?", (seq, stream))
                self._advance(stream)

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

    def done_near(self, site: str, dut: str, start_ns: int, end_ns: int) -> list[OperationEvent]:
        """Trains of a DUT that have a result and may overlap [start, end], clocks being a day apart at most."""
        rows = self._db.execute(
            "SELECT payload FROM events WHERE done=1 AND site=? AND dut=? AND end_ns>? AND start_ns<?"
            " ORDER BY start_ns, event_id",
            (site, dut, start_ns - _CLOCKS_APART_NS, end_ns + _CLOCKS_APART_NS),
        )
        return [_event(payload) for (payload,) in rows]

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

    def forget_samples(self, before_ns: int) -> int:
        """Delete batches that arrived before a time; returns how many."""
        with self._file.transaction():
            return self._db.execute("DELETE FROM batches WHERE arrived_ns<?", (before_ns,)).rowcount


def held_of(event: OperationEvent, arrived_ns: int) -> Held:
    """A train as the joiner holds it."""
    timeline = Timeline(event.timeline_id, event.host_clock)
    return Held(event.event_id, event.site, event.dut, timeline, event.start_ns, event.end_ns, arrived_ns)


def unpack_batch(packed: bytes) -> SampleBatch:
    """A batch as `Journal.batches` gives it."""
    return SampleBatch.model_validate_json(zlib.decompress(packed))


def _event(payload: bytes) -> OperationEvent:
    return OperationEvent.model_validate_json(zlib.decompress(payload))


def _stream_row(row: Sequence[object]) -> StreamRow:
    number, site, dut, meter, timeline_id, boot_id, constant, first_ns, watermark_ns, model, kind, period_ns = row
    clock = HostClock(boot_id=str(boot_id), wall_minus_monotonic_ns=int(str(constant))) if boot_id else None
    key: StreamKey = (str(site), str(dut), str(meter), str(timeline_id))
    stream = Stream(key, Timeline(key[3], clock), int(str(first_ns)), int(str(watermark_ns)))
    return StreamRow(int(str(number)), stream, str(model), cast(MeterKind, kind), int(str(period_ns)))
