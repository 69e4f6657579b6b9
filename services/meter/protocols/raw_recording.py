"""Our own recordings of what a meter says, so that a file can be sent instead of a meter. Bytes in, values out.

A gzip file of text: one JSON line about the meter, then one line per frame, in the order of their arrival:

    1040120345 < aa04...      ns since the recording began, direction, hexadecimal
    1040212000 > aa83...      to the meter
    3600000000 -              the meter is gone
    3615000000 +              it was opened again

A file that ends in mid-frame, or is damaged, is read up to there: what is whole counts, the rest is flagged.
"""

import zlib
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import Field, ValidationError

from errors import ContractError
from schemas import Model
from schemas.base import TimeNs

SUFFIX = ".raw.gz"
Event = Literal["<", ">", "+", "-"]
"""From the meter, to the meter, opened, gone."""
RawFlag = Literal["truncated", "damaged", "extra_bytes"]
_GZIP = 16 + zlib.MAX_WBITS
_LONGEST_LINE = 64 * 1024
_PIECE_BYTES = 256
_LATEST_NS = 2**62


class RawHeader(Model):
    """The first line: what was known of the meter when the recording began."""

    opjoule_raw: Literal[1] = 1
    protocol: Literal["fnirsi", "tc66c"]
    started_ns: Annotated[TimeNs, Field(description="when the recording began, by the wall clock, since 1970")]
    sample_period_ns: Annotated[int, Field(gt=0, le=3_600_000_000_000)]
    family: Literal["A", "B"] | None = None
    meter_model: Annotated[str, Field(max_length=64)] = "unknown"
    vendor_id: int | None = None
    product_id: int | None = None
    serial: str | None = None
    firmware: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class RawFrame:
    """One line: `at_ns` since the recording began; no data where the meter was opened or is gone."""

    at_ns: int
    event: Event
    data: bytes = b""


class RawEncoder:
    """Lines into the bytes of the file. What it returns is to be written, in order."""

    def __init__(self) -> None:
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, _GZIP)

    def header(self, header: RawHeader) -> bytes:
        """The first line."""
        return self._gzip.compress(header.model_dump_json(exclude_none=True).encode() + b"\n")

    def frame(self, frame: RawFrame) -> bytes:
        """Another line; often nothing yet."""
        return self._gzip.compress(f"{frame.at_ns} {frame.event} {frame.data.hex()}".rstrip().encode() + b"\n")

    def flush(self) -> bytes:
        """What makes all lines so far readable, should the file end here."""
        return self._gzip.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        """The end of the file."""
        return self._gzip.flush(zlib.Z_FINISH)


class RawDecoder:
    """The bytes of the file into lines. `header` is None until enough has been fed."""

    def __init__(self) -> None:
        self._gzip = zlib.decompressobj(_GZIP)
        self._pending = b""
        self._last_ns = 0
        self._line = 0
        self._is_over = False
        self.header: RawHeader | None = None
        self.flags: tuple[RawFlag, ...] = ()

    def feed(self, data: bytes) -> list[RawFrame]:
        """The frames that are whole now. Raises ContractError where the beginning is not one of a recording."""
        if self._is_over:
            return []
        text = self._pending + self._inflate(data)
        *lines, self._pending = text.split(b"\n")
        if len(self._pending) > _LONGEST_LINE:
            self._stop("damaged")
        return self._frames(lines)

    def finish(self) -> None:
        """The file ends here. Raises ContractError where not even the first line is whole."""
        if self.header is None:
            raise ContractError("ends inside its first line")
        if not self._is_over and (self._pending or not self._gzip.eof):
            self._stop("truncated")

    def _inflate(self, data: bytes) -> bytes:
        """In small pieces: where one is damaged, all that it holds is lost."""
        text = b""
        try:
            for at in range(0, len(data), _PIECE_BYTES):
                text += self._gzip.decompress(data[at : at + _PIECE_BYTES])
        except zlib.error:
            if self.header is None and not self._pending and not text:
                raise ContractError("not a raw recording: no gzip file") from None
            self._stop("damaged")
        if self._gzip.unused_data:
            self._stop("extra_bytes")
        return text

    def _frames(self, lines: list[bytes]) -> list[RawFrame]:
        frames: list[RawFrame] = []
        for line in lines:
            self._line += 1
            if self.header is None:
                self.header = _header(line)
                continue
            frame = _frame(line, self._last_ns)
            if frame is None:
                self._stop("damaged")
                break
            self._last_ns = frame.at_ns
            frames.append(frame)
        return frames

    def _stop(self, flag: RawFlag) -> None:
        self.flags, self._is_over = (flag,), True


def _header(line: bytes) -> RawHeader:
    try:
        return RawHeader.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "line 1"
        raise ContractError(f"not a raw recording that can be read: {where}: {first['msg']}") from None


def _frame(line: bytes, earliest_ns: int) -> RawFrame | None:
    """None where it is no such line, or time steps back."""
    parts = line.decode("ascii", "replace").split(" ")
    if len(parts) not in (2, 3) or not parts[0].isdecimal() or parts[1] not in get_args(Event):
        return None
    at_ns = int(parts[0]) if len(parts[0]) < 20 else _LATEST_NS
    try:
        data = bytes.fromhex(parts[2]) if len(parts) == 3 else b""
    except ValueError:
        return None
    event: Event = parts[1]  # type: ignore[assignment]
    return RawFrame(at_ns, event, data) if earliest_ns <= at_ns < _LATEST_NS else None
