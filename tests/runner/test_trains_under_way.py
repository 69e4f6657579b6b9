"""Trains that were cut off are told at the next start."""

from pathlib import Path

import pytest

from runner.trains_under_way import MOST_TOLD, TrainsUnderWay
from schemas.status import AbortedTrain


def _train(number: int) -> AbortedTrain:
    return AbortedTrain(operation="sign", parameter_set="ML-DSA-65", variant="message_bytes=1", started_ns=number)


def test_a_train_that_was_not_ended_is_found_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = TrainsUnderWay(tmp_path / "runner-pi4")
    assert (first.aborted, first.count) == ((), 0)
    first.begin(_train(1))
    again = TrainsUnderWay(tmp_path / "runner-pi4")
    assert (again.aborted, again.count) == ((_train(1),), 1)
    assert "aborted: sign ML-DSA-65 of the last start was cut off" in caplog.text


def test_it_is_told_at_later_starts_too_and_counted_once(tmp_path: Path) -> None:
    TrainsUnderWay(tmp_path / "runner-pi4").begin(_train(1))
    for _ in range(3):
        found = TrainsUnderWay(tmp_path / "runner-pi4")
    assert (found.aborted, found.count) == ((_train(1),), 1)


def test_a_start_that_is_itself_cut_off_while_it_notes_a_train_makes_no_second_one_of_it(tmp_path: Path) -> None:
    TrainsUnderWay(tmp_path / "runner-pi4").begin(_train(1))
    note = tmp_path / "runner-pi4.under-way.json"
    text = note.read_text()
    TrainsUnderWay(tmp_path / "runner-pi4")
    note.write_text(text)
    found = TrainsUnderWay(tmp_path / "runner-pi4")
    assert (found.aborted, found.count) == ((_train(1),), 1)


def test_a_train_that_was_ended_is_no_matter(tmp_path: Path) -> None:
    trains = TrainsUnderWay(tmp_path / "runner-pi4")
    trains.begin(_train(1))
    trains.end()
    assert TrainsUnderWay(tmp_path / "runner-pi4").count == 0


def test_the_latest_are_told_and_all_are_counted(tmp_path: Path) -> None:
    for number in range(MOST_TOLD + 4):
        TrainsUnderWay(tmp_path / "runner-pi4").begin(_train(number))
    found = TrainsUnderWay(tmp_path / "runner-pi4")
    assert found.count == MOST_TOLD + 4
    assert [each.started_ns for each in found.aborted] == list(range(4, MOST_TOLD + 4))


def test_a_note_that_is_damaged_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "runner-pi4.under-way.json").write_text('{"operation": "sig')
    assert TrainsUnderWay(tmp_path / "runner-pi4").count == 0
    assert "which one is unknown" in caplog.text
    assert not (tmp_path / "runner-pi4.under-way.json").exists()


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    trains = TrainsUnderWay(tmp_path / "file" / "runner-pi4")
    for number in range(3):
        trains.begin(_train(number))
        trains.end()
    assert caplog.text.count("cannot be written") == 1
