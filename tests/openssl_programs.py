"""OpenSSL for tests: the one of the cache, and a child Python that runs on its libraries."""

import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from errors import SettingsError
from runner.openssl import OpenSsl, obtain_openssl
from runner.openssl.debian13 import fetch
from runner.openssl.libraries import Libraries, find_libraries
from runner.openssl.locate import cache_folder
from runner.openssl.process import Launch, find_launch
from runner.openssl.program import probe_built, probe_unpacked

CHILD_LIMIT_S = 60.0 * float(os.environ.get("OPJOULE_TESTS_SLOWER", "1"))
"""An emulator (tests/arm) is that much slower."""


def openssl_3_5() -> OpenSsl:
    """The system's, the cache's (a build before packages), or fetched into the cache; else the test is skipped."""
    try:
        found = obtain_openssl(None)
    except SettingsError as error:
        pytest.skip(str(error))
    if found.shortfall is not None:
        pytest.skip(found.shortfall)
    return found.openssl


def openssl_built() -> OpenSsl:
    """The cache's build, else the test is skipped."""
    return _of_cache(probe_built) or pytest.skip("no build of OpenSSL in the cache: make openssl")


def openssl_unpacked() -> OpenSsl:
    """The cache's packages, fetched where they are not there; else the test is skipped."""
    try:
        return _of_cache(probe_unpacked) or fetch(cache_folder())
    except SettingsError as error:
        pytest.skip(str(error))


def _of_cache(probe: Callable[[Path], OpenSsl | str]) -> OpenSsl | None:
    probed = map(probe, sorted(cache_folder().glob("[!.]*")))
    return next((each for each in probed if isinstance(each, OpenSsl) and each.has_pqc), None)


@cache
def libraries_of(openssl: OpenSsl) -> Libraries:
    """Its libcrypto and libssl."""
    libraries = find_libraries(openssl)
    assert isinstance(libraries, Libraries), libraries
    return libraries


@cache
def launch_on(openssl: OpenSsl) -> Launch:
    """How a Python is started on its libraries."""
    launch = find_launch(openssl, libraries_of(openssl))
    assert isinstance(launch, Launch), launch
    return launch


def run_python_on(openssl: OpenSsl, *arguments: str) -> str:
    """What a Python prints that runs on these libraries, given its arguments: `-c`, CODE, or `-m`, MODULE, and so on.

    Warnings are errors in it, as they are in the tests, and it must end with 0.
    """
    launch = launch_on(openssl)
    answer = subprocess.run(
        (*launch.argv_prefix, "-W", "error", *arguments), env=dict(launch.environment), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=CHILD_LIMIT_S,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer.stdout
