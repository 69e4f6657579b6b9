"""Which libcrypto and libssl an `openssl` program runs on, as the dynamic loader resolves them for it."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from runner.openssl.program import OpenSsl, run

_TRACE = {"LD_TRACE_LOADED_OBJECTS": "1", "DYLD_PRINT_LIBRARIES": "1"}
"""What ldd sets (ld.so(8)), and what dyld(1) of macOS knows: the libraries are listed with their paths."""
_LINE = r"(?:=>|dyld\[\d+\]:.*?)\s*(/.*/%s\.(?:so|\d|dylib)[\w.]*)"


@dataclass(frozen=True, slots=True)
class Libraries:
    """Full paths of the two libraries of one OpenSSL."""

    crypto: Path
    ssl: Path

    @property
    def folder(self) -> Path:
        """Where libcrypto lies."""
        return self.crypto.parent


def find_libraries(openssl: OpenSsl) -> Libraries | str:
    """The libraries of a program, or one line that says why the `lib` backend cannot have them."""
    if openssl.mismatch is not None:
        return openssl.mismatch
    try:
        answer = run(openssl.argv_prefix, ("version",), {**openssl.environment, **_TRACE})
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the libraries of {openssl.program} cannot be listed: {error}"
    return listed_libraries(answer.stdout + answer.stderr) or (
        f"{openssl.program} is linked with no shared libcrypto and libssl, or is a script that starts another "
        "program: name a program that is, with OPJOULE_OPENSSL"
    )


def listed_libraries(listing: str) -> Libraries | None:
    """The two in what the loader of Linux or macOS printed; None unless both are there."""
    crypto, ssl = (re.search(_LINE % name, listing) for name in ("libcrypto", "libssl"))
    return Libraries(Path(crypto[1]), Path(ssl[1])) if crypto and ssl else None
