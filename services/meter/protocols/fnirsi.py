"""The USB protocol of the FNIRSI family (METERS.md 1): reports of 64 bytes without a report id, little-endian.

Offset 0 is 0xAA, 1 the type, 2 to 62 the payload, 63 a CRC-8. Sources: the readers of baryluk, blakelton, OpenFNB58 and
Randomblock1; FNIRSI publishes nothing. No report has a time or a sequence number, and none has an energy counter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Literal

REPORT_BYTES = 64
SAMPLES_PER_REPORT = 4
SAMPLE_PERIOD_NS = 10_000_000
"""Nominal: 100 samples/s. Fewer are new values: an FNB48S measures about 25 times a second and interpolates."""
START = 0xAA
DATA = 0x04
INFO = 0x03

Family = Literal["A", "B"]
"""Which start sequence and keep-alive a meter understands. A: FNB48 and C1; B: FNB58, FNB48S and FNB48P."""
Reason = Literal["wrong_length", "not_a_report", "bad_crc", "implausible"]
"""Why a report is refused: not 64 bytes; not 0xAA in front; damaged; values that no meter can measure."""

VOLTAGE_RANGE_V = (0.0, 28.0)
CURRENT_RANGE_A = (0.0, 7.0)
DATA_LINE_RANGE_V = (0.0, 3.6)
TEMPERATURE_RANGE_C = (-10.0, 100.0)
"""A stale report after re-opening said 188.7 V, 170.4 A and D+ 51.84 V (baryluk, pull request 4)."""

_POLYNOMIAL = 0x39
_SAMPLE = Struct("<IIHHBH")
_INFO = Struct("<HHII")
_MODEL_NUMBERS = (48, 58)
"""What the information report of an FNB58 says over Bluetooth is 58; 48 is inferred."""


class Command(IntEnum):
    """All that is ever sent. Others may raise the supply voltage or erase counters of the meter (METERS.md 1.3)."""

    IDENTIFY = 0x81
    START = 0x82
    CONTINUE = 0x83


@dataclass(frozen=True, slots=True)
class Model:
    """A meter by its USB ids. Where two models share an id the family can be set by the operator."""

    name: str
    family: Family


_FNIRSI, _ST = 0x2E3C, 0x0483
VENDORS = (_FNIRSI, _ST)
"""FNIRSI's own; ST's, which the older meters have, as do many other things: only known products of it count."""
MODELS: dict[tuple[int, int], Model] = {
    (_FNIRSI, 0x5558): Model("FNB58", "B"),
    (_FNIRSI, 0x0049): Model("FNB48S", "B"),
    (_ST, 0x003A): Model("FNB48", "A"),
    (_ST, 0x003B): Model("C1", "A"),
}
"""By vendor and product id. FNB48P has the id of FNB48S; FNAC-28 that of C1, and its family is disputed."""
BOOTLOADER = (_ST, 0x0038)
"""An FNB58 that waits for new firmware: it speaks another protocol and is never opened."""
START_SEQUENCE: dict[Family, tuple[Command, ...]] = {
    "A": (Command.IDENTIFY, Command.START, Command.CONTINUE),
    "B": (Command.IDENTIFY, Command.START, Command.START),
}
KEEP_ALIVE_S: dict[Family, float] = {"A": 0.0, "B": 1.0}
"""How often CONTINUE is sent; 0: once per report. Firmware 0.68 of the FNB58 freezes at 1 s (baryluk, issue 19)."""


def is_made_by_fnirsi(ids: tuple[int, int] | None) -> bool:
    """Whether a USB device is a meter of this family, waits for firmware of one, or may be a new model of one."""
    return ids is not None and (ids in MODELS or ids == BOOTLOADER or ids[0] == _FNIRSI)


@dataclass(frozen=True, slots=True)
class SupplySample:
    """One of the four samples of a data report, in the meter's own units, which no rounding has touched."""

    voltage_10uv: int
    current_10ua: int
    data_plus_mv: int = 0
    data_minus_mv: int = 0
    temperature_dc: int = 250
    """In 0.1 degrees Celsius; below 0 the meter says about 0."""

    @property
    def voltage_v(self) -> float:
        """VBUS."""
        return self.voltage_10uv / 100_000

    @property
    def current_a(self) -> float:
        """IBUS; a magnitude, the meter does not say the direction."""
        return self.current_10ua / 100_000

    @property
    def power_w(self) -> float:
        """PBUS, rounded once: the product of two integers is exact."""
        return self.voltage_10uv * self.current_10ua / 10**10

    @property
    def temperature_c(self) -> float:
        """Of the meter."""
        return self.temperature_dc / 10

    @property
    def is_plausible(self) -> bool:
        """Whether a meter can have measured it."""
        return (
            _within(self.voltage_v, VOLTAGE_RANGE_V)
            and _within(self.current_a, CURRENT_RANGE_A)
            and _within(self.data_plus_mv / 1000, DATA_LINE_RANGE_V)
            and _within(self.data_minus_mv / 1000, DATA_LINE_RANGE_V)
            and _within(self.temperature_c, TEMPERATURE_RANGE_C)
        )


@dataclass(frozen=True, slots=True)
class DataReport:
    """Four samples, oldest first."""

    samples: tuple[SupplySample, ...]


@dataclass(frozen=True, slots=True)
class InfoReport:
    """The answer to IDENTIFY. Its layout over USB is inferred from that over Bluetooth: None where it does not fit."""

    firmware: str | None = None


@dataclass(frozen=True, slots=True)
class OtherReport:
    """A sound report of another type, an echo of a command among them: nothing that is needed, and no error."""

    type: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Not a report that can be used."""

    reason: Reason


def decode(report: bytes) -> DataReport | InfoReport | OtherReport | Refused:
    """What one report says, whatever its bytes are."""
    if len(report) != REPORT_BYTES:
        return Refused("wrong_length")
    if report[0] != START:
        return Refused("not_a_report")
    if crc8(report[:-1]) != report[-1]:
        return Refused("bad_crc")
    if report[1] == DATA:
        return _decode_data(report)
    return _decode_info(report) if report[1] == INFO else OtherReport(report[1])


def command(which: Command) -> bytes:
    """The report that gives a command, 64 bytes: an empty payload and a valid CRC."""
    return seal(bytes([START, which]) + bytes(REPORT_BYTES - 3))


def encode_data(samples: Sequence[SupplySample]) -> bytes:
    """A data report of four samples, as a meter sends it (for simulated devices)."""
    body = b"".join(
        _SAMPLE.pack(
            each.voltage_10uv, each.current_10ua, each.data_plus_mv, each.data_minus_mv, 1, each.temperature_dc
        )
        for each in samples
    )
    return seal(bytes([START, DATA]) + body + b"\0")


def seal(report: bytes) -> bytes:
    """63 bytes with their CRC."""
    return report + bytes([crc8(report)])


def crc8(report: bytes) -> int:
    """CRC-8 over bytes 0 to 62: polynomial 0x39, start 0, not reflected; equal to start 0x42 over bytes 1 to 62.

    Found from 100 captured frames (baryluk); it is not CRC-8/DARC, which is reflected.
    """
    crc = 0
    for byte in report:
        crc = _TABLE[crc ^ byte]
    return crc


def _decode_data(report: bytes) -> DataReport | Refused:
    fields = _SAMPLE.iter_unpack(report[2 : 2 + SAMPLES_PER_REPORT * _SAMPLE.size])
    samples = tuple(SupplySample(volts, amperes, plus, minus, heat) for volts, amperes, plus, minus, _, heat in fields)
    return DataReport(samples) if all(sample.is_plausible for sample in samples) else Refused("implausible")


def _decode_info(report: bytes) -> InfoReport:
    for offset in (2, 3):
        model, firmware, _, _ = _INFO.unpack_from(report, offset)
        if model in _MODEL_NUMBERS and 0 < firmware < 1000:
            return InfoReport(f"{firmware // 100}.{firmware % 100:02d}")
    return InfoReport()


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]


def _crc_of(byte: int) -> int:
    for _ in range(8):
        byte = (byte << 1 ^ _POLYNOMIAL) & 0xFF if byte & 0x80 else byte << 1
    return byte


_TABLE = tuple(_crc_of(byte) for byte in range(256))
