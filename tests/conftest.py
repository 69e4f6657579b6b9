"""Where the repository and the study's recordings are, and an OpenSSL that has the post-quantum sets."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from runner.openssl import OpenSsl
from tests.openssl_programs import openssl_3_5, openssl_built, openssl_unpacked

settings.register_profile("opjoule", settings(), deadline=None)  # a busy machine is no failure
settings.load_profile("opjoule")


def pytest_configure() -> None:
    """A shell that starts the tests in the background has them, and what they start, ignore Ctrl-C: undone here."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def recordings(repository: Path) -> Path:
    """The folder of the study's recordings (OPJOULE_RECORDINGS); the test is skipped where they are not at hand."""
    folder = repository / os.environ.get("OPJOULE_RECORDINGS", "../shared/recordings")
    if not folder.is_dir():
        pytest.skip("the study's recordings are not here (OPJOULE_RECORDINGS)")
    return folder.resolve()


@pytest.fixture(scope="session")
def openssl35() -> OpenSsl:
    """OpenSSL 3.5 or newer: the system's, the cache's (a build before packages), or fetched into the cache."""
    return openssl_3_5()


@pytest.fixture(scope="session")
def built35() -> OpenSsl:
    """The build of `make openssl`; the test is skipped where there is none."""
    return openssl_built()


@pytest.fixture(scope="session")
def unpacked35() -> OpenSsl:
    """Packages of Debian 13, unpacked in the cache, or fetched into it."""
    return openssl_unpacked()
