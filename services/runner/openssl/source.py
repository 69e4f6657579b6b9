"""The source archive of the pinned OpenSSL: a file that is named, the project's release, or this machine's apt sources.

Debian keeps upstream's archive as it is (`openssl_3.5.7.orig.tar.gz`), so that one checksum serves all three.
"""

import hashlib
import http.client
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from errors import SettingsError
from runner.openssl.private_apt import archives, command, update
from runner.openssl.progress import Progress

RELEASE = "3.5.7"
"""Of the 3.5 line, which upstream supports until April 2030."""
SHA256 = "a8c0d28a529ca480f9f36cf5792e2cd21984552a3c8e4aa11a24aa31aeac98e8"
"""As in Debian's signed index of trixie (openssl 3.5.7-1~deb13u2) and in public build recipes that take upstream's."""
RELEASE_URL = f"https://github.com/openssl/openssl/releases/download/openssl-{RELEASE}/openssl-{RELEASE}.tar.gz"
FETCH_LIMIT_S = 900.0
_CONNECT_LIMIT_S = 15.0
_CHUNK_BYTES = 1 << 18


def obtain_source(
    folder: Path, named: str | None, progress: Progress, url: str = RELEASE_URL, root: Path = Path("/")
) -> Path:
    """The archive, its checksum verified: the file that is named and no other, else fetched into `folder`.

    `root` is where the machine's own apt sources are read. Raises SettingsError with one line.
    """
    if named:
        return _verified(Path(named).expanduser(), "OPJOULE_OPENSSL_SOURCE")
    reasons = []
    ways: dict[str, Callable[[], Path]] = {
        "the project's release": lambda: _download(folder, url),
        "this machine's apt sources": lambda: _from_apt(folder, root),
    }
    for what, fetch in ways.items():
        progress.phase(f"fetching OpenSSL {RELEASE} from {what}")
        try:
            return _verified(fetch(), what)
        except SettingsError as error:
            reasons.append(f"{what}: {error}")
    raise SettingsError(
        f"the source of OpenSSL {RELEASE} cannot be had: {'; '.join(reasons)[:600]}; fetch {RELEASE_URL} elsewhere and "
        "name the file in OPJOULE_OPENSSL_SOURCE"
    )


def _verified(path: Path, what: str) -> Path:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for chunk in _chunks(file):
                digest.update(chunk)
    except OSError as error:
        raise SettingsError(f"{what}: {path} cannot be read: {error.strerror}") from None
    if digest.hexdigest() != SHA256:
        raise SettingsError(f"{what}: {path.name} is not OpenSSL {RELEASE}: its SHA-256 is {digest.hexdigest()}")
    return path


def _download(folder: Path, url: str) -> Path:
    path, deadline_s = folder / f"openssl-{RELEASE}.tar.gz", time.monotonic() + FETCH_LIMIT_S
    try:
        with urllib.request.urlopen(url, timeout=_CONNECT_LIMIT_S) as answer, path.open("wb") as file:
            for chunk in _chunks(answer):
                if time.monotonic() > deadline_s:
                    raise SettingsError("took too long")
                file.write(chunk)
    except (OSError, http.client.HTTPException) as error:
        raise SettingsError(f"{getattr(error, 'reason', None) or error}") from None
    return path


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk


def _from_apt(folder: Path, root: Path) -> Path:
    reasons = []
    for number, (suite, stanza) in enumerate(archives(root, "deb-src")):
        own = folder / f"apt{number}"
        own.mkdir()
        try:
            return _from_archive(own, stanza)
        except SettingsError as error:
            reasons.append(f"{suite}: {error}")
    raise SettingsError("; ".join(reasons))


def _from_archive(folder: Path, stanza: str) -> Path:
    deadline_s = time.monotonic() + FETCH_LIMIT_S
    options = update(folder, stanza, deadline_s)
    listing = command(("apt-cache", *options, "showsrc", "--only-source", "openssl"), folder, deadline_s)
    version = re.search(rf"^Version: ((?:\d+:)?{re.escape(RELEASE)}-\S+)$", listing, re.MULTILINE)
    if version is None:
        raise SettingsError(f"the archive has no source of OpenSSL {RELEASE}")
    command(("apt-get", *options, "source", "--download-only", f"openssl={version[1]}"), folder, deadline_s)
    return folder / f"openssl_{RELEASE}.orig.tar.gz"
