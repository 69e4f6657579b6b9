"""Reads what `openssl list` and `openssl ecparam -list_curves` print. Pure.

A line of a listing names one algorithm and its provider: `{ 1.3.101.110, X25519 } @ default` or `ECDSA @ default`,
with `IDs:` in front where key managers are listed.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from schemas import CATALOGUE, Operation, ParameterSet, slug

OWN_PROVIDERS = frozenset({"default", "base", "fips", "legacy", "null"})
"""The providers of OpenSSL itself: what they have is in the catalogue or is not measured."""
_LINE = re.compile(r"^\s*(?:IDs:)?\s*(?:\{(?P<many>[^}]*)\}|(?P<one>\S+))\s*@\s*(?P<provider>\S+)\s*$", re.MULTILINE)
_OBJECT_ID = re.compile(r"\d+(?:\.\d+)+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Listed:
    """One algorithm of one provider, by all its names (without object identifiers)."""

    names: tuple[str, ...]
    provider: str

    def shares_a_name(self, names: Collection[str]) -> bool:
        """Whether one of its names is among these (in upper case)."""
        return any(name.upper() in names for name in self.names)


def parse_listing(text: str) -> tuple[Listed, ...]:
    """The algorithms of a listing, in its order."""
    return tuple(
        Listed(tuple(_names(match["many"] or match["one"])), match["provider"]) for match in _LINE.finditer(text)
    )


def listed_names(listed: Iterable[Listed]) -> frozenset[str]:
    """All names, in upper case."""
    return frozenset(name.upper() for each in listed for name in each.names)


def curves(text: str) -> frozenset[str]:
    """The elliptic curves that `ecparam -list_curves` prints."""
    return frozenset(re.findall(r"^\s*([A-Za-z0-9-]+)\s*:", text, re.MULTILINE))


def groups(text: str) -> frozenset[str]:
    """The TLS groups that `list -tls-groups` prints, joined by colons."""
    return frozenset(name for name in text.strip().split(":") if _NAME.fullmatch(name))


def foreign(providers: str) -> tuple[str, ...]:
    """Loaded providers that are not OpenSSL's own, in the output of `list -providers`."""
    return tuple(name for name in re.findall(r"^  (\S+)$", providers, re.MULTILINE) if name not in OWN_PROVIDERS)


def added_parameter_sets(
    managers: tuple[Listed, ...],
    kems: tuple[Listed, ...],
    signatures: tuple[Listed, ...],
    exchanges: tuple[Listed, ...],
    new_groups: frozenset[str],
) -> tuple[ParameterSet, ...]:
    """Sets with keys that only a provider knows, and groups that only TLS knows.

    A name whose slug is that of another set is left out: their results could not be told apart.
    """
    lists: tuple[tuple[tuple[Operation, ...], tuple[Listed, ...]], ...] = (
        (("keygen", "encaps", "decaps"), kems),
        (("keygen", "sign", "verify"), signatures),
        (("keygen", "derive"), exchanges),
    )
    own = listed_names(each for each in managers if each.provider in OWN_PROVIDERS)
    own |= {name.upper() for name in CATALOGUE}
    found: dict[str, ParameterSet] = {}
    for manager in managers:
        name = _plain_name(manager)
        if name is None or manager.provider in OWN_PROVIDERS or manager.shares_a_name(own):
            continue
        known = {each.upper() for each in manager.names}
        operations = [operation for several, listed in lists if _has(listed, known) for operation in several]
        if operations or name in new_groups:
            found[name] = of_provider(name, _with_handshake(operations, name in new_groups), manager.provider)
    for name in sorted(new_groups - set(found)):
        found[name] = of_provider(name, ("handshake",), "TLS group of a provider")
    return tuple(each for name, each in found.items() if _has_its_own_slug(name, found))


def _names(text: str) -> Iterable[str]:
    return (name for name in map(str.strip, text.split(",")) if name and not _OBJECT_ID.fullmatch(name))


def _plain_name(listed: Listed) -> str | None:
    return next((name for name in listed.names if _NAME.fullmatch(name)), None)


def _has(listed: Iterable[Listed], known: set[str]) -> bool:
    return any(each.shares_a_name(known) for each in listed)


def _with_handshake(operations: Iterable[Operation], is_group: bool) -> tuple[Operation, ...]:
    return tuple(dict.fromkeys((*operations, "handshake") if is_group else operations))


def of_provider(name: str, operations: tuple[Operation, ...], provider: str = "a provider") -> ParameterSet:
    """A parameter set that the catalogue does not know: its sizes are unknown."""
    return ParameterSet(
        name=name,
        family="provider",
        standard=provider,
        category=None,
        operations=operations,
        public_key_bytes=0,
        private_key_bytes=0,
    )


def _has_its_own_slug(name: str, found: Collection[str]) -> bool:
    return [slug(each) for each in (*CATALOGUE, *found)].count(slug(name)) == 1
