"""The replies of an RDTech TC66 or TC66C on its serial port: 192 enciphered bytes, and what they say.

Key and layout are from the sigrok wiki's page RDTech_TC66C; layout, checksum and the unit of the resistance were
checked on the reply of a real meter, firmware 1.18, that jedie/tc66c2mqtt publishes. Integers are little-endian.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from errors import FrameError, SettingsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import ECB

QUERY = b"query"
"""Asks for the mode: the meter answers `firm`, or `boot` when it waits for a new firmware."""
POLL = b"getva"
"""Asks for a reply. These are the only two commands that opjoule sends: `update` writes firmware."""
MEASURING, BOOTLOADER = b"firm", b"boot"
REPLY_BYTES = 192
BLOCK_BYTES = 64
ENERGY_STEP_J = 3.6
"""1 mWh, the step of the meter's energy counters."""
LAST_BLOCK = bytes.fromhex(
    "4231f411e56f5c203c590b4a68fd5b092aca6ec4a4554d5542e8674b097e259c"
    "2aca6ec4a4554d5542e8674b097e259ce09c4004c92da948c3165eebdb8b9ec2"
)
"""The third block as it is on the wire. It says nothing and is the same in every reply: a mark to find replies by."""

_KEY = bytes.fromhex("5821fa5601b2f02687ff1204622a4fb086f40260816f9a0ba7f106619ab87288")
_FIRST = Struct("<4s4s4sI28xIIII")
_SECOND = Struct("<4s9I")
_MAGICS = (b"pac1", b"pac2", b"pac3")


@dataclass(frozen=True, slots=True)
class Tc66Reply:
    """What one reply says, in SI units; steps of 100 uV and 10 uA."""

    product: str
    firmware: str
    serial: int
    power_ups: int
    voltage_v: float
    current_a: float
    meter_power_w: float
    """The meter's own product, cut to 100 uW. Not integrated: in 19 of 19 published readings (log of PQCEnergyPi, reply
    of jedie) it is the current times the voltage cut to whole 10 mV, and so 0.10 to 0.17 % below voltage x current."""
    resistance_ohm: float
    charge_steps: tuple[int, int]
    """Both groups, in mAh."""
    energy_steps: tuple[int, int]
    """Both groups, in steps of `ENERGY_STEP_J`; only the group chosen on the meter counts."""
    temperature_c: int
    """As the meter shows it: in degrees Fahrenheit when it is set so."""
    d_plus_v: float
    d_minus_v: float

    @property
    def power_w(self) -> float:
        """PBUS in W as voltage times current: the power that opjoule integrates."""
        return self.voltage_v * self.current_a


def decode_reply(reply: bytes) -> Tc66Reply:
    """What 192 bytes from the wire say. Its three blocks may stand in any order.

    Raises FrameError whose first word is the reason: `short`, `no_magic` or `bad_crc`.
    """
    if len(reply) != REPLY_BYTES:
        raise FrameError(f"short: a reply of {len(reply)} bytes instead of {REPLY_BYTES}")
    plain = _decipher(reply)
    blocks = {plain[at : at + 4]: plain[at : at + BLOCK_BYTES] for at in range(0, REPLY_BYTES, BLOCK_BYTES)}
    if set(blocks) != set(_MAGICS):
        raise FrameError("no_magic: 192 bytes that are not the blocks pac1, pac2 and pac3")
    for magic, block in blocks.items():
        if int.from_bytes(block[60:], "little") != crc16(block[:60]):
            raise FrameError(f"bad_crc: wrong checksum in block {magic.decode()}")
    return _parse(blocks[b"pac1"], blocks[b"pac2"])


def find_reply(received: bytes) -> bytes | None:
    """The newest whole reply in what was received: the 192 bytes up to the constant block, whatever stands around them.

    A reply in another order of blocks is taken when nothing but it was received.
    """
    at = received.rfind(LAST_BLOCK)
    end = at + BLOCK_BYTES
    if at >= 0 and end >= REPLY_BYTES:
        return received[end - REPLY_BYTES : end]
    return received if len(received) == REPLY_BYTES else None


def encode_reply(reply: Tc66Reply, order: Sequence[int] = (0, 1, 2)) -> bytes:
    """The 192 bytes that a meter would send, for simulated ones; `order` permutes its blocks."""
    first = _FIRST.pack(
        *(b"pac1", reply.product.encode("ascii"), reply.firmware.encode("ascii"), reply.serial, reply.power_ups),
        *(_steps(reply.voltage_v, 1e4), _steps(reply.current_a, 1e5), _steps(reply.meter_power_w, 1e4)),
    )
    groups = [each for pair in zip(reply.charge_steps, reply.energy_steps, strict=True) for each in pair]
    temperature = (int(reply.temperature_c < 0), abs(reply.temperature_c))
    second = _SECOND.pack(b"pac2", _steps(reply.resistance_ohm, 10), *groups, *temperature, *_d_lines(reply))
    blocks = [_seal(block) for block in (first, second, b"pac3")]
    return _encipher(b"".join(blocks[index] for index in order))


def crc16(data: bytes) -> int:
    """CRC-16/MODBUS: polynomial 0x8005 reflected, beginning with 0xFFFF."""
    crc = 0xFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc


def _crc_of_byte(crc: int) -> int:
    for _ in range(8):
        crc = (crc >> 1) ^ (0xA001 if crc & 1 else 0)
    return crc


_CRC_TABLE = tuple(_crc_of_byte(byte) for byte in range(256))


def _parse(first: bytes, second: bytes) -> Tc66Reply:
    _, product, firmware, serial, power_ups, voltage, current, power = _FIRST.unpack_from(first)
    _, resistance, *groups, is_negative, degrees, d_plus, d_minus = _SECOND.unpack_from(second)
    return Tc66Reply(
        product=_text(product),
        firmware=_text(firmware),
        serial=serial,
        power_ups=power_ups,
        voltage_v=voltage / 1e4,
        current_a=current / 1e5,
        meter_power_w=power / 1e4,
        resistance_ohm=resistance / 10,
        charge_steps=(groups[0], groups[2]),
        energy_steps=(groups[1], groups[3]),
        temperature_c=-degrees if is_negative else degrees,
        d_plus_v=d_plus / 100,
        d_minus_v=d_minus / 100,
    )


def _d_lines(reply: Tc66Reply) -> tuple[int, int]:
    return (_steps(reply.d_plus_v, 100), _steps(reply.d_minus_v, 100))


def _steps(value: float, steps_per_unit: float) -> int:
    return round(value * steps_per_unit)


def _text(raw: bytes) -> str:
    return raw.decode("ascii", errors="replace").strip("\0 ")


def _seal(block: bytes) -> bytes:
    body = block.ljust(60, b"\0")
    return body + crc16(body).to_bytes(4, "little")


@functools.cache
def _aes() -> "Cipher[ECB]":
    """AES-256 in ECB, imported on first use: a host without a TC66 needs neither the package nor its memory."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415
    except ModuleNotFoundError:
        raise SettingsError("a TC66 needs the package cryptography: pip install 'opjoule[meter]'") from None
    return Cipher(algorithms.AES(_KEY), modes.ECB())


def _decipher(data: bytes) -> bytes:
    context = _aes().decryptor()
    return context.update(data) + context.finalize()


def _encipher(data: bytes) -> bytes:
    context = _aes().encryptor()
    return context.update(data) + context.finalize()
