"""Parameter sets under the names that TLS 1.3 has for them. Pure.

Groups and signature schemes: RFC 8446 sections 4.2.7 and 4.2.3, draft-ietf-tls-ecdhe-mlkem, draft-ietf-tls-mlkem,
draft-ietf-tls-mldsa. A name that the catalogue does not know is a provider's, and goes to libssl as it is.
"""

from collections.abc import Mapping
from types import MappingProxyType

from runner.openssl.commands import Command
from schemas import CATALOGUE

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "ECDH-P-256": "secp256r1",
        "ECDH-P-384": "secp384r1",
        "ECDH-P-521": "secp521r1",
        "X25519": "X25519",
        "X448": "X448",
        "ML-KEM-512": "MLKEM512",
        "ML-KEM-768": "MLKEM768",
        "ML-KEM-1024": "MLKEM1024",
        "X25519MLKEM768": "X25519MLKEM768",
        "SecP256r1MLKEM768": "SecP256r1MLKEM768",
        "SecP384r1MLKEM1024": "SecP384r1MLKEM1024",
    }
)
"""Key exchange groups of the catalogue."""

SCHEMES: Mapping[str, str] = MappingProxyType(
    {
        "RSA-2048": "rsa_pss_rsae_sha256",
        "RSA-3072": "rsa_pss_rsae_sha256",
        "RSA-4096": "rsa_pss_rsae_sha256",
        "ECDSA-P-256": "ecdsa_secp256r1_sha256",
        "ECDSA-P-384": "ecdsa_secp384r1_sha384",
        "ECDSA-P-521": "ecdsa_secp521r1_sha512",
        "Ed25519": "ed25519",
        "Ed448": "ed448",
        "ML-DSA-44": "mldsa44",
        "ML-DSA-65": "mldsa65",
        "ML-DSA-87": "mldsa87",
    }
)
"""Signature schemes of the catalogue's sets: the one that the holder of such a certificate signs a handshake with."""


def tls_group(parameter_set: str) -> str:
    """The name of a group for libssl."""
    return GROUPS.get(parameter_set, parameter_set)


def signature_scheme(certificate: str) -> str:
    """The name of a signature scheme for libssl."""
    return SCHEMES.get(certificate, certificate)


def why_no_group(parameter_set: str) -> str | None:
    """One line where TLS 1.3 cannot agree on a key with this set of the catalogue."""
    if parameter_set in CATALOGUE and parameter_set not in GROUPS:
        return f"{parameter_set} is not a key exchange group of TLS 1.3"
    return None


def why_no_certificate(name: str) -> str | None:
    """One line where a certificate of this set of the catalogue cannot sign a TLS 1.3 handshake."""
    each = CATALOGUE.get(name)
    if each is None or name in SCHEMES:
        return None
    if "sign" not in each.operations:
        return f"{name} does not sign, so no certificate can hold it"
    if each.family == "RSA":
        return f"{name} is too short for OpenSSL's security level 2, which asks for 112 bits"
    return f"{each.family if each.family == 'SLH-DSA' else name} is not a TLS 1.3 signature scheme in OpenSSL"


def new_key(certificate: str) -> Command:
    """The options that make `openssl req` generate the key of a certificate."""
    each = CATALOGUE.get(certificate)
    match each.family if each else "provider":
        case "RSA":
            return ("-newkey", f"rsa:{certificate.removeprefix('RSA-')}")
        case "ECDSA":
            return ("-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{certificate.removeprefix('ECDSA-')}")
        case _:
            return ("-newkey", certificate)
