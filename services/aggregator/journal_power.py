"""Which seconds of which meter have no power point yet, and the samples in them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from aggregator.journal_file import JournalFile

SECOND_NS = 1_000_000_000
BACKFILL_NS = 3600 * SECOND_NS
"""How far back power points go when a store is configured for a journal that has samples already."""
MeterKey = tuple[str, str, str]
"""Site, DUT, meter."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Whole seconds [start_ns, until_ns) of a timeline whose samples have come. `late` is the row of late samples."""

    stream: int
    meter: MeterKey
    start_ns: int
    until_ns: int
    late: int | None = None


class JournalPower:
    """Progress per timeline is stored with the points, so that a kill makes none twice and none never."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def note_late(self, stream: int, start_ns: int, until_ns: int) -> None:
        """A batch came; where its seconds have points already they are due again. Inside the batch's transaction."""
        self._file.db.execute(
            "INSERT INTO power_late SELECT stream, ?, min(?, done_ns) FROM power_done WHERE stream=? AND done_ns>?",
            (start_ns, until_ns, stream, start_ns),
        )

    def begin(self) -> None:
        """Timelines that no store has had anything of: their points go back an hour at most."""
        with self._file.transaction():
            self._file.db.execute(
                "INSERT INTO power_done SELECT stream, max(first_ns, watermark_ns-?)/?*? FROM streams"
                " WHERE stream NOT IN (SELECT stream FROM power_done)",
                (BACKFILL_NS, SECOND_NS, SECOND_NS),
            )

    def pending(self) -> list[Pending]:
        """Stretches that are due, those of late samples first."""
        late = self._file.db.execute(
            "SELECT l.stream, site, dut, meter, l.start_ns, l.until_ns, l.rowid FROM power_late l"
            " JOIN streams s ON s.stream=l.stream ORDER BY l.rowid"
        )
        found = [Pending(row[0], row[1:4], _floor(row[4]), _ceiling(row[5]), row[6]) for row in late]
        rows = self._file.db.execute(
            "SELECT s.stream, site, dut, meter, coalesce(done_ns, first_ns), watermark_ns"
            " FROM streams s LEFT JOIN power_done d ON d.stream=s.stream"
            " WHERE done_ns IS NULL OR watermark_ns>=done_ns+?",
            (SECOND_NS,),
        )
        for row in rows:
            start_ns, until_ns = _floor(row[4]), _floor(row[5])
            if until_ns > start_ns:
                found.append(Pending(row[0], row[1:4], start_ns, until_ns))
        return found

    def next_batch_ns(self, stream: int, after_ns: int, end_ns: int, *, started: bool = True) -> int:
        """Where a timeline's next batch begins, in [after, end]; with `started` one that began before counts too."""
        row = self._file.db.execute(
            f"SELECT start_ns FROM batches WHERE stream=?1 AND until_ns>?2 {'' if started else 'AND start_ns>=?2'}"
            " ORDER BY until_ns LIMIT 1",
            (stream, after_ns),
        ).fetchone()
        return end_ns if row is None else min(max(int(row[0]), after_ns), end_ns)

    def batches(self, meter: MeterKey, start_ns: int, until_ns: int) -> Iterator[bytes]:
        """Batches of a meter, whatever its timelines, that overlap [start, until), packed."""
        streams = self._file.db.execute(
            "SELECT stream FROM streams WHERE site=? AND dut=? AND meter=? AND first_ns<? AND watermark_ns>=?"
            " ORDER BY stream",
            (*meter, until_ns, start_ns),
        ).fetchall()
        for (stream,) in streams:
            rows = self._file.db.execute(
                "SELECT start_ns, payload FROM batches WHERE stream=? AND until_ns>? ORDER BY until_ns",
                (stream, start_ns),
            )
            for batch_start_ns, payload in rows:
                if batch_start_ns >= until_ns:
                    break
                yield payload

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """For points and progress together."""
        with self._file.transaction():
            yield

    def mark_done(self, stretches: Sequence[Pending]) -> None:
        """These have their points, inside a transaction."""
        for each in stretches:
            if each.late is not None:
                self._file.db.execute("DELETE FROM power_late WHERE rowid=?", (each.late,))
            else:
                self._file.db.execute("INSERT OR REPLACE INTO power_done VALUES (?, ?)", (each.stream, each.until_ns))


def _floor(t_ns: int) -> int:
    return t_ns // SECOND_NS * SECOND_NS


def _ceiling(t_ns: int) -> int:
    return -(-t_ns // SECOND_NS) * SECOND_NS
