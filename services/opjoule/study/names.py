"""How studies call boards, operations and parameter sets, in file names and in tables. Pure."""

import re
from dataclasses import dataclass
from pathlib import PurePath

from schemas import CATALOGUE, Operation
from schemas.base import RESERVED_DUTS

OPERATIONS: dict[str, Operation] = {
    "key": "keygen",
    "keys": "keygen",
    "keygen": "keygen",
    "key generation": "keygen",
    "sign": "sign",
    "signing": "sign",
    "verify": "verify",
    "verifying": "verify",
    "verification": "verify",
    "tls": "handshake",
    "tls handshake": "handshake",
    "encaps": "encaps",
    "encapsulation": "encaps",
    "decaps": "decaps",
    "decapsulation": "decaps",
    "derive": "derive",
    "derivation": "derive",
    "encrypt": "encrypt",
    "encryption": "encrypt",
    "decrypt": "decrypt",
    "decryption": "decrypt",
}
"""What a word in a file name or a table means."""
IDLE = frozenset({"baseline", "idle"})
SHORT: dict[str, str] = {
    "rsa": "RSA-2048",
    "ecdsa": "ECDSA-P-256",
    "ecdh": "ECDH-P-256",
}
"""Names that leave out the size: what the studies measured."""
FORM_FOLDERS = frozenset({"cfn", "cfn_files", "csv", "csv_files"})
"""Folders that say how a file is written, not which board it is of."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a recording or a published row is about. `operation` is None for an idle recording."""

    board: str
    operation: Operation | None
    parameter_set: str

    @property
    def idle(self) -> "Subject":
        """The idle recording of the same board."""
        return Subject(self.board, None, "")


def parameter_set_of(name: str) -> str | None:
    """The parameter set that a study means by a name (`ECDSA P-256`, `ml_kem_512`, `rsa`); None for one unknown."""
    plain = _plain(name)
    if plain in SHORT:
        return SHORT[plain]
    return next((known for known in CATALOGUE if _plain(known) == plain), None)


def subject_of(path: PurePath) -> Subject | None:
    """What a recording's name tells: `09_pi1_keys_ml-dsa-44`, `pi3_verification_rsa`; None where it tells nothing.

    A number in front is its place in the session. The board stands before the operation; where it does not, it is the
    folder's name.
    """
    words = path.stem.casefold().split("_")
    if words and words[0].isdigit():
        words = words[1:]
    at = next((i for i, word in enumerate(words) if word in OPERATIONS or word in IDLE), None)
    if at is None:
        return None
    board = board_of("_".join(words[:at])) or _board_of_folder(path)
    if words[at] in IDLE:
        return Subject(board, None, "") if board and at == len(words) - 1 else None
    parameter_set = parameter_set_of("".join(words[at + 1 :]))
    if not board or parameter_set is None:
        return None
    return Subject(board, OPERATIONS[words[at]], parameter_set)


def board_of(name: str) -> str:
    """The name of a board as that of a DUT, its letters and digits: `Pi 4` is `pi4`; empty where it has none.

    File names and tables differ in everything else: `pi2v1.2`, `pi2_v1.2`, `Pi2 v1.2` are one board.
    """
    plain = _plain(name)[:58]
    return f"board{plain}" if plain in RESERVED_DUTS else plain


def _board_of_folder(path: PurePath) -> str:
    names = [part for part in path.parts[:-1] if part.casefold() not in FORM_FOLDERS]
    return board_of(names[-1]) if names else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())
