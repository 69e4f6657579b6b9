"""What one train is to measure. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from schemas import Operation
from schemas.operations import Backend

NOTHING = "none"
"""The parameter set of null and sham trains."""
MESSAGE_BYTES = 19_600
"""The message of the first published study."""
MOST_MESSAGE_BYTES = 2**26
"""A longer one has no room in a small board's memory, of which it may take a part only (`runner.message`)."""

Form = Literal["", "pair", "private", "as-published"]
"""How the command line is used: a key pair by two processes, a private key by one, a study's own words."""

FORMS_OF: Mapping[Operation, tuple[Form, ...]] = MappingProxyType(
    {"keygen": ("pair", "private", "as-published"), "sign": ("as-published",), "verify": ("as-published",)}
)
"""The forms that an operation has on the command line beside the usual one."""


@dataclass(frozen=True, slots=True)
class Job:
    """One train to run.

    `null_variant` says which null train (operation `null` only), `certificate` the parameter set that signs (operation
    `handshake` only). `capability_mask` is set before libcrypto is loaded, e.g. `OPENSSL_armcap=0`.
    """

    operation: Operation
    parameter_set: str = NOTHING
    backend: Backend = "cli"
    form: Form = ""
    message_bytes: int = MESSAGE_BYTES
    capability_mask: str = ""
    certificate: str = ""
    null_variant: str = ""

    def __str__(self) -> str:
        name = self.operation if self.parameter_set == NOTHING else f"{self.operation} {self.parameter_set}"
        extras = (self.null_variant, self.certificate, self.form, self.capability_mask)
        return " ".join((name, *(each for each in extras if each), *(("by lib",) if self.backend == "lib" else ())))
