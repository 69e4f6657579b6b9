"""Where the repository and the study's recordings are."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

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
