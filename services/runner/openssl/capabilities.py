"""Which parameter sets of the catalogue an OpenSSL offers."""

import re
import subprocess

from errors import SettingsError
from runner.openssl.commands import key_manager
from runner.openssl.program import OpenSsl, run
from schemas import CATALOGUE


def key_managers(listing: str) -> frozenset[str]:
    """The names, in upper case, in the output of `openssl list -key-managers`."""
    names: set[str] = set()
    for line in re.findall(r"^\s*IDs:(.*?)(?:@|$)", listing, re.MULTILINE):
        names |= {name.strip().upper() for name in line.strip(" {}").split(",")}
    return frozenset(names)


def offered_parameter_sets(openssl: OpenSsl) -> tuple[str, ...]:
    """Names, in the order of the catalogue. Raises SettingsError when the program does not answer."""
    try:
        answer = run(openssl.argv_prefix, ("list", "-key-managers"), openssl.environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"{openssl.program} cannot be run: {error}") from None
    names = key_managers(answer.stdout)
    if not names:
        raise SettingsError(f"{openssl.program} {openssl.version} lists no key managers: 3.0 or newer is needed")
    return tuple(name for name, each in CATALOGUE.items() if key_manager(each).upper() in names)
