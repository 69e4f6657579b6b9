"""Fetches the `openssl` of Debian 13 (or a newer Ubuntu) and unpacks it into the user's cache. Needs no root.

apt does it, with a private configuration in a temporary folder: this machine's own archives, keyrings, proxies and
credentials, another release's name. Signatures are checked by apt as ever; the system's own apt state is not touched.
The packages bring their own C library, so the program is run by the loader that comes with them.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from errors import SettingsError
from runner.openssl.apt_sources import Source, candidates, os_release, parse_list, parse_stanzas
from runner.openssl.program import OpenSsl, probe_unpacked, run

PACKAGES = ("openssl", "libssl3t64", "libc6", "zlib1g", "libzstd1")
"""The program and the libraries that its loader lists."""
FETCH_LIMIT_S = 240.0
_NEEDED = ("apt-get", "dpkg", "dpkg-deb")

_CONFIGURATION = """\
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/archive.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "root";
APT::Default-Release "";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "15";
Acquire::https::Timeout "15";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


def fetch(cache: Path, root: Path = Path("/"), limit_s: float = FETCH_LIMIT_S) -> OpenSsl:
    """An OpenSSL 3.5 or newer in `cache`, unpacked whole or not at all, and tried.

    `root` is where the machine's own apt sources are read. Raises SettingsError with one line.
    """
    missing = [program for program in _NEEDED if shutil.which(program) is None]
    if missing:
        raise SettingsError(f"packages can be fetched on Debian and its relatives only: no {missing[0]} here")
    tries = candidates(os_release(_text(root / "etc/os-release")), machine_sources(root))
    if not tries:
        raise SettingsError("none of this machine's apt sources serves its distribution's main archive")
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
    tries = candidates(os_release(_text(Path("/etc/os-release"))), machine_sources(Path("/")))
    if shutil.which("apt-get") is None or not tries:
        raise SettingsError("packages can be fetched on Debian and its relatives only")
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


def machine_sources(root: Path) -> list[Source]:
    """The apt sources that this machine is configured with."""
    folder = root / "etc/apt"
    sources = list(parse_list(_text(folder / "sources.list")))
    for path in sorted((folder / "sources.list.d").glob("*")):
        if path.suffix == ".list":
            sources += parse_list(_text(path))
        elif path.suffix == ".sources":
            sources += parse_stanzas(_text(path))
    return sources


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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
    for name in ("state/lists/partial", "cache/archives/partial", "packages"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "archive.sources").write_text(stanza)
    configuration = folder / "apt.conf"
    configuration.write_text(_CONFIGURATION.format(folder=folder))
    apt = ("apt-get", "-c", str(configuration), "-qq", "-o", "APT::Update::Error-Mode=any")
    _command((*apt, "update"), folder, deadline_s)
    _command((*apt, "download", *packages), folder / "packages", deadline_s)


def _unpack(folder: Path, deadline_s: float) -> Path:
    unpacked = folder / "root"
    for package in sorted((folder / "packages").glob("*.deb")):
        _command(("dpkg-deb", "-x", str(package), str(unpacked)), folder, deadline_s)
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
    return _command(("dpkg", "--print-architecture"), Path("/"), deadline_s).strip()


def _command(command: tuple[str, ...], folder: Path, deadline_s: float) -> str:
    """Output of a command that must succeed before the deadline. Raises SettingsError with its own first words."""
    left_s = max(deadline_s - time.monotonic(), 0.1)
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        answer = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False, timeout=left_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SettingsError(f"{command[0]} took too long") from None
    if answer.returncode:
        lines = [line for line in answer.stderr.splitlines() if line.startswith(("E:", "dpkg"))] or [answer.stderr]
        raise SettingsError(f"{command[0]} failed: {lines[0].strip()[:300]}")
    return answer.stdout
