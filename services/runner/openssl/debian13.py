"""Fetches the `openssl` of Debian 13 (or a newer Ubuntu) and unpacks it into the user's cache. Needs no root.

apt does it, from this machine's own archives (private_apt.py). The packages
bring their own C library, so the program is run by the loader that comes with them.
"""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from errors import SettingsError
from runner.openssl.private_apt import archives, command, update
from runner.openssl.program import OpenSsl, probe_unpacked, run

PACKAGES = ("openssl", "libssl3t64", "libc6", "zlib1g", "libzstd1")
"""The program and the libraries that its loader lists."""
FETCH_LIMIT_S = 240.0


def fetch(cache: Path, root: Path = Path("/"), limit_s: float = FETCH_LIMIT_S) -> OpenSsl:
    """An OpenSSL 3.5 or newer in `cache`, unpacked whole or not at all, and tried.

    `root` is where the machine's own apt sources are read. Raises SettingsError with one line.
    """
    tries = archives(root)
    deadline_s = time.monotonic() + limit_s
    reasons = []
    for suite, stanza in tries:
        try:
            return _fetch_from(suite, stanza, cache, deadline_s)
        except SettingsError as error:
            reasons.append(f"{suite}: {error}")
    raise SettingsError("; ".join(reasons)[:500])


def fetch_packages(packages: tuple[str, ...], final: Path, limit_s: float = FETCH_LIMIT_S) -> Path:
    """These packages of the same release, unpacked into `final` whole or not at all. Raises SettingsError."""
    tries = archives()
    deadline_s = time.monotonic() + limit_s
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=final.parent) as name:
            _download(Path(name), tries[0][1], deadline_s, packages)
            if not final.exists():
                _unpack(Path(name), deadline_s).rename(final)
    except OSError as error:
        raise SettingsError(f"cannot write to the cache {final.parent}: {error.strerror}") from None
    return final


def _fetch_from(suite: str, stanza: str, cache: Path, deadline_s: float) -> OpenSsl:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=cache) as name:
            folder = Path(name)
            _download(folder, stanza, deadline_s)
            unpacked = _unpack(folder, deadline_s)
            _verify(unpacked)
            return _keep(unpacked, cache / f"{suite}-{_architecture(deadline_s)}")
    except OSError as error:
        raise SettingsError(f"cannot write to the cache {cache}: {error.strerror}") from None


def _download(folder: Path, stanza: str, deadline_s: float, packages: tuple[str, ...] = PACKAGES) -> None:
    options = update(folder, stanza, deadline_s)
    (folder / "packages").mkdir()
    command(("apt-get", *options, "download", *packages), folder / "packages", deadline_s)


def _unpack(folder: Path, deadline_s: float) -> Path:
    unpacked = folder / "root"
    for package in sorted((folder / "packages").glob("*.deb")):
        command(("dpkg-deb", "-x", str(package), str(unpacked)), folder, deadline_s)
    for unused in ("usr/share", "usr/lib/ssl/misc"):
        shutil.rmtree(unpacked / unused, ignore_errors=True)
    return unpacked


def _verify(unpacked: Path) -> None:
    """It runs, all its libraries are among what was unpacked, and it makes an ML-KEM key."""
    openssl = probe_unpacked(unpacked)
    if isinstance(openssl, str):
        raise SettingsError(openssl)
    loader, option, libraries, program = openssl.argv_prefix
    try:
        listed = run((loader, option, libraries, "--list", program), (), openssl.environment).stdout
        trial = run(openssl.argv_prefix, ("genpkey", "-algorithm", "ML-KEM-512"), openssl.environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"the fetched OpenSSL cannot be run: {error}") from None
    foreign = [line.strip() for line in listed.splitlines() if "=>" in line and str(unpacked) not in line]
    if foreign:
        raise SettingsError(f"the fetched OpenSSL needs a library that was not fetched: {foreign[0]}")
    if trial.returncode:
        raise SettingsError(f"the fetched OpenSSL {openssl.version} has no ML-KEM")


def _keep(unpacked: Path, final: Path) -> OpenSsl:
    """Give it its name at once. Where another process was faster, its program is taken; a broken one makes room."""
    if final.exists():
        standing = probe_unpacked(final)
        if isinstance(standing, OpenSsl):
            return standing
        final.rename(unpacked.parent / "retired")
    unpacked.rename(final)
    openssl = probe_unpacked(final)
    if isinstance(openssl, str):
        raise SettingsError(openssl)
    return openssl


def _architecture(deadline_s: float) -> str:
    return command(("dpkg", "--print-architecture"), Path("/"), deadline_s).strip()
