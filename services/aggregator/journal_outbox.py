"""The journal's outbox: lines for the time series store that it has not taken yet, and those that it refused.

Lines are put in the transaction of what they carry. The sender reads and deletes them on a connection of its own.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aggregator.journal_file import JournalFile
from errors import SettingsError

LineKind = Literal["energy", "power", "health"]
DROP_ROWS = 2000
LETTERS_KEPT = 10_000
"""Dead letters of power and health that are kept; those of energy are kept for ever."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A line in the outbox. `made_ns` is when it was put there."""

    line_id: int
    kind: LineKind
    made_ns: int
    line: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What waits, and what was given up for want of room since the journal began."""

    lines: int = 0
    bytes: int = 0
    droppable_bytes: int = 0
    dropped: int = 0


class JournalOutbox:
    """The writing end, on the journal's own connection; `put` belongs into a transaction."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """For lines that belong to nothing else that is stored."""
        with self._file.transaction():
            yield

    def put(self, kind: LineKind, lines: Sequence[str], made_ns: int) -> None:
        """Add lines, inside a transaction."""
        self._file.db.executemany(
            "INSERT INTO outbox (kind, made_ns, line) VALUES (?, ?, ?)", [(kind, made_ns, line) for line in lines]
        )

    def totals(self) -> Totals:
        """How much waits. Costs nothing: it is kept by triggers."""
        droppable = "sum(CASE kind WHEN 'energy' THEN 0 ELSE bytes END)"
        row = self._file.db.execute(
            f"SELECT sum(lines), sum(bytes), {droppable}, sum(dropped) FROM outbox_totals"
        ).fetchone()
        return Totals(*(int(value or 0) for value in row))

    def letters(self) -> int:
        """How many lines the store has refused for good."""
        return int(self._file.db.execute("SELECT count(*) FROM dead_letters").fetchone()[0])

    def oldest_ns(self) -> int | None:
        """When the oldest line that waits was put."""
        row = self._file.db.execute("SELECT made_ns FROM outbox ORDER BY line_id LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def trim(self, limit_bytes: int) -> int:
        """Give up the oldest power and health lines beyond a limit, some at a time; how many in this call."""
        dropped = 0
        while self.totals().droppable_bytes > limit_bytes:
            dropped += self._drop(min(DROP_ROWS, max(1, self._excess_rows(limit_bytes))))
        return dropped

    def _excess_rows(self, limit_bytes: int) -> int:
        excess = self.totals().droppable_bytes - limit_bytes
        rows = self._file.db.execute("SELECT length(line) FROM outbox WHERE kind<>'energy' ORDER BY line_id")
        count = 0
        for (length,) in rows:
            count += 1
            excess -= length
            if excess <= 0 or count == DROP_ROWS:
                break
        return count

    def _drop(self, rows: int) -> int:
        oldest = "SELECT line_id FROM outbox WHERE kind<>'energy' ORDER BY line_id LIMIT ?"
        with self._file.transaction():
            counts = self._file.db.execute(
                f"SELECT kind, count(*) FROM outbox WHERE line_id IN ({oldest}) GROUP BY kind", (rows,)
            ).fetchall()
            self._file.db.execute(f"DELETE FROM outbox WHERE line_id IN ({oldest})", (rows,))
            self._file.db.executemany(
                "UPDATE outbox_totals SET dropped=dropped+? WHERE kind=?", [(count, kind) for kind, count in counts]
            )
        return sum(count for _, count in counts)

    def results_row(self) -> int:
        """The last row of the results that has its line; 0 where none ever had."""
        row = self._file.db.execute("SELECT value FROM store_progress WHERE name='results'").fetchone()
        return 0 if row is None else int(row[0])

    def set_results_row(self, row: int) -> None:
        """Say up to which row the results have their lines, inside a transaction."""
        self._file.db.execute("INSERT OR REPLACE INTO store_progress (name, value) VALUES ('results', ?)", (row,))


class OutboxReader:
    """The sender's end, on a connection of its own: a slow store holds no lock. Raises SettingsError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._operator_must_act():
            self._db = sqlite3.connect(
                path.absolute().as_uri() + "?mode=rw", uri=True, isolation_level=None, timeout=10
            )
            # What a power cut brings back is sent again and changes nothing.
            self._db.execute("PRAGMA synchronous=NORMAL")

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def take(self, most_lines: int, most_bytes: int) -> list[Waiting]:
        """The oldest lines, at least one where there is one; they stay until they are deleted or buried."""
        found: list[Waiting] = []
        with self._operator_must_act():
            rows = self._db.execute(
                "SELECT line_id, kind, made_ns, line FROM outbox ORDER BY line_id LIMIT ?", (most_lines,)
            )
            for row in rows:
                most_bytes -= len(row[3].encode()) + 1
                if found and most_bytes < 0:
                    break
                found.append(Waiting(*row))
        return found

    def delete(self, lines: Sequence[Waiting]) -> None:
        """The store has these."""
        with self._transaction():
            self._delete(lines)

    def bury(self, lines: Sequence[Waiting], reason: str, now_ns: int) -> None:
        """The store refuses these for good; they wait among the dead letters with its words."""
        with self._transaction():
            self._delete(lines)
            self._db.executemany(
                "INSERT INTO dead_letters (kind, line, reason, buried_ns) VALUES (?, ?, ?, ?)",
                [(each.kind, each.line, reason, now_ns) for each in lines],
            )
            self._db.execute(
                "DELETE FROM dead_letters WHERE kind<>'energy'"
                f" AND letter<=(SELECT max(letter) FROM dead_letters)-{LETTERS_KEPT}"
            )

    def _delete(self, lines: Sequence[Waiting]) -> None:
        self._db.executemany("DELETE FROM outbox WHERE line_id=?", [(each.line_id,) for each in lines])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._operator_must_act():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _operator_must_act(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise SettingsError(f"the outbox in {self._path} cannot be used: {error}") from None
