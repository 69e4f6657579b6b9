"""UUIDv7 by the example of RFC 9562, appendix A.6."""

from runner.identifiers import uuid7


def test_version_variant_time_and_randomness_are_where_the_rfc_puts_them() -> None:
    rand_a, rand_b = 0xCC3, 0x18C4DC0C0C07398F
    entropy = (rand_b << 12 | rand_a).to_bytes(10, "big")
    assert str(uuid7(0x017F22E279B0 * 1_000_000, entropy)) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_later_identifiers_sort_after_earlier_ones() -> None:
    early, late = uuid7(1_000_000_000, b"\xff" * 10), uuid7(1_001_000_000, b"\0" * 10)
    assert early < late
    assert (early.version, early.variant) == (7, "specified in RFC 4122")
