"""The published results: a CSV with one row per machine, operation and algorithm."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from errors import ContractError
from opjoule.study.names import OPERATIONS, Subject, board_of, parameter_set_of

REQUIRED = ("machine", "method", "algorithm", "iterations", "time per iteration")
IDLE, LOAD, ENERGY = "baseline power", "on-load power", "joules per iteration"


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One published figure. Powers in W and energies in J as typed; None where the study has times only."""

    line: int
    machine: str
    subject: Subject
    iterations: int
    s_per_op: float
    start_s: float | None
    idle_w: float | None
    load_w: float | None
    j_per_op: float | None
    idle_text: str
    load_text: str

    @property
    def has_power(self) -> bool:
        """Whether the study gives an energy for this row."""
        return self.j_per_op is not None


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used, and why."""

    line: int
    machine: str
    reason: str


def read_published(path: Path) -> list[PublishedRow | BadRow]:
    """The rows of the file, in its order. Raises ContractError where the file as a whole cannot be used."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ContractError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ContractError(f"{path}: not a UTF-8 text file") from None
    return list(parse_published(text, str(path)))


def parse_published(text: str, name: str) -> Iterator[PublishedRow | BadRow]:
    """The rows of a published table. Raises ContractError for one without the columns that are needed."""
    reader = csv.DictReader(io.StringIO(text))
    header = [column.strip().casefold() for column in reader.fieldnames or []]
    missing = [column for column in REQUIRED if column not in header]
    if missing:
        raise ContractError(
            f"{name}: the column {missing[0]!r} is missing (its first line is {','.join(header)[:80]!r})"
        )
    reader.fieldnames = header
    for cells in reader:
        row = {key: (value or "").strip() for key, value in cells.items() if isinstance(key, str)}
        if any(row.values()):
            yield _row(row, reader.line_num)


def _row(row: dict[str, str], line: int) -> PublishedRow | BadRow:
    machine = row["machine"]
    try:
        return PublishedRow(
            line=line,
            machine=machine,
            subject=_subject(row),
            iterations=round(_number(row, "iterations")),
            s_per_op=_seconds(row),
            start_s=_optional(row, "start time (unix)"),
            idle_w=_optional(row, IDLE),
            load_w=_optional(row, LOAD),
            j_per_op=_optional(row, ENERGY),
            idle_text=row.get(IDLE, ""),
            load_text=row.get(LOAD, ""),
        )
    except ContractError as error:
        return BadRow(line, machine, str(error))


def _subject(row: dict[str, str]) -> Subject:
    board = board_of(row["machine"])
    if not board:
        raise ContractError("no machine")
    word = (row.get("submethod") or row["method"]).casefold()
    if word not in OPERATIONS:
        raise ContractError(f"unknown method {word!r}")
    parameter_set = parameter_set_of(row["algorithm"])
    if parameter_set is None:
        raise ContractError(f"unknown algorithm {row['algorithm']!r}")
    return Subject(board, OPERATIONS[word], parameter_set)


def _seconds(row: dict[str, str]) -> float:
    seconds = _number(row, "time per iteration")
    if seconds <= 0:
        raise ContractError(f"time per iteration is {row['time per iteration']!r}")
    return seconds


def _number(row: dict[str, str], column: str) -> float:
    value = _optional(row, column)
    if value is None:
        raise ContractError(f"no {column}")
    return value


def _optional(row: dict[str, str], column: str) -> float | None:
    text = row.get(column, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ContractError(f"{column} is {text!r}, not a number")
    return value
