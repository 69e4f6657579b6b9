"""The CSV forms of FNIRSI recordings, as made and as met."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import ContractError
from meter.protocols import power_csv

CONVERTER = (
    b"# 50.0 sps, start/stop: 50/0 mA (5 s), channels: 1\n"
    b"# P min: 0.65, P max: 0.75\n"
    b"Time,Power\n0.00000000,0.65000000\n0.02000000,0.75000000\n0.04000000,0.70000000\n"
)
"""The first lines of a real file, values shortened."""
BARE = CONVERTER.split(b"\n", 2)[2]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(CONVERTER, id="converter"),
        pytest.param(BARE, id="no comment lines"),
        pytest.param(CONVERTER.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(CONVERTER.replace(b"\n", b"\r"), id="CR"),
        pytest.param(b"\xef\xbb\xbf" + CONVERTER, id="byte order mark"),
        pytest.param(BARE.replace(b",", b";").replace(b".", b","), id="semicolon and decimal comma"),
        pytest.param(CONVERTER.replace(b"\n", b",\n"), id="trailing commas"),
        pytest.param(CONVERTER + b",0.7\n", id="mean row"),
        pytest.param(CONVERTER.rstrip(b"\n"), id="no end of line"),
        pytest.param(CONVERTER + b"\n,,\n", id="blank rows"),
        pytest.param(BARE.replace(b"Time,Power", b'"Time","Power"'), id="quoted names"),
        pytest.param(
            b"# 50.0 sps, channels: 1,\nTime,Power,\n0,0.65,\n0.02,0.75,\n0.04,0.7,\n,0.7,\n", id="spreadsheet"
        ),
    ],
)
def test_every_known_form_gives_the_same_recording(data: bytes) -> None:
    recording = power_csv.decode(data)
    assert recording.rate_hz == pytest.approx(50.0)
    assert recording.period_ns == 20_000_000
    assert list(recording.t_s) == [0.0, 0.02, 0.04]
    assert list(recording.power_w) == [0.65, 0.75, 0.7]
    assert recording.flags == ()


def test_power_is_voltage_times_current_and_energy_is_in_joules() -> None:
    recording = power_csv.decode(b"Time,Current,Voltage,Energy,Comment\n0,0.5,5,0.001,x\n0.1,0.5,5,0.002,\n")
    assert list(recording.power_w) == [2.5, 2.5]
    assert recording.energy_j is not None
    assert list(recording.energy_j) == pytest.approx([3.6, 7.2])


@pytest.mark.parametrize("end", [b"0.06", b"0.06000000", b"0.06000000,"])
def test_a_last_row_that_was_cut_is_left_out_and_flagged(end: bytes) -> None:
    recording = power_csv.decode(CONVERTER + end)
    assert len(recording.t_s) == 3
    assert recording.flags == ("truncated",)


def test_times_off_the_grid_are_kept_and_flagged() -> None:
    recording = power_csv.decode(CONVERTER.replace(b"0.04000000", b"0.05000000"))
    assert list(recording.t_s) == [0.0, 0.02, 0.05]
    assert recording.flags == ("time_not_nominal",)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "no line with column names"),
        (b"# 50.0 sps\n", "no line with column names"),
        (b"Time,Power\n", "no row below the header in line 1"),
        (b"Time,Voltage\n0,5\n0.1,5\n", "no column 'Power'"),
        (b"t,Power\n0,5\n", "no column 'Time' in line 1"),
        (b"Time,Power,Power\n0,5,5\n", "named twice in line 1"),
        (b"Time,Power\n0,5\n0.1\n0.2,5\n", "line 3: '' in column 'Power' is not a number"),
        (b"Time,Power\n0,5\n0.1,five\n", "line 3: 'five' in column 'Power' is not a number"),
        (b"Time,Power\n0,nan\n0.1,5\n", "line 2: 'nan'"),
        (b"Time,Power\n0,5\n", "no sample rate"),
        (b"Time,Power\n0,5\n0,5\n", "no sample rate"),
        (b"# 0 sps\nTime,Power\n0,5\n", "sample rate 0/s"),
        (b"# 50 sps\nTime,Power\n1e99,5\n", "row 1 below line 2: time 1e\\+99 s is no time"),
        (b"00:00:01:100,5.01,0.5,0,0,null\n", "line 1: time '00:00:01:100' is the form of another vendor, WITRN"),
        (b"Time,Voltage,Current\n00:00:01:100,5.01,0.5\n", "line 2: .* another vendor, WITRN"),
        (b"\xff\xfeT\0i\0", "byte 0 is not UTF-8"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_and_line(data: bytes, what: str) -> None:
    with pytest.raises(ContractError, match=what):
        power_csv.decode(data)


@pytest.mark.parametrize("length", range(len(CONVERTER)))
def test_a_file_cut_anywhere_gives_its_whole_rows_or_is_refused(length: int) -> None:
    try:
        recording = power_csv.decode(CONVERTER[:length])
    except ContractError:
        return
    assert 1 <= len(recording.t_s) <= 3
    assert list(recording.t_s) == [0.0, 0.02, 0.04][: len(recording.t_s)]


@given(st.binary(max_size=200) | st.text(alphabet='Time,Power;0123456789.-e\n#\r" ', max_size=200).map(str.encode))
def test_any_bytes_give_a_recording_or_a_contract_error(data: bytes) -> None:
    for candidate in (data, BARE + data, b"# 50.0 sps\n" + data):
        try:
            recording = power_csv.decode(candidate)
        except ContractError:
            continue
        assert len(recording.t_s) == len(recording.power_w) >= 1
