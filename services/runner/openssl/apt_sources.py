"""Where another release of this machine's own distribution can be had, from its apt sources. Pure.

Both forms that apt reads (sources.list(5)) are understood: one line per source, and stanzas of fields.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

ArchiveType = Literal["deb", "deb-src"]
"""What is wanted of an archive: packages, or the sources that they are made of."""
DEBIAN_RELEASES = ("trixie",)
UBUNTU_RELEASES = ("resolute", "questing")
"""Releases with OpenSSL 3.5 or newer, the one to try first in front."""
_SUITE_NAMES = ("stable", "oldstable", "testing")


@dataclass(frozen=True, slots=True)
class Source:
    """One archive: its address, the suites and components in use, and options such as the keyring."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str | None

    def stanza(self, suite: str, kind: ArchiveType = "deb") -> str:
        """This archive's `main` part of another suite, as apt reads it, with the same keyring."""
        lines = [f"Types: {kind}", f"URIs: {self.uri}", f"Suites: {suite}", "Components: main"]
        if self.signed_by:
            lines.append(f"Signed-By: {self.signed_by}")
        return "\n".join(lines) + "\n"


def parse_list(text: str) -> Iterator[Source]:
    """Sources of a `.list` file."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match is None:
            continue
        options = dict(each.partition("=")[::2] for each in (match[1] or "").split())
        yield Source(match[2], (match[3],), tuple(match[4].split()), options.get("signed-by"))


def parse_stanzas(text: str) -> Iterator[Source]:
    """Sources of a `.sources` file. A keyring within the stanza is kept, line by line."""
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for block in re.split(r"\n[ \t]*\n", kept):
        fields = {name.lower(): value.strip("\n") for name, value in _fields(block)}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").strip().lower() == "no":
            continue
        suites, components = tuple(fields.get("suites", "").split()), tuple(fields.get("components", "").split())
        for uri in fields.get("uris", "").split():
            yield Source(uri, suites, components, fields.get("signed-by"))


def _fields(block: str) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", block, re.MULTILINE):
        yield match[1], match[2]


def os_release(text: str) -> dict[str, str]:
    """The fields of /etc/os-release."""
    pairs = (line.partition("=")[::2] for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, value in pairs}


def candidates(
    release: Mapping[str, str], sources: Iterable[Source], kind: ArchiveType = "deb"
) -> list[tuple[str, str]]:
    """Suites and apt stanzas to try, in order: the archives of this release's `main`, with a newer release's name."""
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    ubuntu = "ubuntu" in family
    codename = (release.get("UBUNTU_CODENAME") if ubuntu else None) or release.get("VERSION_CODENAME", "")
    wanted = (codename, *_SUITE_NAMES)
    archives = [
        source for source in sources if "main" in source.components and any(suite in wanted for suite in source.suites)
    ]
    suites = UBUNTU_RELEASES if ubuntu else DEBIAN_RELEASES
    stanzas = {(suite, archive.stanza(suite, kind)): None for suite in suites for archive in archives}
    return list(stanzas)
