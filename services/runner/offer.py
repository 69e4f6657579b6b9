"""What this board can do by all backends together."""

from collections.abc import Iterator

from errors import SettingsError
from runner.openssl import Offer, OpenSsl, offered
from runner.openssl.lib import load, offer_error
from runner.openssl.libraries import Libraries, find_libraries
from runner.openssl.tls import TlsLibrary
from runner.openssl.tls.offered import offered as handshakes_offered
from schemas import CATALOGUE, Operation, Skipped
from schemas.operations import Backend

Pair = tuple[Operation, str]


def whole_offer(openssl: OpenSsl, without_lib: str | None) -> Offer:
    """The offer of the command line and, unless a line says why not, of `lib`. Raises SettingsError as `offered`."""
    offer = offered(openssl)
    libraries = find_libraries(openssl)
    if without_lib is not None or isinstance(libraries, str):
        return offer
    try:
        return offer.with_backend("lib", dict(_cannot(offer, libraries)))
    except SettingsError:
        return offer


def backends_of(offer: Offer) -> tuple[Backend, ...]:
    """Those that can be used here."""
    return tuple(offer.cannot)


def skipped_of(offer: Offer, without_lib: str | None) -> tuple[Skipped, ...]:
    """All of the catalogue and of providers that no backend here can do, each with the reason."""
    known = {**CATALOGUE, **offer.parameter_sets}
    backends: tuple[Backend, ...] = ("cli", "lib")
    return tuple(
        Skipped(operation=operation, parameter_set=name, reason=reason[:256])
        for name, each in known.items()
        for operation in each.operations
        if (reason := _why_not(offer, backends, operation, name, without_lib)) is not None
    )


def _why_not(
    offer: Offer, backends: tuple[Backend, ...], operation: Operation, name: str, without_lib: str | None
) -> str | None:
    """The last backend's reason, where all have one."""
    reasons = [offer.can(backend, operation, name) for backend in backends]
    if any(reason is None for reason in reasons):
        return None
    if name not in offer.parameter_sets or operation != "handshake":
        return reasons[0]
    return without_lib or reasons[-1]


def _cannot(offer: Offer, libraries: Libraries) -> Iterator[tuple[Pair, str]]:
    crypto = load(libraries.crypto)
    handshakes = handshakes_offered(TlsLibrary(libraries))
    for name, each in offer.parameter_sets.items():
        for operation in each.operations:
            error = handshakes.group_error(name) if operation == "handshake" else offer_error(crypto, operation, each)
            if error is not None:
                yield (operation, name), error
