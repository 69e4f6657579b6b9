"""Capability masks: which instructions of the processor libcrypto may use, by its own environment variables. Pure."""

import re

from errors import SettingsError

MASKS = ("OPENSSL_armcap", "OPENSSL_ia32cap", "OPENSSL_riscvcap")
_VALUE = re.compile(r"[0-9A-Za-z_~:,.;+-]{1,64}")


def mask_environment(capability_mask: str) -> dict[str, str]:
    """The variable of a mask such as `OPENSSL_armcap=0`; none for an empty one. Raises SettingsError."""
    if not capability_mask:
        return {}
    name, _, value = capability_mask.partition("=")
    if name not in MASKS or not _VALUE.fullmatch(value):
        raise SettingsError(f"{capability_mask!r} is no capability mask: write {', '.join(MASKS)} = a value")
    return {name: value}


def mask_in_variant(capability_mask: str) -> str:
    """How a mask stands in a variant: `armcap=0`; empty without one."""
    return capability_mask.removeprefix("OPENSSL_")
