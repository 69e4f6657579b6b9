"""The .cfn files of FNIRSI's recording program: bytes in, a recording out. Little-endian throughout.

    f64 rate/s, i32 start mA, i32 stop mA, i32 stop s, i16 channels N       22 bytes
    N x (i16 type, 4 bytes of unknown meaning, u8 flag; if flag is 1: f64 max, f64 min)
    i32 rows M
    M x (f64 time s, N x f64)

There is no wall clock and no device in the file, and time is made from the row number: what the program lost cannot
be seen. Layout from the toolbox of didim99, checked on 371 files of an FNB58.
"""

import struct
import sys
from array import array
from dataclasses import dataclass

from errors import ContractError
from meter.protocols.recording import (
    CHANNELS,
    Column,
    Recording,
    RecordingFlag,
    assemble,
    first_unusable_time,
    rate_is_usable,
    times_are_nominal,
    to_si,
)

_HEADER = struct.Struct("<diiih")
_CHANNEL = struct.Struct("<h4xB")
_EXTREMES = struct.Struct("<dd")
_ROWS = struct.Struct("<i")
_MOST_CHANNELS = 64
_TIME_TOLERANCE_S = 1e-9
_EXTREMES_TOLERANCE = 1e-9
"""Stored extremes equalled those of the data within it in all 371 files."""


@dataclass(frozen=True, slots=True)
class _Descriptor:
    kind: int
    extremes: tuple[float, float] | None
    """Maximum and minimum, in this order, as stored."""


def decode(data: bytes) -> Recording:
    """The recording in the bytes of a .cfn file.

    Whole rows of a cut file are kept and flagged, as are extra bytes, extremes that differ from the data and times that
    differ from row / rate. Raises ContractError, naming the offset, for anything else.
    """
    rate_hz, channels = _header(data)
    descriptors, offset = _descriptors(data, channels)
    rows, offset = _row_count(data, offset)
    row_bytes = 8 * (channels + 1)
    whole = min(rows, (len(data) - offset) // row_bytes)
    if whole == 0:
        raise ContractError(f"not one whole row of the {rows} announced at offset {offset - _ROWS.size}")
    t_s, values = _columns(data[offset : offset + whole * row_bytes], channels)
    bad_row = first_unusable_time(t_s)
    if bad_row is not None:
        raise ContractError(f"time {t_s[bad_row]} s at offset {offset + bad_row * row_bytes} is no time")
    surplus = len(data) - offset - rows * row_bytes
    flags = _flags(rate_hz, t_s, descriptors, values, surplus)
    return assemble(rate_hz, t_s, _by_name(descriptors, values), flags)


def _unpack(layout: struct.Struct, data: bytes, offset: int, what: str) -> tuple[float, ...]:
    if len(data) < offset + layout.size:
        raise ContractError(f"ends at offset {len(data)}, inside {what} at offset {offset}")
    return layout.unpack_from(data, offset)


def _header(data: bytes) -> tuple[float, int]:
    rate_hz, _, _, _, channels = _unpack(_HEADER, data, 0, "the header")
    if not rate_is_usable(rate_hz):
        raise ContractError(f"not a .cfn recording: sample rate {rate_hz:g}/s at offset 0")
    if not 1 <= channels <= _MOST_CHANNELS:
        raise ContractError(f"not a .cfn recording: {channels} channels at offset 20, expected 1 to {_MOST_CHANNELS}")
    return rate_hz, int(channels)


def _descriptors(data: bytes, channels: int) -> tuple[list[_Descriptor], int]:
    offset = _HEADER.size
    found: list[_Descriptor] = []
    for number in range(channels):
        kind, flag = _unpack(_CHANNEL, data, offset, f"the description of channel {number}")
        if flag not in (0, 1):
            raise ContractError(f"min/max flag {flag} at offset {offset + 6} is neither 0 nor 1")
        if kind in CHANNELS and any(each.kind == kind for each in found):
            raise ContractError(f"second channel '{CHANNELS[int(kind)].csv_name}' at offset {offset}")
        offset += _CHANNEL.size
        extremes = None
        if flag:
            highest, lowest = _unpack(_EXTREMES, data, offset, f"the extremes of channel {number}")
            extremes = (highest, lowest)
            offset += _EXTREMES.size
        found.append(_Descriptor(int(kind), extremes))
    return found, offset


def _row_count(data: bytes, offset: int) -> tuple[int, int]:
    (rows,) = _unpack(_ROWS, data, offset, "the number of rows")
    if rows < 0:
        raise ContractError(f"{rows} rows at offset {offset}")
    return int(rows), offset + _ROWS.size


def _columns(rows: bytes, channels: int) -> tuple[Column, list[Column]]:
    table = array("d")
    table.frombytes(rows)
    if sys.byteorder == "big":
        table.byteswap()
    width = channels + 1
    return table[::width], [table[1 + channel :: width] for channel in range(channels)]


def _flags(
    rate_hz: float, t_s: Column, descriptors: list[_Descriptor], values: list[Column], surplus: int
) -> tuple[RecordingFlag, ...]:
    flags: list[RecordingFlag] = []
    if surplus < 0:
        flags.append("truncated")
    elif not all(map(_extremes_agree, descriptors, values)):
        flags.append("min_max_differs")
    if surplus > 0:
        flags.append("extra_bytes")
    if not times_are_nominal(t_s, rate_hz, _TIME_TOLERANCE_S):
        flags.append("time_not_nominal")
    return tuple(flags)


def _extremes_agree(descriptor: _Descriptor, values: Column) -> bool:
    if descriptor.extremes is None:
        return True
    highest, lowest = descriptor.extremes
    return abs(max(values) - highest) <= _EXTREMES_TOLERANCE and abs(min(values) - lowest) <= _EXTREMES_TOLERANCE


def _by_name(descriptors: list[_Descriptor], values: list[Column]) -> dict[str, Column]:
    named: dict[str, Column] = {}
    for number, (descriptor, column) in enumerate(zip(descriptors, values, strict=True)):
        channel = CHANNELS.get(descriptor.kind)
        if channel is None:
            named[f"channel_{number}_type_{descriptor.kind}"] = column
        else:
            named[channel.name] = to_si(channel, column)
    return named
