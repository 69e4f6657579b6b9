"""How published tables call operations and parameter sets. Pure."""

import re

from schemas import Operation

_WORDS: dict[Operation, tuple[str, str]] = {
    "keygen": ("key generation", ""),
    "sign": ("signatures", "signing"),
    "verify": ("signatures", "verification"),
    "encaps": ("key encapsulation", "encapsulation"),
    "decaps": ("key encapsulation", "decapsulation"),
    "derive": ("key agreement", "derivation"),
    "encrypt": ("public-key encryption", "encryption"),
    "decrypt": ("public-key encryption", "decryption"),
    "handshake": ("tls handshake", ""),
}
"""Method and submethod of a table: the study's own words for what it measured, and the like for the rest."""


def words_of(operation: Operation) -> tuple[str, str]:
    """Method and submethod of an operation in a published table; itself where no study has it."""
    return _WORDS.get(operation, (operation, ""))


def algorithm_of(parameter_set: str) -> str:
    """The name of a parameter set in a published table: `ECDSA P-256`."""
    return re.sub(r"^(ECDSA|ECDH)-", r"\1 ", parameter_set)
