"""The sender, on a store that answers as it is told: nothing forgotten, nothing in a hurry, nothing waited for."""

import sqlite3
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.journal import Journal
from aggregator.sinks.sender import Answer, Pace, Sender
from errors import SettingsError
from tests.aggregator.sinks.conftest import QUICK, wait_until

Says = Callable[[Sequence[str]], Answer]
STORED = Answer("stored")


class Scripted:
    """A store that answers as its script says, and remembers what it was asked."""

    def __init__(self, says: Says) -> None:
        self.says = says
        self.asked: list[list[str]] = []
        self.kept: list[str] = []
        self.opened = 0

    def open(self) -> "Scripted":
        """Counts as a new connection."""
        self.opened += 1
        return self

    def write(self, lines: Sequence[str]) -> Answer:
        """As the script says."""
        self.asked.append(list(lines))
        answer = self.says(lines)
        self.kept += lines if answer.kind == "stored" else []
        return answer

    def close(self) -> None:
        """Nothing to give up."""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def _put(journal: Journal, *lines: str) -> None:
    with journal.outbox.transaction():
        journal.outbox.put("energy", lines, 0)


def _drained(journal: Journal) -> Callable[[], bool]:
    return lambda: journal.outbox.totals().lines == 0


def _run(journal: Journal, store: Scripted, pace: Pace = QUICK) -> Sender:
    """Send until nothing waits."""
    sender = Sender(journal.path, store.open, pace)
    sender.start()
    try:
        wait_until(_drained(journal), lambda: sender.trouble)
    finally:
        assert sender.stop()
    return sender


def _letters(journal: Journal) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(journal.path)) as file:
        return file.execute("SELECT line, reason FROM dead_letters ORDER BY letter").fetchall()


def test_lines_go_in_order_in_batches_of_bounded_size(journal: Journal) -> None:
    lines = [f"line {number}" for number in range(25)]
    _put(journal, *lines)
    store = Scripted(lambda _: STORED)
    sender = _run(journal, store, Pace(lines=10, idle_s=0.01))
    assert store.kept == lines
    assert [len(batch) for batch in store.asked] == [10, 10, 5]
    assert (sender.sent, sender.trouble) == (25, "")


def test_what_a_store_cannot_take_now_stays_and_is_sent_again(journal: Journal) -> None:
    _put(journal, "a", "b")
    store = Scripted(lambda _: STORED if len(store.asked) > 3 else Answer("later", "it is away"))
    _run(journal, store)
    assert store.asked == [["a", "b"]] * 4
    assert store.opened == 1


def test_bad_lines_are_found_by_halving_and_the_others_are_stored(journal: Journal) -> None:
    lines = [f"line {number}" for number in range(100)]
    _put(journal, *lines)
    store = Scripted(lambda batch: Answer("refused", "no 7s") if any("7" in line for line in batch) else STORED)
    _run(journal, store, Pace(lines=100, idle_s=0.01))
    bad = [line for line in lines if "7" in line]
    assert _letters(journal) == [(line, "no 7s") for line in bad]
    assert sorted(store.kept) == sorted(set(lines) - set(bad))


def test_a_store_that_says_it_dropped_every_line_is_not_asked_for_each(journal: Journal) -> None:
    _put(journal, *[f"line {number}" for number in range(64)])
    store = Scripted(lambda batch: Answer("refused", f"400: partial write: conflict dropped={len(batch)}"))
    _run(journal, store)
    assert len(store.asked) == 1 and len(_letters(journal)) == 64


def test_a_store_that_goes_away_in_the_middle_of_halving_loses_nothing(journal: Journal) -> None:
    lines = [f"line {number}" for number in range(16)]
    _put(journal, *lines)

    def says(batch: Sequence[str]) -> Answer:
        if len(store.asked) in (3, 4):
            return Answer("later", "away")
        return Answer("refused", "bad") if "line 5" in batch else STORED

    store = Scripted(says)
    _run(journal, store)
    assert _letters(journal) == [("line 5", "bad")]
    assert sorted(store.kept) == sorted(set(lines) - {"line 5"})


def test_the_longer_of_back_off_and_what_the_store_asks_for_is_waited(journal: Journal) -> None:
    _put(journal, "a")
    at_s: list[float] = []

    def says(_: Sequence[str]) -> Answer:
        at_s.append(time.monotonic())
        return STORED if len(at_s) > 1 else Answer("later", "429", retry_after_s=0.3)

    _run(journal, Scripted(says))
    assert 0.3 <= at_s[1] - at_s[0] < 5


def test_where_the_operator_must_act_the_trouble_is_shown_and_the_token_is_read_again(journal: Journal) -> None:
    _put(journal, "a")
    mended = threading.Event()
    store = Scripted(lambda _: STORED if mended.is_set() else Answer("operator", "give a token"))
    sender = Sender(journal.path, store.open, QUICK)
    sender.start()
    wait_until(lambda: store.opened > 2)
    assert sender.trouble == "give a token"
    mended.set()
    wait_until(lambda: _drained(journal)() and sender.trouble == "")
    assert sender.stop() and store.kept == ["a"]


def test_a_token_file_that_is_missing_for_a_while_loses_nothing(journal: Journal) -> None:
    _put(journal, "a")
    store = Scripted(lambda _: STORED)

    def open_store() -> Scripted:
        if store.open().opened < 3:
            raise SettingsError("InfluxDB token file is empty")
        return store

    sender = Sender(journal.path, open_store, QUICK)
    sender.start()
    wait_until(_drained(journal))
    assert sender.stop() and store.kept == ["a"]


def test_a_store_that_hangs_holds_up_neither_the_journal_nor_the_end(journal: Journal) -> None:
    _put(journal, "a")
    hanging = threading.Event()

    def says(_: Sequence[str]) -> Answer:
        hanging.wait(30)
        return STORED

    store = Scripted(says)
    sender = Sender(journal.path, store.open, Pace(stop_s=0.2))
    sender.start()
    wait_until(lambda: bool(store.asked))
    start_s = time.monotonic()
    _put(journal, "b")
    assert time.monotonic() - start_s < 1
    assert not sender.stop()
    assert time.monotonic() - start_s < 2
    hanging.set()
    wait_until(lambda: not sender._thread.is_alive())
    assert journal.outbox.totals().lines == 1


def test_lines_that_were_sent_when_the_process_ended_are_sent_again(journal: Journal) -> None:
    _put(journal, "a")
    first = Scripted(lambda _: Answer("later", "killed before the answer came"))
    sender = Sender(journal.path, first.open, Pace(backoff_min_s=60, backoff_max_s=60))
    sender.start()
    wait_until(lambda: bool(first.asked))
    assert sender.stop()
    second = Scripted(lambda _: STORED)
    _run(journal, second)
    assert second.kept == ["a"]


def test_memory_does_not_grow_with_what_waits(journal: Journal) -> None:
    def peak_bytes(lines: int) -> int:
        with journal.outbox.transaction():
            journal.outbox.put("power", ["x" * 200] * lines, 0)
        count = [0]

        def says(batch: Sequence[str]) -> Answer:
            count[0] += len(batch)
            return STORED

        store = Scripted(says)
        store.write = says  # type: ignore[method-assign,assignment]
        tracemalloc.start()
        _run(journal, store, Pace(lines=2000, idle_s=0.01))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == [lines]
        return peak

    few, many = peak_bytes(4_000), peak_bytes(60_000)
    assert many < 1.5 * few


def test_a_journal_that_is_gone_is_said(tmp_path: Path) -> None:
    sender = Sender(tmp_path / "none.sqlite", Scripted(lambda _: STORED).open, QUICK)
    sender.start()
    wait_until(lambda: "cannot be used" in sender.trouble)
    assert sender.stop()
