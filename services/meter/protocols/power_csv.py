"""CSV files made from FNIRSI recordings: the converter's own form, and what spreadsheets make of it.

    # 50.0 sps, start/stop: 50/0 mA (5 s), channels: 1
    # P min: 0.5258658566, P max: 1.0657446047999999
    Time,Power
    0.00000000,0.65928444

Met in the wild: no # lines, CRLF, a byte order mark, `;` with decimal comma, trailing commas, trailing zeros trimmed,
and a last row without time that holds the mean of each column (it is not a sample).
"""

import itertools
import re
import statistics
from array import array
from dataclasses import dataclass

from errors import ContractError
from meter.protocols.recording import (
    CHANNELS,
    Channel,
    Column,
    Recording,
    RecordingFlag,
    assemble,
    first_unusable_time,
    rate_is_usable,
    times_are_nominal,
    to_si,
)

_RATE = re.compile(r"([0-9]+(?:[.,][0-9]+)?)\s*sps")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WITRN_TIME = re.compile(r"\d+:\d+:\d+[:.]\d+")
_TIME_TOLERANCE_S = 1e-8
"""The converter writes 8 decimals."""
_BY_CSV_NAME = {channel.csv_name.casefold(): channel for channel in CHANNELS.values()}


@dataclass(frozen=True, slots=True)
class _Header:
    """Where the columns are. `line` counts from 1."""

    line: int
    delimiter: str
    time_column: int
    channels: dict[int, Channel]


def decode(data: bytes) -> Recording:
    """The recording in the bytes of a CSV file. Raises ContractError, naming the line, for what cannot be used."""
    lines = _lines(data)
    header = _header(lines)
    t_s, columns, truncated = _rows(lines, header)
    if not t_s:
        raise ContractError(f"no row below the header in line {header.line}")
    bad_row = first_unusable_time(t_s)
    if bad_row is not None:
        raise ContractError(f"row {bad_row + 1} below line {header.line}: time {t_s[bad_row]} s is no time")
    rate_hz = _rate(lines[: header.line - 1], t_s)
    flags: list[RecordingFlag] = ["truncated"] if truncated else []
    if not times_are_nominal(t_s, rate_hz, _TIME_TOLERANCE_S):
        flags.append("time_not_nominal")
    named = {channel.name: to_si(channel, columns[index]) for index, channel in header.channels.items()}
    return assemble(rate_hz, t_s, named, tuple(flags))


def _lines(data: bytes) -> list[str]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ContractError(f"not a text file: byte {error.start} is not UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(delimiter)]


def _header(lines: list[str]) -> _Header:
    for number, line in enumerate(lines, start=1):
        delimiter = ";" if ";" in line else ","
        cells = _cells(line, delimiter)
        if not any(cells) or cells[0].startswith("#"):
            continue
        _refuse_witrn(cells[0], number)
        names = [cell.casefold() for cell in cells]
        if "time" not in names:
            raise ContractError(f"no column 'Time' in line {number}")
        known = {index: _BY_CSV_NAME[name] for index, name in enumerate(names) if name in _BY_CSV_NAME}
        if names.count("time") > 1 or len(set(known.values())) < len(known):
            raise ContractError(f"a column is named twice in line {number}")
        return _Header(number, delimiter, names.index("time"), known)
    raise ContractError("no line with column names")


def _refuse_witrn(cell: str, number: int) -> None:
    if _WITRN_TIME.fullmatch(cell):
        raise ContractError(f"line {number}: time {cell!r} is the form of another vendor, WITRN; only FNIRSI's is read")


def _rows(lines: list[str], header: _Header) -> tuple[Column, dict[int, Column], bool]:
    t_s = array("d")
    columns: dict[int, Column] = {index: array("d") for index in header.channels}
    for number, line in enumerate(lines[header.line :], start=header.line + 1):
        cells = _cells(line, header.delimiter)
        if len(cells) <= header.time_column or not cells[header.time_column]:
            continue
        if number == len(lines) and _is_cut(cells, columns):
            return t_s, columns, True
        row = [_number(cells, index, header, number) for index in (header.time_column, *columns)]
        t_s.append(row[0])
        for column, value in zip(columns.values(), row[1:], strict=True):
            column.append(value)
    return t_s, columns, False


def _is_cut(last_cells: list[str], columns: dict[int, Column]) -> bool:
    return any(index >= len(last_cells) or not last_cells[index] for index in columns)


def _number(cells: list[str], index: int, header: _Header, number: int) -> float:
    text = cells[index] if index < len(cells) else ""
    if index == header.time_column:
        _refuse_witrn(text, number)
    if header.delimiter == ";":
        text = text.replace(",", ".")
    if not _NUMBER.fullmatch(text):
        name = "Time" if index == header.time_column else header.channels[index].csv_name
        raise ContractError(f"line {number}: {text!r} in column '{name}' is not a number")
    return float(text)


def _rate(comments: list[str], t_s: Column) -> float:
    stated = next((match[1] for line in comments if (match := _RATE.search(line))), None)
    if stated is not None:
        rate_hz = float(stated.replace(",", "."))
    else:
        steps = [after - before for before, after in itertools.pairwise(t_s)]
        step_ns = round(statistics.median(steps) * 1e9) if steps else 0
        if step_ns <= 0:
            raise ContractError("no sample rate: no '# ... sps' line, and the times do not increase")
        rate_hz = 1e9 / step_ns
    if not rate_is_usable(rate_hz):
        raise ContractError(f"sample rate {rate_hz:g}/s")
    return rate_hz
