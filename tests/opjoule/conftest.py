"""A broker for the commands that need one, and studies to run them on."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from opjoule.local_broker import available
from tests.opjoule.grafana_server import GrafanaServer
from tests.opjoule.studies import Study


@pytest.fixture(scope="session")
def broker() -> None:
    """The test is skipped where no broker can be started."""
    if not available("mosquitto") and not available("iotcore"):
        pytest.skip("neither mosquitto nor the iotcore wheel is here")


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """A study without recordings and rows."""
    made = Study(tmp_path)
    made.recordings.mkdir()
    yield made


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user can reach, for tests of `without_privileges`."""
    folder = Path(tempfile.mkdtemp(prefix="opjoule-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def grafana(monkeypatch: pytest.MonkeyPatch) -> Iterator[GrafanaServer]:
    """A server that answers as Grafana does, asked without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with GrafanaServer() as server:
        yield server


@pytest.fixture
def grafana_token(tmp_path: Path) -> Path:
    """A file with a token."""
    path = tmp_path / "token"
    path.write_text("glsa_test\n")
    return path
