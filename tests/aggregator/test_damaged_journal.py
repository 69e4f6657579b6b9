"""A journal that is damaged ends the aggregator with one line that names it, and no traceback."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.journal import Arrival, Journal
from errors import SettingsError
from schemas import EnergyResult
from tests.aggregator.trains import T0, event, segments
from tests.opjoule.test_results import result

pytestmark = pytest.mark.processes
NOBODY_LISTENS = "mqtt://127.0.0.1:9"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with trains, and results that nobody has published yet."""
    made = tmp_path / "journal.sqlite"
    journal = Journal(made)
    message = event(segments(3))
    journal.commit([Arrival(message, message.model_dump_json().encode())], T0)
    for number in range(20):
        journal.results.store([result(number)])
    journal.close()
    return made


def refusal(path: Path) -> str:
    """The one line with which the aggregator ends."""
    command = [sys.executable, "-m", "aggregator", "--broker-url", NOBODY_LISTENS, "--state-dir", str(path.parent)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 1
    return line


def change(path: Path, sql: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(sql)
    db.close()


def test_a_page_of_rubbish(path: Path) -> None:
    pages = path.stat().st_size // 4096
    with path.open("r+b") as file:
        for number in range(pages // 2, pages):
            file.seek(number * 4096)
            file.write(b"\xa5" * 4096)
    assert refusal(path).startswith(f"aggregator: the journal {path} cannot be used: ")


def test_a_train_whose_bytes_are_rubbish(path: Path) -> None:
    change(path, "UPDATE events SET payload=x'a5a5a5'")
    assert refusal(path).startswith("aggregator: the journal ")


@pytest.mark.parametrize("payload", ["'{}'", "x'a5a5a5'", "CAST(x'7bff7d' AS TEXT)"])
def test_a_result_that_cannot_be_read(path: Path, payload: str) -> None:
    change(path, f"UPDATE results SET payload={payload}")
    assert refusal(path).startswith("aggregator: the journal has a row that cannot be read as EnergyResult: ")


def test_every_way_to_read_results_says_what_is_wrong(path: Path) -> None:
    change(path, "UPDATE results SET payload='{}'")
    journal = Journal(path)
    ways: list[Callable[[], object]] = [
        lambda: journal.results.after(0, 10),
        lambda: journal.results.latest(result(1).event_id),
        journal.results.last,
        journal.results.unpublished,
    ]
    for way in ways:
        with pytest.raises(SettingsError, match=f"cannot be read as {EnergyResult.__name__}"):
            way()
    journal.close()
