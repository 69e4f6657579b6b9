"""The FNIRSI USB protocol: published frames, a constructed report, and everything that is not one."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meter.protocols.fnirsi import (
    BOOTLOADER,
    MODELS,
    START_SEQUENCE,
    Command,
    DataReport,
    InfoReport,
    OtherReport,
    Reason,
    Refused,
    SupplySample,
    command,
    crc8,
    decode,
    encode_data,
    seal,
)

REPORT = bytes.fromhex(  # METERS.md 1.5, constructed there with a valid CRC
    "aa0459d1070032ef0000580259020111015ad107003cef0000580259020111015bd1070046ef0000580259020111015c"
    "d1070050ef000058025902011101000b"
)
SAMPLE = SupplySample(512_345, 61_234)


def test_the_published_commands_come_out_byte_for_byte() -> None:
    frames = [command(which) for which in Command]
    assert [frame[:2].hex() for frame in frames] == ["aa81", "aa82", "aa83"]
    assert [frame[63] for frame in frames] == [0x8E, 0x96, 0x9E]  # METERS.md 1.3
    assert all(len(frame) == 64 and not any(frame[2:63]) for frame in frames)


def test_no_command_exists_but_identify_start_and_continue() -> None:
    assert set(Command) == {0x81, 0x82, 0x83}
    assert {each for sequence in START_SEQUENCE.values() for each in sequence} <= set(Command)


def test_the_crc_has_its_published_check_values_in_both_forms() -> None:
    def from_0x42(data: bytes) -> int:  # the form of baryluk, over bytes 1 to 62, bit by bit
        crc = 0x42
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = (crc << 1 ^ (0x39 if crc & 0x80 else 0)) & 0xFF
        return crc

    assert from_0x42(b"123456789") == 0x4B
    assert crc8(b"\xaa123456789") == 0x4B
    assert crc8(b"\xaa\x04" + bytes(61)) == 0x42
    assert crc8(b"\xaa\x03" + bytes(61)) == 0x7A


def test_a_data_report_says_four_samples_oldest_first_and_loses_no_digit() -> None:
    said = decode(REPORT)
    assert isinstance(said, DataReport)
    assert [each.voltage_v for each in said.samples] == [5.12345, 5.12346, 5.12347, 5.12348]
    assert [each.current_a for each in said.samples] == [0.61234, 0.61244, 0.61254, 0.61264]
    assert {(each.data_plus_mv, each.data_minus_mv, each.temperature_c) for each in said.samples} == {(600, 601, 27.3)}
    assert said.samples[0].power_w == 512_345 * 61_234 / 10**10
    assert encode_data(said.samples) == REPORT


@given(st.lists(st.builds(SupplySample, st.integers(0, 2_800_000), st.integers(0, 700_000)), min_size=4, max_size=4))
def test_what_a_meter_can_measure_comes_back_bit_exact(samples: list[SupplySample]) -> None:
    assert decode(encode_data(samples)) == DataReport(tuple(samples))


@pytest.mark.parametrize("length", [0, 1, 30, 63, 65, 128])
def test_a_report_of_another_length_is_refused_whatever_it_holds(length: int) -> None:
    assert decode((REPORT * 2)[:length]) == Refused("wrong_length")


def test_a_report_that_begins_otherwise_is_refused_and_so_is_one_of_zeros() -> None:
    assert decode(b"\x55" + REPORT[1:]) == Refused("not_a_report")
    assert decode(bytes(64)) == Refused("not_a_report")


def test_every_damaged_bit_is_noticed() -> None:
    for byte, bit in product(range(1, 64), range(8)):
        damaged = bytearray(REPORT)
        damaged[byte] ^= 1 << bit
        assert decode(bytes(damaged)) == Refused("bad_crc")


@pytest.mark.parametrize(
    "sample",
    [
        SupplySample(18_874_370, 17_039_408, 51_840, 0, 0),  # the stale first report of baryluk, pull request 4
        SupplySample(2_800_001, 0),
        SupplySample(0, 700_001),
        SupplySample(0, 0, 3601),
        SupplySample(0, 0, 0, 3601),
        SupplySample(0, 0, 0, 0, 1001),
    ],
)
@pytest.mark.parametrize("place", range(4))
def test_one_value_that_no_meter_measures_refuses_the_whole_report(sample: SupplySample, place: int) -> None:
    samples = [SAMPLE] * 4
    samples[place] = sample
    assert decode(encode_data(samples)) == Refused("implausible")


def test_no_current_a_low_voltage_and_a_cold_meter_are_plausible() -> None:
    samples = (SupplySample(100_000, 0, 0, 0, 0),) * 4
    assert decode(encode_data(samples)) == DataReport(samples)


def test_reports_of_other_types_and_echoes_are_no_errors() -> None:
    assert decode(seal(b"\xaa\x07" + bytes(61))) == OtherReport(0x07)
    assert decode(command(Command.IDENTIFY)) == OtherReport(0x81)


def test_the_information_report_gives_the_firmware_where_its_layout_fits_and_nothing_where_not() -> None:
    body = bytes.fromhex("3a00 4400 40e20100 2a000000")  # model 58, firmware 0.68: METERS.md 2.4
    for lead in (b"", b"\0"):
        assert decode(seal((b"\xaa\x03" + lead + body).ljust(63, b"\0"))) == InfoReport("0.68")
    assert decode(seal(b"\xaa\x03" + bytes(61))) == InfoReport(None)
    assert decode(seal(b"\xaa\x03" + b"\xff" * 61)) == InfoReport(None)


def test_the_decoder_goes_on_between_rubbish_of_every_kind() -> None:
    rubbish = [b"", b"\xaa", bytes(64), b"\xff" * 64, REPORT[:30], REPORT[1:] + b"\0", REPORT[:-1] + b"\0"]
    said = [decode(each) for junk in rubbish for each in (junk, REPORT)]
    assert all(isinstance(each, Refused) for each in said[::2])
    assert said[1::2] == [decode(REPORT)] * len(rubbish)


@given(st.binary(max_size=80))
def test_no_bytes_bring_the_decoder_down(report: bytes) -> None:
    said = decode(report)
    reasons: set[Reason] = {"wrong_length", "not_a_report", "bad_crc", "implausible"}
    assert not isinstance(said, Refused) or said.reason in reasons


def test_the_bootloader_is_no_model() -> None:
    assert BOOTLOADER not in MODELS
