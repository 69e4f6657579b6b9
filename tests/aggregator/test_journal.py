"""The journal: what was committed is there after any end of the process, and every trouble is one clear line."""

import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.journal import Arrival, Journal
from aggregator.receipts import ranges, receipts
from errors import SettingsError
from schemas import OperationEvent, SampleBatch
from tests.aggregator.trains import T0, batches, event, segments, trace

BATCHES = batches(trace(lambda t: 1.0 + t, 4.99))
EVENT = event(segments(3))


def _arrival(message: SampleBatch | OperationEvent) -> Arrival:
    return Arrival(message, message.model_dump_json().encode())


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def test_what_was_committed_is_there_after_the_process_is_gone(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal.sqlite")
    first.commit([_arrival(EVENT), *map(_arrival, BATCHES)], T0)
    first.close()
    second = Journal(tmp_path / "journal.sqlite")
    assert second.event(EVENT.event_id) == EVENT
    assert [train.event_id for train in second.held()] == [EVENT.event_id]
    assert second.counts() == {"streams": 1, "batches": len(BATCHES), "events": 1, "results": 0}
    second.close()


def test_what_is_there_already_is_not_new(journal: Journal) -> None:
    everything = [_arrival(EVENT), *map(_arrival, BATCHES)]
    assert journal.commit(everything, T0).new == everything
    assert journal.commit(everything, T0).new == []


def test_the_watermark_stops_at_a_missing_batch_and_goes_on_when_it_comes(journal: Journal) -> None:
    journal.commit([_arrival(each) for each in (BATCHES[0], BATCHES[1], BATCHES[3])], T0)
    assert journal.streams()[0].stream.watermark_ns == BATCHES[1].until_ns
    journal.commit([_arrival(BATCHES[2])], T0)
    assert journal.streams()[0].stream.watermark_ns == BATCHES[3].until_ns


def test_a_missing_batch_can_be_given_up(journal: Journal) -> None:
    journal.commit([_arrival(each) for each in (BATCHES[0], BATCHES[2], BATCHES[4])], T0)
    journal.arrived.skip_missing("lab", "pi4")
    assert journal.streams()[0].stream.watermark_ns == BATCHES[2].until_ns
    journal.arrived.skip_missing("lab", "pi4")
    assert journal.streams()[0].stream.watermark_ns == BATCHES[4].until_ns


def test_an_earlier_batch_that_comes_later_moves_the_beginning(journal: Journal) -> None:
    journal.commit([_arrival(BATCHES[3])], T0)
    journal.commit([_arrival(BATCHES[1])], T0)
    assert journal.streams()[0].stream.first_ns == BATCHES[1].start_ns


def test_samples_are_forgotten_by_their_time_of_arrival(journal: Journal) -> None:
    journal.commit([_arrival(BATCHES[0])], T0)
    journal.commit([_arrival(BATCHES[1])], T0 + 10)
    assert journal.arrived.forget(T0 + 5) == 1
    assert journal.counts()["batches"] == 1


def test_a_transaction_that_fails_leaves_nothing_behind(journal: Journal) -> None:
    with pytest.raises(AttributeError):
        journal.commit([_arrival(EVENT), Arrival("neither", b"")], T0)  # type: ignore[arg-type]
    assert journal.counts()["events"] == 0
    journal.commit([_arrival(EVENT)], T0)
    assert journal.counts()["events"] == 1


def test_a_reader_sees_what_is_committed_beside_the_writer(tmp_path: Path, journal: Journal) -> None:
    journal.commit([_arrival(EVENT)], T0)
    reader = Journal(tmp_path / "journal.sqlite", read_only=True)
    assert reader.counts()["events"] == 1
    reader.close()


def test_a_second_writer_is_refused_with_the_number_of_the_first(tmp_path: Path, journal: Journal) -> None:
    with pytest.raises(SettingsError, match=r"journal .* is in use by process \d+"):
        Journal(tmp_path / "journal.sqlite")
    assert journal.counts()["events"] == 0


@pytest.mark.parametrize("content", [b"not a database, by far" * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_file_that_is_no_journal_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(content)
    for read_only in (True, False):
        with pytest.raises(SettingsError, match=r"the journal .*journal.sqlite cannot be used"):
            Journal(path, read_only=read_only)
    assert path.read_bytes() == content


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version=77")
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(SettingsError, match="its version is 77"):
        Journal(path)
    check = sqlite3.connect(path)
    assert check.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    check.close()


def test_a_missing_journal_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no journal"):
        Journal(tmp_path / "none.sqlite", read_only=True)


def test_a_place_that_cannot_hold_a_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"journal .* cannot be used: (Not a directory|File exists)"):
        Journal(tmp_path / "file" / "journal.sqlite")


_FULL_DISK = """
import resource, sys
from pathlib import Path
from aggregator.journal import Journal
from errors import SettingsError
from tests.aggregator.test_journal import BATCHES, EVENT, T0, _arrival
journal = Journal(Path(sys.argv[1]))
journal.commit([_arrival(EVENT)], T0)
resource.setrlimit(resource.RLIMIT_FSIZE, (Path(sys.argv[1]).stat().st_size + 20_000,) * 2)
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    for n in range(1000):
        batch = BATCHES[0].model_copy(update={"seq": n})
        journal.commit([_arrival(batch)], T0)
except SettingsError as error:
    print(n, error)
"""


def test_a_full_disk_is_one_clear_line_and_keeps_what_was_committed(tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "journal.sqlite"
    script = textwrap.dedent(_FULL_DISK)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        cwd=repository,
        check=True,
        timeout=60,
    )
    number, _, line = done.stdout.partition(" ")
    assert "cannot be used" in line
    assert len(line.strip().splitlines()) == 1
    after = Journal(path)
    assert after.counts()["batches"] == int(number)
    assert after.event(EVENT.event_id) == EVENT
    after.close()


@given(st.lists(st.integers(0, 60)))
def test_ranges_name_exactly_the_numbers_given(numbers: list[int]) -> None:
    named = [n for first, last in ranges(numbers) for n in range(first, last + 1)]
    assert named == sorted(set(numbers))


def test_a_receipt_names_events_and_batches_by_dut_meter_and_timeline() -> None:
    other = BATCHES[0].model_copy(update={"meter": "m2"})
    elsewhere = BATCHES[4].model_copy(update={"dut": "pi5"})
    (pi4, pi5) = receipts([EVENT, BATCHES[1], BATCHES[0], other, elsewhere])
    assert (pi4.dut, pi4.event_ids) == ("pi4", (EVENT.event_id,))
    assert [(r.meter, r.first, r.last) for r in pi4.ranges] == [("m1", 0, 1), ("m2", 0, 0)]
    assert [(r.meter, r.first, r.last) for r in pi5.ranges] == [("m1", 4, 4)]
