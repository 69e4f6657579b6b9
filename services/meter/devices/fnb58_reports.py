"""The reports that a simulated FNIRSI meter sends, right ones and wrong ones. Pure."""

import struct
from collections.abc import Sequence

from meter.devices.power import Measured
from meter.protocols.fnirsi import INFO, REPORT_BYTES, SAMPLES_PER_REPORT, START, SupplySample, crc8, encode_data, seal

UNKNOWN = 0x07
"""A type that no source describes."""
_INFORMATION = struct.Struct("<HHIIH")
_MODEL = 58
_D_PLUS_MV, _D_MINUS_MV = 600, 601
_STALE = SupplySample(18_874_370, 17_039_408, 51_840, 0, 0)
_SHORT_BYTES = 30


def data_report(samples: Sequence[Measured], temperature_c: float) -> bytes:
    """Four samples; a temperature below 0 degC is said as 0."""
    tenths = max(0, round(temperature_c * 10))
    return encode_data([SupplySample(each[0], each[1], _D_PLUS_MV, _D_MINUS_MV, tenths) for each in samples])


def information_report(firmware: float, serial: int, boots: int) -> bytes:
    """The answer to 81. Its layout on USB is nowhere published: taken to be that of Bluetooth, from offset 2."""
    payload = _INFORMATION.pack(_MODEL, round(firmware * 100), serial, boots, 0)
    return seal((bytes([START, INFO]) + payload).ljust(REPORT_BYTES - 1, b"\0"))


def unknown_report() -> bytes:
    """A valid report of a type that nobody knows."""
    return seal(bytes([START, UNKNOWN]).ljust(REPORT_BYTES - 1, b"\0"))


def stale_report(valid_crc: bool) -> bytes:
    """What a re-opened meter really said first: 188.74370 V, 170.39408 A, D+ 51.840 V, 0 degC (baryluk, PR 4)."""
    report = encode_data([_STALE] * SAMPLES_PER_REPORT)
    return report if valid_crc else spoiled(report)


def spoiled(report: bytes) -> bytes:
    """With one bit flipped in its first sample, so that the checksum is wrong."""
    return report[:5] + bytes([report[5] ^ 0x10]) + report[6:]


def shortened(report: bytes) -> bytes:
    """Its first 30 bytes."""
    return report[:_SHORT_BYTES]


def command_of(frame: bytes) -> int | None:
    """The type of a frame from the host; None when it is none: wrong length, head or checksum."""
    if len(frame) != REPORT_BYTES or frame[0] != START or crc8(frame[:-1]) != frame[-1]:
        return None
    return frame[1]
