"""Replies of a TC66C: a published one, one made by another program, and spoiled ones."""

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import FrameError, SettingsError
from meter.protocols.tc66c import (
    BLOCK_BYTES,
    ENERGY_STEP_J,
    LAST_BLOCK,
    REPLY_BYTES,
    Tc66Reply,
    _aes,
    crc16,
    decode_reply,
    encode_reply,
    find_reply,
)

PUBLISHED = bytes.fromhex(
    "006630928cdbb01e307647693bac80b012a60ec3c8645b9af0ead3c57ae5a0628f330593ff8f836a2a36d60f8709fc4f"
    "c5ec277ef1b0dbb4815a9497d8646eb206f404f8061c1177e994f37dfc6f4dab07385ea4d05c1e32616e88527b57d310"
    "6babf8c170d31db582db234384fa559313e92b412f6af4e16e09168c608fba0a4231f411e56f5c203c590b4a68fd5b09"
    "2aca6ec4a4554d5542e8674b097e259c2aca6ec4a4554d5542e8674b097e259ce09c4004c92da948c3165eebdb8b9ec2"
)
"""Of a real meter, firmware 1.18; jedie/tc66c2mqtt, which gives 5.1609 V, 0.0199 A, 0.1026 W, 5 mWh with it."""

CONSTRUCTED = bytes.fromhex(
    "78f2a6947d84ef1a035c9aa26a265ce72aca6ec4a4554d5542e8674b097e259cc6a622be11d48b6150d9c420a366dd2c"
    "ce55ee589eb07ab0a6032fb069e00ae979fea598b26b195ef23fec3b642543966316524a189d53f724f820a53f6c2ccc"
    "c71fc5be1a4e9014f0c5483fc0a67d6663cdaf4a64f695a87182a0185d064c324231f411e56f5c203c590b4a68fd5b09"
    "2aca6ec4a4554d5542e8674b097e259c2aca6ec4a4554d5542e8674b097e259ce09c4004c92da948c3165eebdb8b9ec2"
)
REPLY = Tc66Reply(
    product="TC66",
    firmware="1.18",
    serial=4242,
    power_ups=7,
    voltage_v=5.1234,
    current_a=0.61234,
    meter_power_w=3.1372,
    resistance_ohm=8.4,
    charge_steps=(0, 1234),
    energy_steps=(0, 6170),
    temperature_c=-5,
    d_plus_v=0.61,
    d_minus_v=0.6,
)


def blocks_of(reply: bytes) -> list[bytes]:
    return [reply[at : at + BLOCK_BYTES] for at in range(0, REPLY_BYTES, BLOCK_BYTES)]


def test_the_published_reply_says_what_its_publisher_says() -> None:
    reply = decode_reply(PUBLISHED)
    assert (reply.product, reply.firmware) == ("TC66", "1.18")
    assert (reply.voltage_v, reply.current_a, reply.meter_power_w) == (5.1609, 0.0199, 0.1026)
    assert (reply.temperature_c, reply.d_plus_v, reply.d_minus_v) == (27, 2.81, 2.8)
    assert (reply.charge_steps, reply.energy_steps) == ((0, 0), (5, 0))


def test_resistance_is_in_tenths_of_an_ohm() -> None:
    reply = decode_reply(PUBLISHED)
    assert reply.resistance_ohm == 259.3
    assert reply.resistance_ohm == pytest.approx(reply.voltage_v / reply.current_a, rel=1e-3)


def test_the_constructed_reply_says_what_went_into_it_with_a_temperature_below_zero() -> None:
    assert decode_reply(CONSTRUCTED) == REPLY


def test_encoding_gives_the_constructed_reply_byte_for_byte() -> None:
    assert encode_reply(REPLY) == CONSTRUCTED


def test_the_checksum_is_that_of_modbus() -> None:
    assert crc16(b"123456789") == 0x4B37


def test_the_last_block_is_the_same_in_every_reply() -> None:
    assert PUBLISHED.endswith(LAST_BLOCK)
    assert encode_reply(replace(REPLY, serial=1)).endswith(LAST_BLOCK)


@pytest.mark.parametrize(
    ("voltage_v", "current_a", "logged_w"),
    [(5.1609, 0.0199, 0.1026), (5.1177, 0.5818, 2.9728), (5.1158, 1.0249, 5.2369), (5.1186, 0.9673, 4.943)],
)
def test_the_power_that_counts_is_voltage_times_current_and_the_meters_own_is_up_to_two_permille_below(
    voltage_v: float, current_a: float, logged_w: float
) -> None:
    """Figures as published: the reply above, and three rows of the log of PQCEnergyPi, whose currents have 4 digits."""
    reply = decode_reply(encode_reply(replace(REPLY, voltage_v=voltage_v, current_a=current_a, meter_power_w=logged_w)))
    assert reply.power_w == pytest.approx(voltage_v * current_a)
    assert 0.9983 < reply.meter_power_w / reply.power_w < 0.9991
    cut_v = int(100 * voltage_v) / 100
    assert logged_w == pytest.approx(cut_v * current_a, abs=5e-5 * cut_v + 1e-4)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_blocks_may_stand_in_any_order(order: tuple[int, int, int]) -> None:
    assert decode_reply(encode_reply(REPLY, order)) == REPLY


@pytest.mark.parametrize("block", [0, 1, 2])
def test_a_wrong_checksum_in_any_block_refuses_the_reply_and_names_the_block(block: int) -> None:
    spoiled = bytearray(CONSTRUCTED)
    spoiled[block * BLOCK_BYTES + 50] ^= 1
    with pytest.raises(FrameError, match=f"^bad_crc: .* pac{block + 1}"):
        decode_reply(bytes(spoiled))


@given(at=st.integers(0, REPLY_BYTES - 1), bit=st.integers(0, 7))
def test_no_single_wrong_bit_goes_unnoticed(at: int, bit: int) -> None:
    spoiled = bytearray(CONSTRUCTED)
    spoiled[at] ^= 1 << bit
    with pytest.raises(FrameError, match=r"^(bad_crc|no_magic): "):
        decode_reply(bytes(spoiled))


def test_a_block_that_comes_twice_is_no_reply() -> None:
    first, _, last = blocks_of(CONSTRUCTED)
    with pytest.raises(FrameError, match=r"^no_magic: "):
        decode_reply(first + first + last)


@pytest.mark.parametrize("size", [0, 1, 64, 191, 193])
def test_a_reply_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(FrameError, match=r"^short: "):
        decode_reply((CONSTRUCTED * 2)[:size])


@given(before=st.binary(max_size=300), after=st.binary(max_size=40))
def test_a_reply_is_found_by_its_last_block_with_rubbish_around_it(before: bytes, after: bytes) -> None:
    assert find_reply(before + CONSTRUCTED + after) == CONSTRUCTED


def test_of_two_replies_the_newest_is_found() -> None:
    assert find_reply(PUBLISHED + CONSTRUCTED) == CONSTRUCTED


@given(size=st.integers(0, REPLY_BYTES - 1))
def test_a_reply_that_is_not_whole_is_not_found(size: int) -> None:
    assert find_reply(CONSTRUCTED[:size]) is None
    assert find_reply(CONSTRUCTED[-size:] if size else b"") is None


def test_an_energy_step_is_a_milliwatt_hour() -> None:
    assert pytest.approx(1e-3 * 3600) == ENERGY_STEP_J


def test_without_cryptography_the_operator_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _aes.cache_clear()
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(SettingsError, match="needs the package cryptography"):
        decode_reply(PUBLISHED)
