"""The catalogue against the tables of the standards, typed here a second time."""

import pytest

from schemas import CATALOGUE

# FIPS 203, table 3: encapsulation key, decapsulation key, ciphertext, shared secret.
FIPS_203 = {
    "ML-KEM-512": (800, 1632, 768, 32),
    "ML-KEM-768": (1184, 2400, 1088, 32),
    "ML-KEM-1024": (1568, 3168, 1568, 32),
}
# FIPS 204, table 2: private key, public key, signature; the category from table 1.
FIPS_204 = {
    "ML-DSA-44": (2560, 1312, 2420, 2),
    "ML-DSA-65": (4032, 1952, 3309, 3),
    "ML-DSA-87": (4896, 2592, 4627, 5),
}
# FIPS 205, table 2: public key, signature, category, for SHA2 and SHAKE alike; a private key is twice a public key.
FIPS_205 = {
    "128s": (32, 7856, 1),
    "128f": (32, 17088, 1),
    "192s": (48, 16224, 3),
    "192f": (48, 35664, 3),
    "256s": (64, 29792, 5),
    "256f": (64, 49856, 5),
}
# draft-ietf-tls-ecdhe-mlkem: client's share, server's share, shared secret; private keys are those of both parts.
HYBRID = {
    "X25519MLKEM768": (1216, 1120, 64, 2400 + 32),
    "SecP256r1MLKEM768": (1249, 1153, 64, 2400 + 32),
    "SecP384r1MLKEM1024": (1665, 1665, 80, 3168 + 48),
}
CLASSICAL = {
    "RSA-1024",
    "RSA-2048",
    "RSA-3072",
    "RSA-4096",
    "ECDSA-secp160r1",
    "ECDSA-P-224",
    "ECDSA-P-256",
    "ECDSA-P-384",
    "ECDSA-P-521",
    "ECDH-secp160r1",
    "ECDH-P-224",
    "ECDH-P-256",
    "ECDH-P-384",
    "ECDH-P-521",
    "X25519",
    "X448",
    "Ed25519",
    "Ed448",
}


def test_the_catalogue_has_these_parameter_sets_and_no_others() -> None:
    slh_dsa = {f"SLH-DSA-{hash_name}-{size}" for hash_name in ("SHA2", "SHAKE") for size in FIPS_205}
    assert len(slh_dsa) == 12
    assert set(CATALOGUE) == set(FIPS_203) | set(FIPS_204) | slh_dsa | set(HYBRID) | CLASSICAL
    assert all(name == each.name for name, each in CATALOGUE.items())
    assert {name for name, each in CATALOGUE.items() if each.post_quantum} == set(CATALOGUE) - CLASSICAL


@pytest.mark.parametrize("name", FIPS_203)
def test_ml_kem_has_the_sizes_of_fips_203(name: str) -> None:
    each = CATALOGUE[name]
    sizes = (each.public_key_bytes, each.private_key_bytes, each.ciphertext_bytes, each.shared_secret_bytes)
    assert sizes == FIPS_203[name]
    assert each.category == {"ML-KEM-512": 1, "ML-KEM-768": 3, "ML-KEM-1024": 5}[name]
    assert each.operations == ("keygen", "encaps", "decaps", "handshake")
    assert each.signature_bytes is None


@pytest.mark.parametrize("name", FIPS_204)
def test_ml_dsa_has_the_sizes_of_fips_204(name: str) -> None:
    each = CATALOGUE[name]
    assert (each.private_key_bytes, each.public_key_bytes, each.signature_bytes, each.category) == FIPS_204[name]
    assert each.operations == ("keygen", "sign", "verify")


@pytest.mark.parametrize("size", FIPS_205)
@pytest.mark.parametrize("hash_name", ["SHA2", "SHAKE"])
def test_slh_dsa_has_the_sizes_of_fips_205(hash_name: str, size: str) -> None:
    each = CATALOGUE[f"SLH-DSA-{hash_name}-{size}"]
    assert (each.public_key_bytes, each.signature_bytes, each.category) == FIPS_205[size]
    assert each.private_key_bytes == 2 * each.public_key_bytes
    assert each.operations == ("keygen", "sign", "verify")


@pytest.mark.parametrize(("bits", "modulus_bytes"), [(1024, 128), (2048, 256), (3072, 384), (4096, 512)])
def test_an_rsa_signature_and_ciphertext_are_as_long_as_the_modulus(bits: int, modulus_bytes: int) -> None:
    each = CATALOGUE[f"RSA-{bits}"]
    assert (each.signature_bytes, each.ciphertext_bytes) == (modulus_bytes, modulus_bytes)
    assert each.operations == ("keygen", "sign", "verify", "encrypt", "decrypt")


@pytest.mark.parametrize(
    ("curve", "field_bytes", "der_bytes"),
    [("P-224", 28, 64), ("P-256", 32, 72), ("P-384", 48, 104), ("P-521", 66, 139)],
)
def test_prime_curves_have_uncompressed_points_and_der_signatures(curve: str, field_bytes: int, der_bytes: int) -> None:
    ecdsa, ecdh = CATALOGUE[f"ECDSA-{curve}"], CATALOGUE[f"ECDH-{curve}"]
    for each in (ecdsa, ecdh):
        assert (each.public_key_bytes, each.private_key_bytes) == (2 * field_bytes + 1, field_bytes)
    assert (ecdsa.signature_bytes, ecdsa.der_signature_bytes) == (2 * field_bytes, der_bytes)
    assert ecdh.shared_secret_bytes == field_bytes
    assert ("handshake" in ecdh.operations) == (curve != "P-224"), "TLS 1.3 has no group below P-256"


def test_the_order_of_secp160r1_has_a_byte_more_than_its_field() -> None:
    order = 0x0100000000000000000001F4C8F927AED3CA752257  # SEC 2 version 1, section 2.4.2
    scalar_bytes = (order.bit_length() + 7) // 8
    der_bytes = 2 + 2 * (2 + scalar_bytes)  # a sequence of two integers whose first byte is at most 01
    ecdsa, ecdh = CATALOGUE["ECDSA-secp160r1"], CATALOGUE["ECDH-secp160r1"]
    assert (ecdsa.private_key_bytes, ecdsa.signature_bytes, ecdsa.der_signature_bytes) == (21, 42, der_bytes)
    assert (ecdh.public_key_bytes, ecdh.private_key_bytes, ecdh.shared_secret_bytes) == (41, scalar_bytes, 20)
    assert (ecdsa.category, ecdh.operations) == (None, ("keygen", "derive"))


@pytest.mark.parametrize("name", HYBRID)
def test_a_hybrid_group_is_both_its_parts_one_after_the_other(name: str) -> None:
    each = CATALOGUE[name]
    sizes = (each.public_key_bytes, each.ciphertext_bytes, each.shared_secret_bytes, each.private_key_bytes)
    assert sizes == HYBRID[name]
    assert each.operations == ("handshake",), "libcrypto offers it to TLS only"


@pytest.mark.parametrize(("name", "key_bytes"), [("X25519", 32), ("X448", 56)])
def test_x25519_and_x448_have_the_sizes_of_rfc_7748(name: str, key_bytes: int) -> None:
    each = CATALOGUE[name]
    assert (each.public_key_bytes, each.private_key_bytes, each.shared_secret_bytes) == (key_bytes,) * 3
    assert each.operations == ("keygen", "derive", "handshake")


@pytest.mark.parametrize(("name", "key_bytes", "signature_bytes"), [("Ed25519", 32, 64), ("Ed448", 57, 114)])
def test_ed25519_and_ed448_have_the_sizes_of_rfc_8032(name: str, key_bytes: int, signature_bytes: int) -> None:
    each = CATALOGUE[name]
    assert (each.public_key_bytes, each.private_key_bytes, each.signature_bytes) == (
        key_bytes,
        key_bytes,
        signature_bytes,
    )


def test_every_set_has_the_sizes_that_its_operations_need() -> None:
    for each in CATALOGUE.values():
        assert ("sign" in each.operations) == (each.signature_bytes is not None), each.name
        has_secret = "encaps" in each.operations or "derive" in each.operations or each.family == "hybrid"
        assert has_secret == (each.shared_secret_bytes is not None), each.name
        assert ("keygen" in each.operations) == (each.family != "hybrid"), each.name


@pytest.mark.parametrize(
    ("name", "size_bytes", "right"),
    [
        ("ML-DSA-65", 3309, True),
        ("ML-DSA-65", 3293, False),
        ("RSA-2048", 0, False),
        ("ECDSA-P-256", 72, True),
        ("ECDSA-P-256", 70, True),
        ("ECDSA-P-256", 73, False),
        ("ECDSA-P-256", 0, False),
        ("X25519", 64, False),
    ],
)
def test_a_signature_of_the_wrong_size_is_noticed(name: str, size_bytes: int, right: bool) -> None:
    assert CATALOGUE[name].signature_size_is_right(size_bytes) is right
