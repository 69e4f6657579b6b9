"""Raw recordings as files: a writer, a transport that records what passes, and one that plays a file again."""

import errno
import math
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Protocol

from errors import ContractError, SettingsError
from meter.protocols.raw_recording import Event, RawDecoder, RawEncoder, RawFlag, RawFrame, RawHeader
from meter.sources.pacing import Pacing
from meter.transports import UsbDevice, UsbTransport

FLUSH_NS = 5_000_000_000
"""A process that is killed loses the frames of so long."""
_CHUNK_BYTES = 64 * 1024
_SLACK_NS = 1_000_000_000
"""A reader that opens the meter so much earlier than the recorded one did has to wait."""


class TapeWriter:
    """Writes a recording, about 2 MB an hour of an FNB58; never over an existing file.

    `add` and `close` raise OSError when the disk is full.
    """

    def __init__(self, path: Path, header: RawHeader, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """Raises SettingsError where the file cannot be made."""
        self._encoder = RawEncoder()
        self._monotonic_ns = monotonic_ns
        self._began_ns = self._flushed_ns = monotonic_ns()
        self.frames = 0
        """From and to the meter."""
        try:
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            raise SettingsError(f"{path} cannot be made: {error.strerror}") from None
        try:
            self._write(self._encoder.header(header) + self._encoder.flush())
        except OSError as error:
            self._file.close()
            path.unlink()
            raise SettingsError(f"{path} cannot be written: {error.strerror}") from None

    def add(self, event: Event, data: bytes = b"") -> None:
        """What happened just now; nothing is written after the end."""
        if self._file.closed:
            return
        now_ns = self._monotonic_ns()
        self.frames += event in "<>"
        self._write(self._encoder.frame(RawFrame(now_ns - self._began_ns, event, data)))
        if now_ns - self._flushed_ns >= FLUSH_NS:
            self._flushed_ns = now_ns
            self._write(self._encoder.flush())

    def close(self) -> None:
        """End the file; may be called again."""
        if not self._file.closed:
            try:
                self._write(self._encoder.finish())
            finally:
                self._file.close()

    def _write(self, data: bytes) -> None:
        while data:
            data = data[self._file.write(data) :]


class FrameWriter(Protocol):
    """What writes down frames."""

    def add(self, event: Event, data: bytes = b"") -> None:
        """What happened just now."""
        ...


class RecordingTransport:
    """Another transport, with all that passes written down."""

    def __init__(self, inner: UsbTransport, writer: FrameWriter) -> None:
        self._inner = inner
        self._writer = writer
        writer.add("+")

    @property
    def device(self) -> UsbDevice:
        """That of the other."""
        return self._inner.device

    def read(self, timeout_s: float) -> bytes:
        """One report, empty after the time-out. Raises OSError when the device is gone."""
        try:
            report = self._inner.read(timeout_s)
        except OSError:
            self._writer.add("-")
            raise
        if report:
            self._writer.add("<", report)
        return report

    def write(self, report: bytes) -> None:
        """Send a report. Raises OSError when the device is gone."""
        self._writer.add(">", report)
        self._inner.write(report)

    def close(self) -> None:
        """Close the other; the recording goes on."""
        self._inner.close()


def read_tape(path: Path) -> "Tape":
    """A recording, with its first line read. Raises ContractError with one line that names the file."""
    decoder = RawDecoder()
    frames = _frames(path, decoder)
    try:
        first = next(frames, None)
    except OSError as error:
        raise ContractError(f"{path}: {error.strerror}") from None
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from None
    if decoder.header is None or first is None:
        raise ContractError(f"{path}: no frame in it")
    return Tape(decoder, first, frames)


def _frames(path: Path, decoder: RawDecoder) -> Generator[RawFrame, None, None]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield from decoder.feed(chunk)
    decoder.finish()


class Tape:
    """A meter that says again what it said once. Its clock is that of the recording, at `speed` times real time.

    Give the reader `open` and `pacing`. What it writes is not heard. Speed 0 waits for nobody.
    """

    def __init__(self, decoder: RawDecoder, first: RawFrame, rest: Generator[RawFrame, None, None]) -> None:
        self._decoder = decoder
        self._next: RawFrame | None = first
        self._rest = rest
        self._now_ns = 0
        self._speed = 0.0
        self._real = Pacing()
        self._began_ns = 0
        self._is_open = False
        self._has_said_so = False
        self.pacing = Pacing(self._monotonic_ns, self._sleep)

    @property
    def header(self) -> RawHeader:
        """About the meter."""
        if self._decoder.header is None:
            raise ContractError("a recording without a first line")
        return self._decoder.header

    @property
    def flags(self) -> tuple[RawFlag, ...]:
        """What was wrong with the file, as far as it has been read."""
        return self._decoder.flags

    @property
    def is_over(self) -> bool:
        """Whether everything has been said."""
        return self._next is None

    def play_at(self, speed: float, real: Pacing | None = None) -> None:
        """At so many times real time, from this moment on."""
        self._speed = speed
        self._real = real or self._real
        self._began_ns = self._real.monotonic_ns()

    @property
    def device(self) -> UsbDevice:
        """Where the meter was plugged in."""
        return UsbDevice(self.header.node or "recording", serial=self.header.serial)

    def open(self) -> "Tape":
        """Itself, where the meter was there at this moment or will be within a second. Raises OSError else.

        Raises EOFError when the recording is over.
        """
        if not self._is_open:
            self._is_open = self._finds_opening()
        if self.is_over:
            raise EOFError("the recording says no more")
        if not self._is_open:
            raise OSError(errno.ENODEV, "the meter of the recording was away")
        return self

    def read(self, timeout_s: float) -> bytes:
        """The next report, at its time; empty after the time-out. Raises OSError where the meter was gone.

        Raises EOFError once when the recording is over; from then on it is silent.
        """
        end_ns = self._now_ns + math.ceil(timeout_s * 1e9)
        while self._next is not None and self._next.at_ns <= end_ns:
            frame = self._take()
            if frame.event == "-":
                self._is_open = False
            elif frame.event == "<":
                return frame.data
            if not self._is_open:
                break
        if self.is_over:
            return self._end()
        if not self._is_open:
            raise OSError(errno.ENODEV, "it was unplugged")
        self._advance_to(end_ns)
        return b""

    def write(self, report: bytes) -> None:
        """Nobody hears it."""

    def close(self) -> None:
        """The recording goes on where it is."""

    def eject(self) -> None:
        """Close the file; it says no more."""
        self._rest.close()
        self._next = None

    def _end(self) -> bytes:
        """Silence; raises EOFError at first."""
        if not self._has_said_so:
            self._has_said_so = True
            raise EOFError("the recording says no more")
        return b""

    def _finds_opening(self) -> bool:
        """Go on to the moment when it was opened; a recording that does not begin with one was open before."""
        if self._now_ns == 0 and self._next is not None and self._next.event != "+":
            return True
        while self._next is not None and self._next.at_ns <= self._now_ns + _SLACK_NS:
            if self._take().event == "+":
                return True
        return False

    def _take(self) -> RawFrame:
        frame = self._next
        if frame is None:
            raise OSError(errno.ENODEV, "the recording says no more")
        self._next = next(self._rest, None)
        self._advance_to(frame.at_ns)
        return frame

    def _monotonic_ns(self) -> int:
        return self._now_ns

    def _sleep(self, duration_s: float) -> None:
        self._advance_to(self._now_ns + math.ceil(duration_s * 1e9))

    def _advance_to(self, t_ns: int) -> None:
        self._now_ns = max(self._now_ns, t_ns)
        if self._speed:
            self._real.sleep_until(self._began_ns + round(self._now_ns / self._speed))
