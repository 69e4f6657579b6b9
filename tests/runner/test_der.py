"""Key files: the sizes in them are those of the standard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.openssl.der import content_sizes, pem_body

ED25519 = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
"""
"""The example of RFC 8410, section 10.3."""


def test_the_private_key_of_rfc_8410_holds_32_bytes() -> None:
    assert 32 in content_sizes(pem_body(ED25519))


def test_the_sign_byte_of_an_integer_does_not_count() -> None:
    assert content_sizes(bytes([0x30, 4, 0x02, 2, 0x00, 0xFF])) == {1}


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN X-----\n\n-----END X-----"])
def test_a_file_without_a_key_holds_nothing(text: str) -> None:
    assert content_sizes(pem_body(text)) == frozenset()


def test_a_key_truncated_anywhere_holds_no_32_bytes() -> None:
    der = pem_body(ED25519)
    assert all(32 not in content_sizes(der[:length]) for length in range(len(der)))


@given(st.binary(max_size=200))
def test_rubbish_is_read_without_an_error(data: bytes) -> None:
    content_sizes(data)
