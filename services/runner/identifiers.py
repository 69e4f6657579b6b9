"""Identifiers of events: UUIDv7 (RFC 9562 section 5.7), which Python 3.11 to 3.13 lack."""

from uuid import UUID


def uuid7(t_ns: int, entropy: bytes) -> UUID:
    """The UUIDv7 of a time in ns since 1970 and ten random bytes, 74 bits of which are used."""
    time_ms = t_ns // 1_000_000
    random = int.from_bytes(entropy[:10], "big")
    rand_a, rand_b = random & 0xFFF, (random >> 12) & (2**62 - 1)
    return UUID(int=(time_ms & (2**48 - 1)) << 80 | 0x7 << 76 | rand_a << 64 | 0b10 << 62 | rand_b)
