"""What a process for the `lib` backend is told first, and what it answers. Pure."""

from dataclasses import dataclass
from pathlib import Path

from runner.operations.lib.case import Case
from schemas import Handshake

MODULE = "runner.operations.lib.child"
"""The program of that process."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The first question: prepare this case on this libcrypto."""

    library: Path
    case: Case


@dataclass(frozen=True, slots=True)
class Prepared:
    """Its answer: what is known of the work then."""

    variant: str
    null_variant: str
    output_bytes: dict[str, int]
    size_unknown: bool
    handshake: Handshake | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer when it cannot be done, with the reason in one line."""

    reason: str
