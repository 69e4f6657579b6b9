"""Which handshakes a libssl offers."""

from typing import NamedTuple

from runner.openssl.tls.binding import TlsLibrary
from runner.openssl.tls.contexts import knows_group, new_context
from runner.openssl.tls_names import GROUPS, tls_group, why_no_group


class Offered(NamedTuple):
    """Groups of the catalogue, in its order, and further ones by their TLS names (those of providers too)."""

    groups: tuple[str, ...]
    other_groups: tuple[str, ...]

    def group_error(self, parameter_set: str) -> str | None:
        """One line where no handshake can use this group."""
        if parameter_set in self.groups or tls_group(parameter_set) in self.other_groups:
            return None
        return why_no_group(parameter_set) or f"libssl has no group {tls_group(parameter_set)}"


def offered(library: TlsLibrary) -> Offered:
    """What can be asked of `handshake`. Every group goes with every certificate. Raises SettingsError."""
    context = new_context(library, "secp256r1", "ecdsa_secp256r1_sha256", server=False)
    try:
        known = {name.lower() for name in GROUPS.values()}
        return Offered(
            tuple(name for name, group in GROUPS.items() if knows_group(library, context, group)),
            tuple(each for each in library.implemented_groups(context) if each.lower() not in known),
        )
    finally:
        library["SSL_CTX_free"](context)
