"""Which files of a folder are recordings, of what, and why one cannot be used."""

import math
from pathlib import Path

import pytest

from errors import ContractError
from opjoule.study.folder import StudyRecording, Unreadable, read_folder
from opjoule.study.names import Subject
from tests.opjoule.studies import Study, cfn, converter_csv, power_around, spreadsheet_csv

KEYS = Subject("pi4", "keygen", "RSA-2048")
POWER_W = power_around(1.5, 100)


def read(study: Study) -> tuple[dict[Subject, StudyRecording], list[Unreadable]]:
    return read_folder(study.recordings, [])


def reason(study: Study) -> str:
    good, (bad,) = read(study)
    assert good == {}
    return bad.reason


@pytest.mark.parametrize(("suffix", "write"), [("cfn", cfn), ("csv", converter_csv), ("csv", spreadsheet_csv)])
def test_every_form_of_a_recording_is_read(study: Study, suffix: str, write: object) -> None:
    assert callable(write)
    study.record(f"pi4/pi4_keys_rsa.{suffix}", write(POWER_W))
    good, bad = read(study)
    assert bad == []
    found = good[KEYS]
    assert (found.samples, found.period_ns, found.remarks) == (100, 20_000_000, ())
    assert found.last_s == pytest.approx(99 / 50, abs=1e-12)


def test_the_csv_copy_of_a_cfn_file_is_left_alone(study: Study) -> None:
    study.record("pi4/csv_files/pi4_keys_rsa.csv", b"nonsense")
    path = study.record("pi4/cfn_files/02_pi4_keys_rsa.cfn", cfn(POWER_W))
    good, bad = read(study)
    assert (good[KEYS].path, good[KEYS].remarks, bad) == (path, (), [])


def test_the_csv_copy_serves_where_the_cfn_file_cannot_be_read(study: Study) -> None:
    study.record("pi4/pi4_keys_rsa.cfn", cfn(POWER_W)[:-1])
    path = study.record("pi4/pi4_keys_rsa.csv", converter_csv(POWER_W))
    good, bad = read(study)
    assert (good[KEYS].path, bad) == (path, [])


def test_a_second_recording_of_the_same_is_named_unless_it_is_a_copy(study: Study) -> None:
    study.record("a/pi4_keys_rsa.cfn", cfn(POWER_W))
    study.record("b/pi4_keys_rsa.cfn", cfn(POWER_W))
    assert read(study)[0][KEYS].remarks == ()
    other = study.record("c/pi4_keys_rsa.cfn", cfn(POWER_W[:50]))
    assert read(study)[0][KEYS].remarks == (f"{other} is of the same and is not",)


def test_the_board_can_be_the_name_of_the_folder_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pi4").mkdir()
    (tmp_path / "pi4" / "keys_rsa.cfn").write_bytes(cfn(POWER_W))
    monkeypatch.chdir(tmp_path / "pi4")
    assert list(read_folder(Path(), [])[0]) == [KEYS]
    assert list(read_folder(Path("../pi4"), [])[0]) == [KEYS]


def test_truncated_empty_and_foreign_files_say_so(study: Study) -> None:
    path = study.record("pi4_keys_rsa.cfn", cfn(POWER_W)[:-1])
    assert reason(study) == "truncated after 99 rows; copy the file again"
    path.write_bytes(b"")
    assert reason(study) == "ends at offset 0, inside the header at offset 0"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert reason(study).startswith("not a .cfn recording: ")
    path.write_bytes(cfn([]))
    assert reason(study).startswith("not one whole row of the 0 announced")


def test_a_csv_file_with_a_missing_column_names_it(study: Study) -> None:
    study.record("pi4_keys_rsa.csv", b"Time,Voltage\n0.00,5.1\n0.02,5.1\n")
    assert reason(study).startswith("no column 'Power'")


def test_samples_that_no_meter_can_measure_are_left_out_and_counted(study: Study) -> None:
    path = study.record("pi4_keys_rsa.cfn", cfn([*POWER_W[:98], math.nan, 1e9]))
    found = read(study)[0][KEYS]
    assert found.samples == 98
    assert found.last_s == pytest.approx(97 / 50)
    assert "without 2 of 100 samples: no power that a meter can measure" in found.remarks
    path.write_bytes(cfn([math.nan] * 100))
    assert reason(study) == "none of its 100 samples is a power that a meter can measure"


@pytest.mark.parametrize(
    ("times", "said"),
    [(("0", "0.02", "0.02"), "its times do not increase"), (("0", "0.02", "0.04", "1e8"), "longer than 2592000 s")],
)
def test_times_that_cannot_be_are_refused(study: Study, times: tuple[str, ...], said: str) -> None:
    study.record("pi4_keys_rsa.csv", "".join(["Time,Power\n", *(f"{t},1.5\n" for t in times)]).encode())
    assert reason(study) == said


def test_a_recording_slower_than_the_idle_one_is_refused_and_a_faster_one_is_not(study: Study) -> None:
    study.record("pi4_baseline.cfn", cfn(POWER_W))
    slow = study.record("pi4_keys_rsa.cfn", cfn(POWER_W, rate_hz=10.0))
    study.record("pi4_keys_ecdsa.cfn", cfn(POWER_W, rate_hz=100.0))
    good, bad = read(study)
    assert {subject.parameter_set for subject in good} == {"", "ECDSA-P-256"}
    assert [(each.path, each.reason) for each in bad] == [
        (slow, "10 samples/s, the idle recording has 50; record it again")
    ]


def test_a_cfn_file_whose_name_tells_nothing_is_named_and_a_csv_file_is_not(study: Study) -> None:
    path = study.record("pi4/holiday.cfn", cfn(POWER_W))
    study.record("pi4/notes.csv", b"remember,the,milk")
    good, bad = read(study)
    assert good == {}
    assert [(each.path, each.subject) for each in bad] == [(path, None)]
    assert bad[0].reason.startswith("the file name does not tell board, operation and parameter set")


def test_a_folder_that_is_called_like_a_recording_is_none(study: Study) -> None:
    (study.recordings / "pi4_keys_rsa.cfn").mkdir()
    assert reason(study) == "Is a directory"


def test_a_folder_without_recordings_or_none_at_all_is_one_line(study: Study) -> None:
    with pytest.raises(ContractError, match=r"no recordings \(\.cfn or \.csv\) in it$"):
        read(study)
    with pytest.raises(ContractError, match=r"elsewhere: there is no such folder$"):
        read_folder(study.folder / "elsewhere", [])


def test_the_published_table_is_no_recording(study: Study) -> None:
    table = study.record("pi4_keys_rsa.csv", b"machine,method\n")
    study.record("pi4_baseline.cfn", cfn(POWER_W))
    assert read_folder(study.recordings, [table])[1] == []
