"""The rows of a study as table, CSV and JSON."""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from opjoule.figures import plain, with_u95
from schemas import EnergyResult


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One row per board, operation and parameter set. Energies in J per operation, powers in W, times in s."""

    board: str
    operation: str
    parameter_set: str
    net_j_per_op: float | None = None
    u95_j_per_op: float | None = None
    published_j_per_op: float | None = None
    ratio: float | None = None
    verdict: str = ""
    remarks: str = ""
    published_command: str = ""
    idle_w: float | None = None
    published_idle_w: float | None = None
    load_w: float | None = None
    published_load_w: float | None = None
    published_s_per_op: float | None = None
    quality: str = ""
    flags: str = ""
    recording: str = ""
    event_id: str = ""


COLUMNS = tuple(field.name for field in fields(StudyRow))


def counted(rows: Sequence[StudyRow]) -> list[tuple[str, int]]:
    """How many rows have each verdict, most first."""
    return Counter(row.verdict for row in rows).most_common()


def for_terminal(rows: Sequence[StudyRow], results: dict[str, EnergyResult], commands: bool) -> Table:
    """The table that is printed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("board", "operation", "parameter set"):
        table.add_column(name, overflow="fold")
    for name in ("net/op ± U95", "published", "ratio"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("verdict", overflow="fold")
    remarked = any(row.remarks for row in rows)
    if remarked:
        table.add_column("remarks", overflow="fold")
    if commands:
        table.add_column("published command", overflow="fold")
    for row in rows:
        result = results.get(row.event_id)
        cells = (
            row.board,
            row.operation,
            row.parameter_set,
            with_u95(result.net_j_per_op if result else None),
            plain(row.published_j_per_op),
            f"{row.ratio:.4f}" if row.ratio is not None else "–",
            row.verdict,
            *([row.remarks] if remarked else []),
            *([row.published_command] if commands else []),
        )
        table.add_row(*map(escape, cells))
    return table


def write(rows: Sequence[StudyRow], folder: Path) -> None:
    """`study.csv` and `study.json` in the folder; empty cells and nulls where there is no figure."""
    with (folder / "study.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    (folder / "study.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", "utf-8")
