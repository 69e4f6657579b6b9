"""What the decoder of .cfn files makes of whole, cut, odd and foreign bytes."""

from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import ContractError
from meter.protocols import cfn, power_csv
from meter.sources.recording import read_recording

VECTOR = bytes.fromhex(
    "0000000000004940320000000000000005000000030000000102030400010005060708000400ff55ffff012e90a0f831e608400000"
    "0000000008400300000000000000000000000000000000001440333333333333e33f00000000000008407b14ae47e17a943f0ad7a3"
    "703d0a144085eb51b81e85e33fde718a8ee47208407b14ae47e17aa43f14ae47e17a141440d7a3703d0ad7e33f2e90a0f831e60840"
)
"""Three channels (voltage and current without extremes, power with), three rows."""
FIRST_ROW = 22 + 7 + 7 + 23 + 4
ROW = 8 * 4


def one_channel(kind: int = 4, flag: bytes = b"\0", rows: bytes = pack("<dd", 0, 1), count: int = 1) -> bytes:
    return pack("<diiih", 50.0, 50, 0, 5, 1) + pack("<h4s", kind, b"\1\2\3\4") + flag + pack("<i", count) + rows


def test_the_vector_with_three_channels_decodes_whole() -> None:
    recording = cfn.decode(VECTOR)
    assert recording.rate_hz == 50.0
    assert recording.period_ns == 20_000_000
    assert list(recording.t_s) == [0.0, 0.02, 0.04]
    assert recording.voltage_v is not None
    assert recording.current_a is not None
    assert list(recording.voltage_v) == [5.0, 5.01, 5.02]
    assert list(recording.current_a) == [0.6, 0.61, 0.62]
    assert list(recording.power_w) == pytest.approx([3.0, 3.0561, 3.1124])
    assert recording.flags == ()


@pytest.mark.parametrize("length", range(len(VECTOR)))
def test_a_file_cut_anywhere_keeps_its_whole_rows_or_is_refused(length: int) -> None:
    rows = max(0, length - FIRST_ROW) // ROW
    if rows == 0:
        with pytest.raises(ContractError):
            cfn.decode(VECTOR[:length])
        return
    recording = cfn.decode(VECTOR[:length])
    assert list(recording.t_s) == [0.0, 0.02, 0.04][:rows]
    assert len(recording.power_w) == rows
    assert recording.flags == ("truncated",)


def test_a_cut_header_is_refused_with_its_offset() -> None:
    with pytest.raises(ContractError, match="ends at offset 10, inside the header at offset 0"):
        cfn.decode(VECTOR[:10])


def test_extra_bytes_are_flagged_and_the_rows_kept() -> None:
    recording = cfn.decode(VECTOR + b"\0" * 5)
    assert len(recording.power_w) == 3
    assert recording.flags == ("extra_bytes",)


def test_extremes_that_differ_from_the_data_are_flagged() -> None:
    data = bytearray(VECTOR)
    data[22 + 7 + 7 + 7 : 22 + 7 + 7 + 7 + 8] = pack("<d", 4.0)
    assert cfn.decode(bytes(data)).flags == ("min_max_differs",)


def test_times_that_are_not_row_over_rate_are_kept_and_flagged() -> None:
    recording = cfn.decode(one_channel(rows=pack("<dddd", 0.0, 1.0, 0.5, 2.0), count=2))
    assert list(recording.t_s) == [0.0, 0.5]
    assert recording.flags == ("time_not_nominal",)


def test_power_is_voltage_times_current_where_it_was_not_recorded() -> None:
    head = pack("<diiih", 10.0, 0, 0, 0, 2) + pack("<h4sB", 1, b"", 0) + pack("<h4sB", 0, b"", 0)
    recording = cfn.decode(head + pack("<i", 1) + pack("<ddd", 0.0, 0.5, 5.0))
    assert list(recording.power_w) == [2.5]


def test_voltage_alone_is_no_power() -> None:
    with pytest.raises(ContractError, match="no column 'Power'"):
        cfn.decode(one_channel(kind=0))


def test_all_channel_types_become_si_and_unknown_ones_keep_a_generic_name() -> None:
    kinds = [4, 0, 1, 2, 3, 5, 6, 17]
    head = pack("<diiih", 50.0, 0, 0, 0, len(kinds)) + b"".join(pack("<h4sB", kind, b"", 0) for kind in kinds)
    recording = cfn.decode(head + pack("<i", 1) + pack("<9d", 0.0, 2.5, 5.0, 0.5, 0.6, 0.7, 0.001, 0.002, 9.0))
    assert recording.energy_j is not None
    assert list(recording.energy_j) == [pytest.approx(7.2)]
    assert {name: list(column) for name, column in recording.others.items()} == {
        "d_plus_v": [0.6],
        "d_minus_v": [0.7],
        "charge_c": [pytest.approx(3.6)],
        "channel_7_type_17": [9.0],
    }


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "ends at offset 0"),
        (b"Time,Power\n0.0,1.0\n0.02,1.0\n", "sample rate"),
        (pack("<diiih", 0.0, 0, 0, 0, 1), "sample rate 0/s at offset 0"),
        (pack("<diiih", float("nan"), 0, 0, 0, 1), "sample rate nan"),
        (pack("<diiih", float("inf"), 0, 0, 0, 1), "sample rate inf"),
        (pack("<diiih", 50.0, 0, 0, 0, 0), "0 channels at offset 20"),
        (pack("<diiih", 50.0, 0, 0, 0, 65), "65 channels at offset 20"),
        (one_channel(flag=b"\2"), "min/max flag 2 at offset 28"),
        (one_channel(count=-1), "-1 rows at offset 29"),
        (one_channel(rows=b"", count=0), "not one whole row"),
        (one_channel(rows=pack("<dd", float("nan"), 1.0)), "time nan s at offset 33"),
        (pack("<diiih", 50.0, 0, 0, 0, 2) + 2 * pack("<h4sB", 4, b"", 0), "second channel 'Power' at offset 29"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_and_place(data: bytes, what: str) -> None:
    with pytest.raises(ContractError, match=what):
        cfn.decode(data)


def test_a_huge_row_count_costs_no_memory() -> None:
    assert len(cfn.decode(one_channel(count=2**31 - 1)).t_s) == 1


@given(st.binary(max_size=400))
def test_any_bytes_give_a_recording_or_a_contract_error(data: bytes) -> None:
    try:
        recording = cfn.decode(data)
    except ContractError:
        return
    assert len(recording.t_s) == len(recording.power_w) >= 1


@given(st.binary(max_size=100), st.integers(0, len(VECTOR)), st.integers(0, len(VECTOR)))
def test_a_damaged_file_gives_a_recording_or_a_contract_error(rubbish: bytes, start: int, end: int) -> None:
    try:
        recording = cfn.decode(VECTOR[:start] + rubbish + VECTOR[end:])
    except ContractError:
        return
    assert len(recording.t_s) == len(recording.power_w) >= 1


@st.composite
def synthetic_files(draw: st.DrawFn) -> tuple[bytes, list[int], list[list[float]], int]:
    """A file of several channels, some with extremes and some without, its channel types, rows and first data byte."""
    kinds = draw(st.permutations([4, *draw(st.sets(st.sampled_from([0, 1, 2, 3, 5, 6, 9])))]))
    flagged = draw(st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds)))
    row = st.lists(st.floats(-10, 250, width=32), min_size=len(kinds), max_size=len(kinds))
    rows = draw(st.lists(row, min_size=1, max_size=20))
    data = pack("<diiih", 25.0, 50, 0, 5, len(kinds))
    for kind, has_extremes, column in zip(kinds, flagged, zip(*rows, strict=True), strict=True):
        data += pack("<h4sB", kind, b"\xff\x55\xff\xff", has_extremes)
        data += pack("<dd", max(column), min(column)) if has_extremes else b""
    data += pack("<i", len(rows))
    begin = len(data)
    for number, values in enumerate(rows):
        data += pack(f"<{1 + len(kinds)}d", number * 0.04, *values)
    return data, kinds, rows, begin


@given(synthetic_files(), st.floats(0, 1))
def test_files_of_any_channels_flags_and_cuts_give_their_whole_rows(
    file: tuple[bytes, list[int], list[list[float]], int], kept: float
) -> None:
    data, kinds, rows, begin = file
    row_bytes = 8 * (1 + len(kinds))
    length = begin + row_bytes + round(kept * (len(data) - begin - row_bytes))
    recording = cfn.decode(data[:length])
    whole = (length - begin) // row_bytes
    assert list(recording.power_w) == [row[kinds.index(4)] for row in rows[:whole]]
    assert list(recording.t_s) == [number * 0.04 for number in range(whole)]
    assert recording.flags == (("truncated",) if length < len(data) else ())
    if 6 in kinds:
        assert recording.energy_j is not None
        assert list(recording.energy_j) == [row[kinds.index(6)] * 3600 for row in rows[:whole]]


@pytest.mark.recordings
def test_every_real_recording_decodes_without_a_flag(recordings: Path) -> None:
    files = sorted(recordings.glob("*/*.cfn"))
    assert files
    for file in files:
        recording = read_recording(file)
        assert recording.flags == (), file
        assert recording.rate_hz == 50.0, file
        assert file.stat().st_size == 49 + 16 * len(recording.power_w), file


@pytest.mark.recordings
def test_the_csv_beside_a_real_recording_says_the_same_to_8_decimals(recordings: Path) -> None:
    files = sorted(recordings.glob("*/*.csv"))
    assert files
    for file in files:
        binary, text = read_recording(file.with_suffix(".cfn")), power_csv.decode(file.read_bytes())
        assert text.rate_hz == binary.rate_hz, file
        assert text.flags == (), file
        assert list(text.t_s) == pytest.approx(list(binary.t_s), abs=0.51e-8, rel=0), file
        assert list(text.power_w) == pytest.approx(list(binary.power_w), abs=0.51e-8, rel=0), file
