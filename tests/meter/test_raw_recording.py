"""Our own raw recordings: written whole, read whole, and read up to where they are cut or damaged."""

import gzip
import json
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import ContractError
from meter.protocols.raw_recording import RawDecoder, RawEncoder, RawFrame, RawHeader

HEADER = RawHeader(
    protocol="fnirsi",
    started_ns=1_775_827_500_000_000_000,
    sample_period_ns=10_000_000,
    meter_model="FNB58",
    family="B",
)
FRAMES = [
    RawFrame(0, "+"),
    RawFrame(1_000_000, ">", bytes.fromhex("aa81")),
    *[RawFrame(2_000_000 + 40_000_000 * k, "<", bytes([0xAA, 4, k])) for k in range(200)],
    RawFrame(9_000_000_000, "-"),
]


def encoded(frames: list[RawFrame], flush_each: bool = False) -> bytes:
    encoder = RawEncoder()
    data = encoder.header(HEADER)
    for frame in frames:
        data += encoder.frame(frame) + (encoder.flush() if flush_each else b"")
    return data + encoder.finish()


def decoded(data: bytes, chunk: int = 100) -> tuple[list[RawFrame], RawDecoder]:
    decoder = RawDecoder()
    frames = [frame for at in range(0, len(data), chunk) for frame in decoder.feed(data[at : at + chunk])]
    decoder.finish()
    return frames, decoder


def of_text(text: str) -> bytes:
    return gzip.compress(text.encode())


@given(
    st.lists(st.tuples(st.integers(0, 10**15), st.sampled_from("<>+-"), st.binary(max_size=200))),
    st.integers(1, 1000),
)
def test_what_was_written_is_read_whatever_the_pieces(given_frames: list[tuple[int, str, bytes]], chunk: int) -> None:
    frames = [RawFrame(at_ns, event, data) for at_ns, event, data in sorted(given_frames)]  # type: ignore[arg-type]
    read, decoder = decoded(encoded(frames), chunk)
    assert read == frames
    assert (decoder.header, decoder.flags) == (HEADER, ())


def test_anybody_can_read_it_with_gzip() -> None:
    first, *lines = gzip.decompress(encoded(FRAMES)).decode().splitlines()
    assert json.loads(first)["meter_model"] == "FNB58"
    assert lines[:3] == ["0 +", "1000000 > aa81", "2000000 < aa0400"]


def test_a_file_cut_anywhere_gives_its_whole_frames_and_says_that_it_is_cut() -> None:
    data = encoded(FRAMES, flush_each=True)
    counts: list[int] = []
    for length in range(200, len(data)):
        read, decoder = decoded(data[:length], chunk=10_000)
        assert read == FRAMES[: len(read)]
        assert decoder.flags == ("truncated",)
        counts.append(len(read))
    assert all(before <= after for before, after in pairwise(counts))
    assert counts[-1] == len(FRAMES)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "ends inside its first line"),
        (encoded(FRAMES)[:8], "ends inside its first line"),
        (b"Time,Power\n0.00,1.5\n", "no gzip file"),
        (of_text('{"protocol": "fnirsi"}\n'), "started_ns: Field required"),
        (of_text("12 < aa\n"), "line 1: Invalid JSON"),
        (of_text(HEADER.model_dump_json().replace('"opjoule_raw":1', '"opjoule_raw":2') + "\n"), "opjoule_raw: Input"),
    ],
)
def test_what_is_no_recording_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(ContractError, match=what):
        decoded(data)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        "5",
        "5 ?",
        "5 < zz",
        "5 < aa aa",
        "-5 < aa",
        "5 < aa0",
        "99999999999999999999999 < aa",
        "1 < aa",
        "5 <\taa",
    ],
)
def test_a_damaged_line_ends_what_is_read(line: str) -> None:
    read, decoder = decoded(of_text(f"{HEADER.model_dump_json()}\n2 < aa\n3 < bb\n{line}\n6 < cc\n"))
    assert read == [RawFrame(2, "<", b"\xaa"), RawFrame(3, "<", b"\xbb")]
    assert decoder.flags == ("damaged",)


def test_a_flipped_bit_is_noticed_where_it_changes_anything() -> None:
    data = bytearray(encoded(FRAMES, flush_each=True))
    for at in range(300, len(data) - 8, 97):
        data[at] ^= 0x20
        read, decoder = decoded(bytes(data), chunk=10_000)
        data[at] ^= 0x20
        assert decoder.flags or read == FRAMES
        assert read[:1] == FRAMES[:1]


def test_bytes_after_the_end_are_flagged() -> None:
    read, decoder = decoded(encoded(FRAMES) + b"more")
    assert (read, decoder.flags) == (FRAMES, ("extra_bytes",))


def test_a_bomb_does_not_fill_the_memory() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = bomb.compress(HEADER.model_dump_json().encode() + b"\n")
    data += bomb.compress(b"0" * 50_000_000) + bomb.flush()
    decoder = RawDecoder()
    assert [frame for at in range(0, len(data), 1000) for frame in decoder.feed(data[at : at + 1000])] == []
    decoder.finish()
    assert decoder.flags == ("damaged",)
