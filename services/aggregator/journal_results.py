"""The journal's results: stored by revision, found by filter, published once the broker has them."""

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from aggregator.crypto import wanted_null
from aggregator.journal_file import JournalFile, stored
from aggregator.journal_tables import VARIANT, ResultFilter
from errors import SettingsError
from schemas import EnergyResult, latest_has_variant


class JournalResults:
    """What was made of the trains."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self.on_store: Callable[[int, EnergyResult, int | None], None] | None = None
        """Called inside the transaction with each result: its row, and the start of the revision before it."""

    def store(self, results: Iterable[EnergyResult], done: Iterable[UUID] = (), overdue: bool = False) -> None:
        """Store results, and that these trains are no longer held (by the deadline: `overdue`), in one transaction."""
        with self._file.transaction():
            for result in results:
                previous_ns = self.start_of(result.event_id, result.meter)
                cursor = self._file.db.execute(
                    "INSERT INTO results (event_id, meter, revision, site, dut, run_id, operation, parameter_set,"
                    " backend, start_ns, quality, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        str(result.event_id),
                        result.meter or "",
                        result.revision,
                        result.site,
                        result.dut,
                        result.run_id,
                        result.operation,
                        result.parameter_set,
                        result.backend,
                        result.start_ns,
                        result.quality,
                        result.model_dump_json(),
                    ),
                )
                if self.on_store is not None:
                    self.on_store(int(cursor.lastrowid or 0), result, previous_ns)
            self._file.db.executemany(
                "UPDATE events SET done=1, overdue=? WHERE event_id=?", [(int(overdue), str(each)) for each in done]
            )

    def start_of(self, event_id: UUID, meter: str | None) -> int | None:
        """Where the last revision of a train's result at this meter begins; None where there is none."""
        row = self._file.db.execute(
            "SELECT start_ns FROM results WHERE event_id=? AND meter=? ORDER BY revision DESC LIMIT 1",
            (str(event_id), meter or ""),
        ).fetchone()
        return None if row is None else int(row[0])

    def has_meter(self, event_id: UUID) -> bool:
        """Whether a meter has a result for this train: then the one without a meter counts no more."""
        wanted = "SELECT 1 FROM results WHERE event_id=? AND meter<>'' LIMIT 1"
        return self._file.db.execute(wanted, (str(event_id),)).fetchone() is not None

    def after(self, row: int, limit: int) -> list[tuple[int, EnergyResult]]:
        """The first results stored after a row, with their rows: last revisions only."""
        return [(number, stored(EnergyResult, payload)) for number, payload in self._after(row, limit)]

    def readable_after(self, row: int, limit: int) -> tuple[int, list[EnergyResult], list[SettingsError]]:
        """The same that can be read, up to which row they are, and why the others cannot be."""
        results: list[EnergyResult] = []
        errors: list[SettingsError] = []
        for number, payload in self._after(row, limit):
            row = number
            try:
                results.append(stored(EnergyResult, payload))
            except SettingsError as error:
                errors.append(error)
        return row, results, errors

    def _after(self, row: int, limit: int) -> Iterator[tuple[int, str]]:
        yield from self._file.db.execute(
            "SELECT result, payload FROM results r WHERE result>? AND revision="
            "(SELECT max(revision) FROM results WHERE event_id=r.event_id AND meter=r.meter) ORDER BY result LIMIT ?",
            (row, limit),
        )

    def oldest_ns(self) -> int | None:
        """Start of the earliest train that has a result."""
        with self._file.operator_must_act():
            (oldest_ns,) = self._file.db.execute("SELECT min(start_ns) FROM results").fetchone()
        return None if oldest_ns is None else int(oldest_ns)

    def latest(self, event_id: UUID) -> list[EnergyResult]:
        """The last revision of a train's results, one per meter."""
        return list(self.find(ResultFilter(event_id=str(event_id))))

    def find(
        self,
        wanted: ResultFilter,
        near_ns: int | None = None,
        unreadable: Callable[[SettingsError], None] | None = None,
    ) -> Iterator[EnergyResult]:
        """Last revisions, in order of time; with `near_ns` the few nearest to it, nearest first.

        One that cannot be read is handed to `unreadable`, and raised where there is none.
        """
        sql, values = wanted.sql(near_ns)
        with self._file.operator_must_act():
            for (payload,) in self._file.db.execute(sql, values):
                try:
                    result = stored(EnergyResult, payload)
                except SettingsError as error:
                    if unreadable is None:
                        raise
                    unreadable(error)
                else:
                    yield result

    def last(self) -> EnergyResult | None:
        """What was stored last."""
        row = self._file.db.execute("SELECT payload FROM results ORDER BY result DESC LIMIT 1").fetchone()
        return stored(EnergyResult, row[0]) if row else None

    def nulls_near(self, result: EnergyResult) -> list[EnergyResult]:
        """The null trains of a run that a result wants and that are nearest in time, last revisions."""
        variant = wanted_null(result)
        if variant is None:
            return []
        wanted = ResultFilter(
            site=result.site,
            dut=result.dut,
            run_id=result.run_id,
            operation="null",
            backend=result.backend,
            variant=variant,
        )
        return list(self.find(wanted, near_ns=result.start_ns))

    def is_latest(self, result: EnergyResult) -> bool:
        """Whether no later train that shares its topic of latest results has a result."""
        apart = f" AND {VARIANT}=?" if latest_has_variant(result.operation) else ""
        row = self._file.db.execute(
            "SELECT 1 FROM results WHERE site=? AND dut=? AND operation=? AND parameter_set=? AND backend=?"
            f" AND start_ns>?{apart} LIMIT 1",
            (
                result.site,
                result.dut,
                result.operation,
                result.parameter_set,
                result.backend,
                result.start_ns,
                *([result.variant] if apart else []),
            ),
        ).fetchone()
        return row is None

    def unpublished(self) -> list[tuple[int, EnergyResult]]:
        """The first 500 results that the broker has not confirmed, oldest first, with their row."""
        rows = self._file.db.execute("SELECT result, payload FROM results WHERE published=0 ORDER BY result LIMIT 500")
        return [(row, stored(EnergyResult, payload)) for row, payload in rows]

    def mark_published(self, rows: Iterable[int]) -> None:
        """The broker has these results."""
        with self._file.transaction():
            self._file.db.executemany("UPDATE results SET published=1 WHERE result=?", [(row,) for row in rows])
