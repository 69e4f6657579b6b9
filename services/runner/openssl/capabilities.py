"""What an OpenSSL offers: sets of the catalogue, and what its other providers add to them.

A set that is listed may still not work (a provider promises more than it has): that is found when it is prepared.
"""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from errors import SettingsError
from runner.job import NOTHING
from runner.openssl.commands import curve, key_manager
from runner.openssl.listing import added_parameter_sets, curves, foreign, groups, listed_names, parse_listing
from runner.openssl.program import PQC_SINCE, OpenSsl, run
from schemas import CATALOGUE, Operation, ParameterSet
from schemas.operations import Backend

Cannot = Mapping[tuple[Operation, str], str]
"""Why an operation with a parameter set cannot be done, in one line."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What the OpenSSL at hand can do. `cannot` holds, by backend, what it lists and yet cannot do there."""

    version: str
    parameter_sets: Mapping[str, ParameterSet]
    cannot: Mapping[Backend, Cannot]

    def can(self, backend: Backend, operation: Operation, name: str = NOTHING) -> str | None:
        """None when it can be tried, else one line that says why not."""
        if operation == "sham" or backend == "none":
            return None
        if backend not in self.cannot:
            return f"the backend {backend} cannot be used here"
        if operation == "null":
            return None
        each = self.parameter_sets.get(name)
        if each is None:
            return f"OpenSSL {self.version} lacks {name}"
        if operation not in each.operations:
            return f"{name} has no {operation} (it has {', '.join(each.operations)})"
        return self.cannot[backend].get((operation, name))

    def with_backend(self, backend: Backend, cannot: Cannot) -> "Offer":
        """The same with another backend, and what it cannot do of the same parameter sets."""
        return replace(self, cannot=MappingProxyType({**self.cannot, backend: cannot}))


def offered(openssl: OpenSsl) -> Offer:
    """What it can do by the command line. Raises SettingsError when the program does not answer."""
    managers = parse_listing(_asked(openssl, "list", "-key-managers"))
    if not managers:
        raise SettingsError(f"{openssl.program} {openssl.version} lists no key managers: 3.0 or newer is needed")
    sets = {each.name: each for each in (*_of_catalogue(openssl, listed_names(managers)), *_added(openssl))}
    encapsulates = "-encap" in _asked(openssl, "pkeyutl", "-help", errors_too=True)
    cannot = {pair: reason for each in sets.values() for pair, reason in _not_by_cli(each, encapsulates, openssl)}
    return Offer(openssl.version, MappingProxyType(sets), MappingProxyType({"cli": MappingProxyType(cannot)}))


def offered_parameter_sets(openssl: OpenSsl) -> tuple[str, ...]:
    """Names, in the order of the catalogue, then what providers add. Raises SettingsError as `offered`."""
    return tuple(offered(openssl).parameter_sets)


def _of_catalogue(openssl: OpenSsl, names: frozenset[str]) -> Iterator[ParameterSet]:
    known_curves = curves(_asked(openssl, "ecparam", "-list_curves"))
    for each in CATALOGUE.values():
        if key_manager(each).upper() in names and (curve(each) is None or curve(each) in known_curves):
            yield each


def _added(openssl: OpenSsl) -> tuple[ParameterSet, ...]:
    """What providers other than OpenSSL's own add; nothing more is asked where none is loaded."""
    if not foreign(_asked(openssl, "list", "-providers")):
        return ()
    return added_parameter_sets(
        managers=parse_listing(_asked(openssl, "list", "-key-managers")),
        kems=parse_listing(_asked(openssl, "list", "-kem-algorithms")),
        signatures=parse_listing(_asked(openssl, "list", "-signature-algorithms")),
        exchanges=parse_listing(_asked(openssl, "list", "-key-exchange-algorithms")),
        new_groups=_groups(openssl) - _groups(openssl, "-provider", "default"),
    )


def _groups(openssl: OpenSsl, *options: str) -> frozenset[str]:
    """TLS groups; with options, those without the user's configuration. Older programs do not list them."""
    if openssl.number < PQC_SINCE:
        return frozenset()
    environment = {**openssl.environment, "OPENSSL_CONF": "/dev/null"} if options else openssl.environment
    return groups(_asked(replace(openssl, environment=environment), "list", "-tls-groups", *options))


def _not_by_cli(
    each: ParameterSet, encapsulates: bool, openssl: OpenSsl
) -> Iterator[tuple[tuple[Operation, str], str]]:
    for operation in each.operations:
        if operation == "handshake":
            yield (operation, each.name), "a handshake is done by the backend lib only"
        elif operation in ("encaps", "decaps") and not encapsulates:
            yield (operation, each.name), f"pkeyutl of OpenSSL {openssl.version} has no -encap and -decap"


def _asked(openssl: OpenSsl, *arguments: str, errors_too: bool = False) -> str:
    """What it prints; some versions print help as errors."""
    try:
        answer = run(openssl.argv_prefix, arguments, openssl.environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"{openssl.program} cannot be run: {error}") from None
    return answer.stdout + (answer.stderr if errors_too else "")
