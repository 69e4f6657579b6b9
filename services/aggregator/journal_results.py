"""The journal's results: stored by revision, found by filter, published once the broker has them."""

from collections.abc import Iterable, Iterator
from uuid import UUID

from aggregator.journal_file import JournalFile
from aggregator.journal_tables import ResultFilter
from schemas import EnergyResult


class JournalResults:
    """What was made of the trains."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def store(self, results: Iterable[EnergyResult], done: Iterable[UUID] = (), overdue: bool = False) -> None:
        """Store results, and that these trains are no longer held (by the deadline: `overdue`), in one transaction."""
        with self._file.transaction():
            for result in results:
                self._file.db.execute(
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
            self._file.db.executemany(
                "UPDATE events SET done=1, overdue=? WHERE event_id=?", [(int(overdue), str(each)) for each in done]
            )

    def latest(self, event_id: UUID) -> list[EnergyResult]:
        """The last revision of a train's results, one per meter."""
        return list(self.find(ResultFilter(event_id=str(event_id))))

    def find(self, wanted: ResultFilter, near_ns: int | None = None) -> Iterator[EnergyResult]:
        """Last revisions, in order of time; with `near_ns` the few nearest to it, nearest first."""
        sql, values = wanted.sql(near_ns)
        with self._file.operator_must_act():
            for (payload,) in self._file.db.execute(sql, values):
                yield EnergyResult.model_validate_json(payload)

    def nulls_near(self, result: EnergyResult) -> list[EnergyResult]:
        """The null trains of a run that are nearest in time, last revisions."""
        wanted = ResultFilter(site=result.site, dut=result.dut, run_id=result.run_id, operation="null")
        return list(self.find(wanted, near_ns=result.start_ns))

    def is_latest(self, result: EnergyResult) -> bool:
        """Whether no later train of the same operation, parameter set and backend on this DUT has a result."""
        row = self._file.db.execute(
            "SELECT 1 FROM results WHERE site=? AND dut=? AND operation=? AND parameter_set=? AND backend=?"
            " AND start_ns>? LIMIT 1",
            (result.site, result.dut, result.operation, result.parameter_set, result.backend, result.start_ns),
        ).fetchone()
        return row is None

    def unpublished(self) -> list[tuple[int, EnergyResult]]:
        """The first 500 results that the broker has not confirmed, oldest first, with their row."""
        rows = self._file.db.execute("SELECT result, payload FROM results WHERE published=0 ORDER BY result LIMIT 500")
        return [(row, EnergyResult.model_validate_json(payload)) for row, payload in rows]

    def mark_published(self, rows: Iterable[int]) -> None:
        """The broker has these results."""
        with self._file.transaction():
            self._file.db.executemany("UPDATE results SET published=1 WHERE result=?", [(row,) for row in rows])
