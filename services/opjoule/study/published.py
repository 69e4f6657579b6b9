"""The published results: a CSV with one row per machine, operation and algorithm."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from errors import ContractError
from opjoule.study.names import OPERATIONS, Subject, board_of, parameter_set_of

REQUIRED = ("machine", "method", "algorithm", "iterations", "time per iteration")
IDLE, LOAD, ENERGY = "baseline power", "on-load power", "joules per iteration"
_MOST_ITERATIONS = 2**53


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
    reader = csv.DictReader(io.StringIO(text, newline=None))
    try:
        reader.fieldnames = _header(reader.fieldnames or [], name)
        for cells in reader:
            row = {key: (value or "").strip() for key, value in cells.items() if isinstance(key, str)}
            if any(row.values()):
                yield _row(row, reader.line_num)
    except csv.Error as error:
        raise ContractError(f"{name}: line {reader.line_num}: {error}") from None


def _header(columns: Sequence[str], name: str) -> list[str]:
    """The names of the columns. A table of times may lack all that is about power, but not a part of it."""
    header = [column.strip().casefold() for column in columns]
    power = (IDLE, LOAD, ENERGY)
    needed = REQUIRED + (power if any(column in header for column in power) else ())
    missing = [column for column in needed if column not in header]
    if missing:
        raise ContractError(
            f"{name}: the column {missing[0]!r} is missing (its first line is {','.join(header)[:80]!r})"
        )
    return header


def _row(row: dict[str, str], line: int) -> PublishedRow | BadRow:
    machine = row["machine"]
    try:
        _refuse_powers_without_energy(row)
        return PublishedRow(
            line=line,
            machine=machine,
            subject=_subject(row),
            iterations=_iterations(row),
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
        raise ContractError(f"machine {row['machine']!r} names no board")
    word = (row.get("submethod") or row["method"]).casefold()
    if word not in OPERATIONS:
        raise ContractError(f"unknown method {word!r}")
    parameter_set = parameter_set_of(row["algorithm"])
    if parameter_set is None:
        raise ContractError(f"unknown algorithm {row['algorithm']!r}")
    return Subject(board, OPERATIONS[word], parameter_set)


def _refuse_powers_without_energy(row: dict[str, str]) -> None:
    if not row.get(ENERGY) and (row.get(IDLE) or row.get(LOAD)):
        raise ContractError(f"no {ENERGY} beside its powers")


def _iterations(row: dict[str, str]) -> int:
    number = round(_number(row, "iterations"))
    if not 1 <= number <= _MOST_ITERATIONS:
        raise ContractError(f"iterations is {row['iterations']!r}")
    return number


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
