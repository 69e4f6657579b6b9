"""The spool: what it keeps, where, for how long, and what it says when it cannot."""

import logging
import resource
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus import Spool
from errors import SettingsError
from schemas import Journaled, OperationEvent, SampleBatch, SeqRange
from tests.bus.support import Make

BIG = 10**9


def contents(spool: Spool) -> list[int]:
    """Sequence numbers, and event ids as negative numbers, in the order of sending."""
    found = spool.take_due(now_s=1e9, resend_s=0.0, limit=10_000)
    return [-(m.event_id.int & 0xFFFF) if isinstance(m, OperationEvent) else m.seq for m in found]


def rows(path: Path) -> int:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        count: int = db.execute("SELECT count(*) FROM entries").fetchone()[0]
    db.close()
    return count


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow: what a full disk looks like to SQLite."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_events_go_to_disk_at_once_and_samples_when_the_oldest_is_ten_seconds_old(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, BIG)
    spool.add(make.batch(1), now_s=100.0)
    spool.add(make.event(1), now_s=101.0)
    spool.add(make.batch(2), now_s=105.0)
    assert rows(path) == 1
    spool.spill(now_s=109.9)
    assert rows(path) == 1
    spool.spill(now_s=110.0)
    assert rows(path) == 3
    assert contents(spool) == [1, -1, 2]
    spool.close()


def test_a_confirmed_batch_never_reaches_the_disk(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, BIG)
    for seq in range(100):
        spool.add(make.batch(seq), now_s=float(seq))
        spool.confirm(make.receipt(spans=((seq, seq),)))
        spool.spill(now_s=float(seq))
    assert rows(path) == 0 and spool.pending == 0 and spool.size_bytes == 0
    spool.close()


def test_close_writes_everything_and_an_earlier_timeline_is_still_there(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    first = Spool(path, BIG)
    first.add(make.batch(1, timeline_id="old"), now_s=0.0)
    first.add(make.event(7), now_s=0.0)
    first.close()
    second = Spool(path, BIG)
    second.add(make.batch(1, timeline_id="new"), now_s=0.0)
    assert second.owners == {("lab", "pi4")}
    assert [message.timeline_id for message in second.take_due(0.0, 30.0, 10)] == ["old", "t1", "new"]
    assert second.confirm(make.receipt(spans=((0, 5),), timeline_id="old")) == 1
    assert second.confirm(make.receipt(events=(7,))) == 1
    second.close()
    third = Spool(path, BIG)
    assert contents(third) == [1]
    third.close()


def test_a_message_put_twice_is_kept_once(make: Make) -> None:
    spool = Spool(None, BIG)
    for _ in range(2):
        spool.add(make.batch(1), now_s=0.0)
        spool.add(make.event(1), now_s=0.0)
    assert spool.pending == 2


@given(
    seqs=st.sets(st.integers(0, 60), max_size=40),
    spans=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2**62 - 1) | st.integers(0, 60)), max_size=6),
    events=st.sets(st.integers(1, 10)),
    named=st.sets(st.integers(1, 20)),
)
def test_a_receipt_removes_exactly_what_it_names(
    seqs: set[int], spans: list[tuple[int, int]], events: set[int], named: set[int]
) -> None:
    make, spool = Make(), Spool(None, BIG)
    for seq in sorted(seqs):
        spool.add(make.batch(seq, samples=1), now_s=0.0)
        spool.add(make.batch(seq, samples=1, timeline_id="other"), now_s=0.0)
    for number in sorted(events):
        spool.add(make.event(number), now_s=0.0)
    gone = {seq for seq in seqs if any(first <= seq <= last for first, last in spans)}
    removed = spool.confirm(make.receipt(events=tuple(named), spans=tuple(spans)))
    assert removed == len(gone) + len(events & named)
    kept = contents(spool)
    assert sorted(kept) == sorted([*(seqs - gone), *seqs, *(-number for number in events - named)])


def test_a_receipt_for_another_dut_site_or_meter_removes_nothing(make: Make) -> None:
    spool = Spool(None, BIG)
    spool.add(make.batch(1), now_s=0.0)
    spool.add(make.event(1), now_s=0.0)
    span = SeqRange(meter="m1", timeline_id="t1", first=0, last=9)
    ids = (make.event_id(1),)
    for receipt in (
        Journaled(site="lab", dut="pi1", event_ids=ids, ranges=(span,)),
        Journaled(site="home", dut="pi4", event_ids=ids, ranges=(span,)),
        Journaled(site="lab", dut="pi4", ranges=(span.model_copy(update={"meter": "m2"}),)),
    ):
        assert spool.confirm(receipt) == 0
    assert spool.pending == 2


@pytest.mark.parametrize("spilled", [False, True])
def test_the_limit_drops_the_oldest_samples_counts_them_and_spares_events(
    make: Make, tmp_path: Path, spilled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    size_bytes = Spool(None, BIG)
    size_bytes.add(make.batch(0), now_s=0.0)
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, limit_bytes=size_bytes.size_bytes * 5)
    spool.add(make.event(1), now_s=0.0)
    with caplog.at_level(logging.WARNING):
        for seq in range(10):
            spool.add(make.batch(seq), now_s=0.0)
            spool.spill(now_s=100.0 if spilled else 0.0)
    kept = contents(spool)
    assert kept[0] == -1 and kept[1:] == list(range(10 - len(kept) + 1, 10)) and len(kept) > 1
    assert spool.lost_batches == 11 - len(kept) and spool.lost_samples == 3 * spool.lost_batches
    assert "1 sample batches lost so far" in caplog.text
    spool.close()
    assert rows(path) == len(kept)


def test_samples_that_an_event_drove_out_do_not_come_back(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, BIG)
    spool.add(make.batch(1), now_s=0.0)
    spool.close()
    spool = Spool(path, limit_bytes=10)
    spool.add(make.event(1), now_s=0.0)
    assert contents(spool) == [-1] and spool.lost_batches == 1
    spool.close()
    assert rows(path) == 1


def test_events_over_the_limit_are_kept_with_a_warning(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(None, limit_bytes=10)
    with caplog.at_level(logging.WARNING):
        spool.add(make.event(1), now_s=0.0)
        spool.add(make.event(2), now_s=0.0)
    assert spool.pending == 2 and caplog.text.count("operation events are kept") == 1


def test_every_event_put_before_a_kill_is_there_after(make: Make, tmp_path: Path) -> None:
    script = f"""
        import sys
        from pathlib import Path
        from uuid import UUID
        from bus import Spool
        from schemas import OperationEvent
        spool = Spool(Path({str(tmp_path / "spool.sqlite")!r}), 10**9)
        event = OperationEvent.model_validate_json({make.event(1).model_dump_json()!r})
        for number in range(1, 10**6):
            spool.add(event.model_copy(update={{"event_id": UUID(int=event.event_id.int - 1 + number)}}), 0.0)
            print(number, flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 50:
            pass
        with pytest.raises(SettingsError, match=f"in use by process {process.pid}"):
            Spool(tmp_path / "spool.sqlite", BIG)
        process.kill()
        put = 50 + len(process.stdout.read().splitlines())
    spool = Spool(tmp_path / "spool.sqlite", BIG)
    kept = contents(spool)
    assert kept[:put] == [-number for number in range(1, put + 1)] and len(kept) <= put + 1
    spool.close()


@pytest.mark.parametrize("damage", ["rubbish", "torn", "pages"])
def test_a_corrupt_file_is_set_aside_and_a_new_one_begun(
    make: Make, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, BIG)
    for seq in range(200):
        spool.add(make.batch(seq, samples=100), now_s=0.0)
    spool.close()
    whole = path.read_bytes()
    pages = whole[:4096] + b"\xa5" * (len(whole) - 4096)
    path.write_bytes({"rubbish": b"no database\n" * 500, "torn": whole[: len(whole) // 2], "pages": pages}[damage])
    with caplog.at_level(logging.WARNING):
        fresh = Spool(path, BIG)
    assert fresh.pending == 0 and "is corrupt" in caplog.text
    assert (tmp_path / "spool.sqlite.corrupt-1").exists()
    fresh.add(make.event(1), now_s=0.0)
    fresh.close()
    assert rows(path) == 1


def test_an_entry_that_cannot_be_read_is_dropped_and_counted(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, BIG)
    for seq in range(3):
        spool.add(make.batch(seq), now_s=0.0)
    spool.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET payload = x'00' WHERE seq = 1")
    db.close()
    again = Spool(path, BIG)
    assert contents(again) == [0, 2] and again.unreadable == 1 and again.pending == 2
    again.close()


def test_a_spool_that_cannot_be_opened_gets_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"spool .* cannot be used: .*(Not a directory|File exists)"):
        Spool(tmp_path / "file" / "spool.sqlite", BIG)
    (tmp_path / "folder").mkdir()
    with pytest.raises(SettingsError, match="cannot be used: unable to open database file"):
        Spool(tmp_path / "folder", BIG)
    with full_disk(), pytest.raises(SettingsError, match="cannot be used"):
        Spool(tmp_path / "new.sqlite", BIG)


def test_a_spool_of_another_version_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "spool.sqlite") as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    for _ in range(2):  # the lock is free again after a failure
        with pytest.raises(SettingsError, match="another version of opjoule"):
            Spool(tmp_path / "spool.sqlite", BIG)


def test_a_disk_that_fills_up_keeps_entries_in_memory_and_is_tried_again(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "spool.sqlite"
    spool = Spool(path, BIG)
    with full_disk(), caplog.at_level(logging.ERROR):
        for number in range(1, 4):
            spool.add(make.event(number), now_s=0.0)
            spool.add(make.batch(number), now_s=0.0)
        spool.spill(now_s=10.0)
        spool.spill(now_s=10.1)
    assert spool.disk_error and spool.disk_errors == 4
    assert caplog.text.count("entries stay in memory") == 1
    assert spool.pending == 6
    spool.spill(now_s=19.0)
    assert rows(path) == 0
    spool.spill(now_s=20.0)
    assert rows(path) == 6 and spool.disk_error == ""
    assert contents(spool) == [-1, 1, -2, 2, -3, 3]
    spool.close()


def test_a_spool_without_a_path_lives_in_memory(make: Make) -> None:
    spool = Spool(None, BIG)
    spool.add(make.event(1), now_s=0.0)
    spool.spill(now_s=1e6)
    message = spool.take_due(0.0, 30.0, 10)[0]
    assert message == make.event(1)
    spool.close()
    assert spool.pending == 1


def test_samples_survive_the_way_through_the_disk_unchanged(make: Make, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.sqlite", BIG)
    batch: SampleBatch = make.batch(3, samples=100)
    spool.add(batch, now_s=0.0)
    spool.spill(now_s=10.0)
    assert spool.take_due(10.0, 30.0, 10) == [batch]
    spool.close()
