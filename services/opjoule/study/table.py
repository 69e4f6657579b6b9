"""The rows of a study: ours beside the published, with a verdict; as table, CSV and JSON."""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich import box
from rich.table import Table

from opjoule.figures import plain, with_u95
from opjoule.study.names import Subject
from opjoule.study.published import BadRow, PublishedRow
from opjoule.study.verdicts import NOT_PUBLISHED, NOT_RECORDED, TIMING_ONLY, UNREADABLE, Recorded, verdict
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


def bad_row(row: BadRow) -> StudyRow:
    """A published row that cannot be used."""
    return StudyRow(
        board=row.machine, operation="", parameter_set="", verdict=f"{UNREADABLE}: line {row.line}: {row.reason}"
    )


def published_row(
    published: PublishedRow, result: EnergyResult | None, recording: str, unreadable: str, command: str
) -> StudyRow:
    """A published figure beside ours. `unreadable` is why its recording, or the board's idle one, cannot be used."""
    subject = published.subject
    theirs = {
        "published_j_per_op": published.j_per_op,
        "published_idle_w": published.idle_w,
        "published_load_w": published.load_w,
        "published_s_per_op": published.s_per_op,
        "published_command": command,
        "recording": recording,
    }
    ours = _ours(result)
    recorded = _recorded(result)
    if not published.has_power:
        said = TIMING_ONLY
    elif recorded is not None:
        said = verdict(published, recorded)
    elif result is not None:
        said = f"{UNREADABLE}: {result.reason}"
    else:
        said = f"{UNREADABLE}: {unreadable}" if unreadable else NOT_RECORDED
    ratio = recorded.j_per_op / published.j_per_op if recorded and published.j_per_op else None
    return StudyRow(
        board=subject.board,
        operation=str(subject.operation),
        parameter_set=subject.parameter_set,
        ratio=ratio,
        verdict=said,
        **ours,  # type: ignore[arg-type]
        **theirs,  # type: ignore[arg-type]
    )


def recorded_row(subject: Subject, result: EnergyResult | None, recording: str, unreadable: str) -> StudyRow:
    """A recording that the published table has no row for: without a time per operation it has no energy of one."""
    return StudyRow(
        board=subject.board,
        operation=subject.operation or "idle",
        parameter_set=subject.parameter_set,
        verdict=f"{UNREADABLE}: {unreadable}" if unreadable else NOT_PUBLISHED,
        recording=recording,
        **_ours(result),  # type: ignore[arg-type]
    )


def _ours(result: EnergyResult | None) -> dict[str, object]:
    if result is None:
        return {}
    energy = result.net_j_per_op
    return {
        "net_j_per_op": energy.value if energy else None,
        "u95_j_per_op": energy.u95 if energy else None,
        "idle_w": result.baseline_w,
        "load_w": result.load_w,
        "quality": result.quality,
        "flags": " ".join(result.flags),
        "event_id": str(result.event_id),
    }


def _recorded(result: EnergyResult | None) -> Recorded | None:
    if result is None or result.net_j_per_op is None or result.baseline_w is None or result.load_w is None:
        return None
    return Recorded(result.baseline_w, result.load_w, result.net_j_per_op.value)


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
    if commands:
        table.add_column("published command", overflow="fold")
    for row in rows:
        result = results.get(row.event_id)
        table.add_row(
            row.board,
            row.operation,
            row.parameter_set,
            with_u95(result.net_j_per_op if result else None),
            plain(row.published_j_per_op),
            f"{row.ratio:.4f}" if row.ratio is not None else "–",
            row.verdict,
            *([row.published_command] if commands else []),
        )
    return table


def write(rows: Sequence[StudyRow], folder: Path) -> None:
    """`study.csv` and `study.json` in the folder; empty cells and nulls where there is no figure."""
    with (folder / "study.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    (folder / "study.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", "utf-8")
