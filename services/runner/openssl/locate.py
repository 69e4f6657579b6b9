"""Finds the OpenSSL to measure: the one that was named, the one on PATH, else the one in the user's cache."""

import logging
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from errors import SettingsError
from runner.openssl.debian13 import fetch
from runner.openssl.program import PQC_SINCE, OpenSsl, probe, probe_built, probe_unpacked

log = logging.getLogger(__name__)

BY_SETTING = "--openssl (OPJOULE_OPENSSL)"
"""The setting that names a program, as its users know it."""


@dataclass(frozen=True, slots=True)
class Found:
    """An OpenSSL, and in one line what it lacks and how to get that (None: it has all)."""

    openssl: OpenSsl
    shortfall: str | None


def cache_folder() -> Path:
    """Where OpenSSLs that were built or unpacked are kept, one folder each."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "opjoule" / "openssl"


def find_openssl(named: str | None, cache: Path | None = None, *, by: str = BY_SETTING) -> Found:
    """The program that was named, else PATH's from 3.5 on, else the cache's, else PATH's older one with its shortfall.

    Of the cache's a build is taken before unpacked packages, then the newest.
    `by` is how it was named, for those who read of it. Raises SettingsError when the named one does not run or there is
    none at all.
    """
    if named:
        return _found(_named(named, by))
    on_path = _on_path()
    if isinstance(on_path, OpenSsl) and on_path.has_pqc:
        return _found(on_path)
    cached = _cached(cache or cache_folder())
    if cached is not None:
        return _found(cached)
    if isinstance(on_path, OpenSsl):
        return _found(on_path)
    raise SettingsError(
        f"{on_path}; install it (on Debian and its relatives: sudo apt install openssl) or name it in OPJOULE_OPENSSL"
    )


def obtain_openssl(named: str | None, cache: Path | None = None, *, by: str = BY_SETTING) -> Found:
    """As `find_openssl`; where no OpenSSL 3.5 is found and none was named, Debian packages are fetched into the cache.

    When that fails too, the shortfall says why.
    """
    try:
        found = find_openssl(named, cache, by=by)
    except SettingsError:
        if named:
            raise
        return _found(fetch(cache or cache_folder()))
    if named or found.openssl.has_pqc:
        return found
    log.info("fetching OpenSSL 3.5 or newer from this machine's own package sources")
    try:
        return _found(fetch(cache or cache_folder()))
    except SettingsError as error:
        return Found(found.openssl, f"{_shortfall(found.openssl)} (fetching it failed: {error})")


def _named(named: str, by: str) -> OpenSsl:
    path = shutil.which(named)
    if path is None:
        raise SettingsError(f"{by} names {named!r}, which is no program")
    openssl = probe((str(Path(path).absolute()),), f"named by {by}", {})
    if isinstance(openssl, str):
        raise SettingsError(f"{by}: {openssl}")
    return openssl


def _on_path() -> OpenSsl | str:
    path = shutil.which("openssl")
    if path is None:
        return "no openssl program on PATH"
    return probe((str(Path(path).absolute()),), "on PATH", {})


def _cached(cache: Path) -> OpenSsl | None:
    folders = [each for each in sorted(cache.glob("*")) if not each.name.startswith(".")]
    return _newest(map(probe_built, folders)) or _newest(map(probe_unpacked, folders))


def _newest(probed: Iterable[OpenSsl | str]) -> OpenSsl | None:
    running = [each for each in probed if isinstance(each, OpenSsl) and each.has_pqc]
    return max(running, key=lambda each: each.number, default=None)


def _found(openssl: OpenSsl) -> Found:
    return Found(openssl, None if openssl.has_pqc else _shortfall(openssl))


def _shortfall(openssl: OpenSsl) -> str:
    if openssl.mismatch is not None and openssl.number >= PQC_SINCE:
        return f"no ML-KEM, ML-DSA and SLH-DSA: {openssl.mismatch}"
    return (
        f"OpenSSL {openssl.version} ({openssl.program}) has no ML-KEM, ML-DSA and SLH-DSA: they need 3.5 or newer, "
        "as in Debian 13 and Ubuntu 25.10; name another program with OPJOULE_OPENSSL, or build one with make openssl"
    )
