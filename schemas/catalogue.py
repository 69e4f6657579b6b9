"""The parameter sets, with their sizes in bytes as standardised.

Sources: FIPS 203 table 3 (ML-KEM), FIPS 204 table 2 (ML-DSA), FIPS 205 table 2 (SLH-DSA), FIPS 186-5 and SEC 1
(ECDSA, uncompressed points), RFC 7748 (X25519, X448), RFC 8032 (Ed25519, Ed448), RFC 8017 (RSA: the modulus),
draft-ietf-tls-ecdhe-mlkem (hybrid TLS groups: both parts one after the other), SEC 2 version 1 (secp160r1).
The category of a classical set is the NIST category of its strength before quantum computers (SP 800-57 part 1).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from schemas.operations import Operation

Family = Literal["ML-KEM", "ML-DSA", "SLH-DSA", "RSA", "ECDSA", "ECDH", "XDH", "EdDSA", "hybrid", "provider"]
KEM: tuple[Operation, ...] = ("keygen", "encaps", "decaps", "handshake")
SIGNATURE: tuple[Operation, ...] = ("keygen", "sign", "verify")
AGREEMENT: tuple[Operation, ...] = ("keygen", "derive", "handshake")


@dataclass(frozen=True, slots=True)
class ParameterSet:
    """One named instance. Sizes are bytes of the raw standard encoding, None where the set has no such thing.

    `signature_bytes` of ECDSA is r and s side by side; OpenSSL writes them as DER, of variable length up to
    `der_signature_bytes`. `category` is None below category 1. Those of a provider are not in the catalogue: their
    sizes are 0, which means unknown. A parameter set of a handshake is its key exchange group.
    """

    name: str
    family: Family
    standard: str
    category: int | None
    operations: tuple[Operation, ...]
    public_key_bytes: int
    private_key_bytes: int
    signature_bytes: int | None = None
    der_signature_bytes: int | None = None
    ciphertext_bytes: int | None = None
    shared_secret_bytes: int | None = None
    post_quantum: bool = False

    def signature_size_is_right(self, size_bytes: int) -> bool:
        """Whether OpenSSL may have written a signature of this size."""
        if self.der_signature_bytes is not None:
            return 8 <= size_bytes <= self.der_signature_bytes
        return size_bytes == self.signature_bytes


def _ml_kem() -> Iterator[ParameterSet]:
    rows = [("512", 1, 800, 1632, 768), ("768", 3, 1184, 2400, 1088), ("1024", 5, 1568, 3168, 1568)]
    for size, category, public, private, ciphertext in rows:
        yield ParameterSet(
            name=f"ML-KEM-{size}",
            family="ML-KEM",
            standard="FIPS 203",
            category=category,
            operations=KEM,
            public_key_bytes=public,
            private_key_bytes=private,
            ciphertext_bytes=ciphertext,
            shared_secret_bytes=32,
            post_quantum=True,
        )


def _ml_dsa() -> Iterator[ParameterSet]:
    rows = [("44", 2, 1312, 2560, 2420), ("65", 3, 1952, 4032, 3309), ("87", 5, 2592, 4896, 4627)]
    for size, category, public, private, signature in rows:
        yield ParameterSet(
            name=f"ML-DSA-{size}",
            family="ML-DSA",
            standard="FIPS 204",
            category=category,
            operations=SIGNATURE,
            public_key_bytes=public,
            private_key_bytes=private,
            signature_bytes=signature,
            post_quantum=True,
        )


def _slh_dsa() -> Iterator[ParameterSet]:
    sizes = {"128s": 7856, "128f": 17088, "192s": 16224, "192f": 35664, "256s": 29792, "256f": 49856}
    categories = {"128": 1, "192": 3, "256": 5}
    for hash_name in ("SHA2", "SHAKE"):
        for size, signature in sizes.items():
            public = int(size[:3]) // 4
            yield ParameterSet(
                name=f"SLH-DSA-{hash_name}-{size}",
                family="SLH-DSA",
                standard="FIPS 205",
                category=categories[size[:3]],
                operations=SIGNATURE,
                public_key_bytes=public,
                private_key_bytes=2 * public,
                signature_bytes=signature,
                post_quantum=True,
            )


def _rsa() -> Iterator[ParameterSet]:
    categories = {1024: None, 2048: None, 3072: 1, 4096: 1}
    for bits, category in categories.items():
        modulus = bits // 8
        yield ParameterSet(
            name=f"RSA-{bits}",
            family="RSA",
            standard="RFC 8017",
            category=category,
            operations=(*SIGNATURE, "encrypt", "decrypt"),
            public_key_bytes=modulus,
            private_key_bytes=modulus,
            signature_bytes=modulus,
            ciphertext_bytes=modulus,
        )


def _prime_curves() -> Iterator[ParameterSet]:
    rows = [
        ("secp160r1", None, 21, 20, 48),
        ("P-224", None, 28, 28, 64),
        ("P-256", 1, 32, 32, 72),
        ("P-384", 3, 48, 48, 104),
        ("P-521", 5, 66, 66, 139),
    ]
    for curve, category, scalar, field, der in rows:
        yield ParameterSet(
            name=f"ECDSA-{curve}",
            family="ECDSA",
            standard="FIPS 186-5",
            category=category,
            operations=SIGNATURE,
            public_key_bytes=2 * field + 1,
            private_key_bytes=scalar,
            signature_bytes=2 * scalar,
            der_signature_bytes=der,
        )
        yield ParameterSet(
            name=f"ECDH-{curve}",
            family="ECDH",
            standard="SP 800-56A",
            category=category,
            operations=AGREEMENT if category else ("keygen", "derive"),
            public_key_bytes=2 * field + 1,
            private_key_bytes=scalar,
            shared_secret_bytes=field,
        )


def _edwards_and_montgomery() -> Iterator[ParameterSet]:
    for name, category, size in (("X25519", 1, 32), ("X448", 3, 56)):
        yield ParameterSet(
            name=name,
            family="XDH",
            standard="RFC 7748",
            category=category,
            operations=AGREEMENT,
            public_key_bytes=size,
            private_key_bytes=size,
            shared_secret_bytes=size,
        )
    for name, category, size in (("Ed25519", 1, 32), ("Ed448", 3, 57)):
        yield ParameterSet(
            name=name,
            family="EdDSA",
            standard="RFC 8032",
            category=category,
            operations=SIGNATURE,
            public_key_bytes=size,
            private_key_bytes=size,
            signature_bytes=2 * size,
        )


def _hybrid_groups() -> Iterator[ParameterSet]:
    rows = [
        ("X25519MLKEM768", 3, 1216, 2432, 1120, 64),
        ("SecP256r1MLKEM768", 3, 1249, 2432, 1153, 64),
        ("SecP384r1MLKEM1024", 5, 1665, 3216, 1665, 80),
    ]
    for name, category, public, private, ciphertext, secret in rows:
        yield ParameterSet(
            name=name,
            family="hybrid",
            standard="draft-ietf-tls-ecdhe-mlkem",
            category=category,
            operations=("handshake",),
            public_key_bytes=public,
            private_key_bytes=private,
            ciphertext_bytes=ciphertext,
            shared_secret_bytes=secret,
            post_quantum=True,
        )


CATALOGUE: dict[str, ParameterSet] = {
    each.name: each
    for group in (
        _ml_kem(),
        _ml_dsa(),
        _slh_dsa(),
        _rsa(),
        _prime_curves(),
        _edwards_and_montgomery(),
        _hybrid_groups(),
    )
    for each in group
}
"""Every parameter set by its name."""
