"""The journal's sample batches: stored once, the watermark of their timeline moved, forgotten when old."""

from aggregator.journal_file import JournalFile
from aggregator.journal_power import JournalPower
from errors import ContractError
from schemas import SampleBatch


class JournalBatches:
    """Works inside the transactions of the journal, but for what says otherwise."""

    def __init__(self, file: JournalFile, power: JournalPower) -> None:
        self._file, self._db, self._power = file, file.db, power

    def store(self, batch: SampleBatch, payload: bytes, arrived_ns: int) -> bool:
        """Whether the batch is new. One from before samples that are forgotten is not.

        Raises ContractError when it contradicts the first batch of its timeline.
        """
        stream, forgotten_ns = self._stream(batch)
        if batch.until_ns <= forgotten_ns:
            return False
        cursor = self._db.execute(
            "INSERT OR IGNORE INTO batches (stream, seq, start_ns, until_ns, arrived_ns, payload)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (stream, batch.seq, batch.start_ns, batch.until_ns, arrived_ns, payload),
        )
        if cursor.rowcount == 1:
            self._db.execute("UPDATE streams SET first_ns=min(first_ns, ?) WHERE stream=?", (batch.start_ns, stream))
            self._advance(stream)
            self._power.note_late(stream, batch.start_ns, batch.until_ns)
        return cursor.rowcount == 1

    def forgotten_ns(self, batch: SampleBatch) -> int:
        """Samples of this timeline from before this time are not kept any more."""
        row = self._find(batch)
        return int(str(row[1])) if row else 0

    def _find(self, batch: SampleBatch) -> tuple[object, ...] | None:
        found: tuple[object, ...] | None = self._db.execute(
            "SELECT stream, forgotten_ns, model, kind, boot_id, wall_minus_monotonic_ns FROM streams"
            " WHERE site=? AND dut=? AND meter=? AND timeline_id=?",
            batch.stream,
        ).fetchone()
        return found

    def _stream(self, batch: SampleBatch) -> tuple[int, int]:
        """Row and forgotten time of the batch's timeline, which is made when it is new."""
        clock = batch.host_clock
        identity = (
            batch.meter_model,
            batch.meter_kind,
            clock.boot_id if clock else None,
            clock.wall_minus_monotonic_ns if clock else None,
        )
        found = self._find(batch)
        if found is not None:
            if found[2:] != identity:
                raise ContractError("model, kind or host clock of the meter changed within one timeline")
            return int(str(found[0])), int(str(found[1]))
        cursor = self._db.execute(
            "INSERT INTO streams (site, dut, meter, timeline_id, model, kind, boot_id,"
            " wall_minus_monotonic_ns, period_ns, first_ns, watermark_ns, next_seq)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*batch.stream, *identity, batch.period_ns, batch.start_ns, batch.start_ns, batch.seq),
        )
        return int(cursor.lastrowid or 0), 0

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

    def forget(self, before_ns: int) -> int:
        """Delete batches that arrived before a time, in a transaction of its own; returns how many."""
        with self._file.transaction():
            self._db.execute(
                "UPDATE streams SET forgotten_ns=max(forgotten_ns, coalesce("
                "(SELECT max(until_ns) FROM batches WHERE stream=streams.stream AND arrived_ns<?), 0))",
                (before_ns,),
            )
            return self._db.execute("DELETE FROM batches WHERE arrived_ns<?", (before_ns,)).rowcount
