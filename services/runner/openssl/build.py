"""`make openssl`, or `python -m runner.openssl.build`: builds the pinned OpenSSL into the user's cache.

The archive's checksum is verified before it is unpacked, and the result is tried before it gets its name: it is there
whole or not at all. One build at a time: a second waits for the first and takes what it made. What a killed one left
behind is removed by the next.
"""

import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from errors import SettingsError
from runner.openssl.compiling import check_tools, compile_into
from runner.openssl.libraries import Libraries, find_libraries
from runner.openssl.locate import cache_folder
from runner.openssl.program import OpenSsl, probe_built, run
from runner.openssl.progress import Progress
from runner.openssl.source import RELEASE, obtain_source

_PREFIX = ".building-"
_LOADS = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).OpenSSL_version_num"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 with a working build in the cache, 1 without."""
    parser = argparse.ArgumentParser("openssl build", description=f"Builds OpenSSL {RELEASE} into the user's cache.")
    parser.add_argument(
        "--source",
        default=os.environ.get("OPJOULE_OPENSSL_SOURCE"),
        help="its source archive [OPJOULE_OPENSSL_SOURCE; default: fetched]",
    )
    args = parser.parse_args(argv)
    progress = Progress(sys.stdout)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        openssl = build(cache_folder(), args.source, progress)
    except SettingsError as error:
        progress.leave()
        print(f"make openssl: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.leave()
        print("make openssl: interrupted, nothing was kept", file=sys.stderr)
        return 1
    progress.end(f"OpenSSL {openssl.version}: {openssl.program}")
    return 0


def build(cache: Path, source: str | None, progress: Progress) -> OpenSsl:
    """The build in `cache`, made where it is not there. Raises SettingsError with one line."""
    cache = cache.absolute()
    if re.search(r"[^\w./+@~-]", str(cache)):
        raise SettingsError(f"OpenSSL cannot be built for {cache}: name another folder in XDG_CACHE_HOME")
    final = cache / f"build-{RELEASE}-{os.uname().machine}"
    standing = _usable(final)
    if isinstance(standing, OpenSsl):
        return standing
    if sys.platform != "linux":
        raise SettingsError(
            "OpenSSL is built on Linux only: on macOS brew install openssl@3.5, name it in OPJOULE_OPENSSL"
        )
    check_tools()
    try:
        with _alone(cache, progress):
            standing = _usable(final)
            return standing if isinstance(standing, OpenSsl) else _build(final, source, progress)
    except OSError as error:
        raise SettingsError(f"cannot write to the cache {cache}: {error.strerror}") from None


@contextmanager
def _alone(cache: Path, progress: Progress) -> Iterator[None]:
    """Only one process builds; whatever unfinished folders there are then belong to none."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.phase("another process is building: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in cache.glob(f"{_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _build(final: Path, named: str | None, progress: Progress) -> OpenSsl:
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=final.parent) as name:
        folder = Path(name)
        archive = obtain_source(folder, named, progress)
        progress.phase("unpacking")
        with tarfile.open(archive) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)
            packed.extractall(folder)
        staging = folder / "staging"
        compile_into(folder / f"openssl-{RELEASE}", final, staging, progress)
        made = staging / final.relative_to("/")
        tried = _usable(made)
        if isinstance(tried, str):
            raise SettingsError(f"what was built does not work: {tried}")
        if final.exists():
            final.rename(folder / "retired")
        made.rename(final)
        openssl = probe_built(final)
    if isinstance(openssl, str):
        raise SettingsError(openssl)
    return openssl


def _usable(root: Path) -> OpenSsl | str:
    """The build in a folder, or what is wrong: it runs on its own libraries, Python loads them, ML-KEM is there."""
    openssl = probe_built(root)
    if isinstance(openssl, str):
        return openssl
    libraries = find_libraries(openssl)
    if not isinstance(libraries, Libraries):
        return libraries
    if openssl.version != RELEASE or libraries.crypto.parent.resolve() != (root / "lib").resolve():
        return f"{openssl.program} is OpenSSL {openssl.version} on {libraries.crypto}"
    try:
        loaded = run((sys.executable, "-I", "-S", "-c", _LOADS), (str(libraries.crypto),), openssl.environment)
        made_key = run(openssl.argv_prefix, ("genpkey", "-algorithm", "ML-KEM-512"), openssl.environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    wrong = next((each for each in (loaded, made_key) if each.returncode), None)
    return openssl if wrong is None else wrong.stderr.strip().rpartition("\n")[2]


if __name__ == "__main__":
    raise SystemExit(main())
