"""`opjoule results` shows what the journal holds, as a table, CSV or JSON, and says so when there is none."""

import csv
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from uuid import UUID

import pytest
from rich.console import Console

from aggregator.journal import Journal
from aggregator.journal_tables import VERSION
from clock import rfc3339
from opjoule.__main__ import main
from opjoule.results import COLUMNS, WIDE_FILE, WIDE_LEAST, table
from schemas import Board, BudgetPart, EnergyResult, Quantity, TimeStatistics
from tests.opjoule.studies import without_privileges

SECOND = 1_000_000_000
T0 = 1_800_000_000 * SECOND
NET = Quantity(value=0.0345, u=0.0004, dof=9.0, u95=0.0008)


def result(number: int, **changes: object) -> EnergyResult:
    """A result of a train that began `number` minutes after the first."""
    start_ns = T0 + 60 * number * SECOND
    fields: dict[str, object] = {
        "event_id": UUID(f"01890a5d-ac96-774b-bcce-b302099a80{number:02x}"),
        "revision": 1,
        "site": "lab",
        "dut": "pi4",
        "run_id": "r1",
        "origin": "runner",
        "operation": "keygen",
        "parameter_set": "ML-KEM-768",
        "algorithm": "ML-KEM",
        "category": 3,
        "variant": "pair",
        "backend": "cli",
        "processes_per_repetition": 2,
        "board": Board(model="Raspberry Pi 4", architecture="aarch64", bits=64, openssl="3.5.7"),
        "meter": "fnb58-1",
        "meter_model": "FNB58",
        "meter_kind": "measured",
        "simulated": False,
        "start_ns": start_ns,
        "end_ns": start_ns + 30 * SECOND,
        "start_time": rfc3339(start_ns),
        "end_time": rfc3339(start_ns + 30 * SECOND),
        "quality": "good",
        "flags": (),
        "repetitions": 400,
        "repetitions_failed": 0,
        "load_segments": 10,
        "load_segments_used": 10,
        "guard_s": 0.12,
        "load_s": 7.0,
        "time_per_repetition": TimeStatistics(count=400, mean_s=0.0175),
        "net_j_per_op": NET,
        "budget": (BudgetPart(name="scatter", u=0.0004, dof=9.0, source="segments"),),
        "software": "opjoule 0.1.0",
    }
    return EnergyResult.model_validate(fields | changes)


SIMULATED = {"simulated": True, "flags": ("simulated",), "meter": "simulated-1", "meter_kind": "simulated"}
NO_ENERGY = {"quality": "invalid", "flags": ("gap",), "net_j_per_op": None, "budget": ()}
RESULTS = (
    result(0),
    result(1, operation="sign", parameter_set="ML-DSA-65", variant="message_bytes=19600"),
    result(2, dut="pizero", run_id="r2", **SIMULATED),
    result(3, run_id="r2", **NO_ENERGY),
    result(4, operation="sham", parameter_set="none", backend="none", net_j_per_op=None, repetitions=0).model_copy(
        update={"net_power_w": Quantity(value=-0.0021, u=0.002, dof=9.0, u95=0.0045)}
    ),
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A journal with results, as a running aggregator holds it."""
    opened = Journal(tmp_path / "journal.sqlite")
    opened.results.store(RESULTS)
    yield opened
    opened.close()


@pytest.fixture
def show(journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What the command prints of that journal."""

    def run(*arguments: str) -> str:
        assert main(["results", "--journal", str(tmp_path / "journal.sqlite"), *arguments]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return said.out

    return run


def refusal(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which the command refuses."""
    assert main(["results", "--journal", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err.removeprefix("opjoule results: ").rstrip("\n")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def starts(text: str) -> list[int]:
    """The numbers of the results in a CSV output."""
    known = {str(each.event_id): number for number, each in enumerate(RESULTS)}
    return [known[row["event_id"]] for row in rows_of(text)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["--board", "pizero"], [2]),
        (["--board", "PiZero"], [2]),
        (["--site", "lab"], [0, 1, 2, 3, 4]),
        (["--site", "elsewhere"], []),
        (["--operation", "keygen"], [0, 2, 3]),
        (["--operation", "sham"], [4]),
        (["--parameter-set", "ML-DSA-65"], [1]),
        (["--parameter-set", "ml-dsa-65"], [1]),
        (["--parameter-set", "ML-DSA-6"], []),
        (["--backend", "cli"], [0, 1, 2, 3]),
        (["--backend", "none"], [4]),
        (["--quality", "invalid"], [3]),
        (["--run", "r2"], [2, 3]),
        (["--run", "r2", "--board", "pi4", "--quality", "invalid"], [3]),
    ],
)
def test_filters_leave_what_was_asked_for_in_order_of_time(
    show: Callable[..., str], arguments: list[str], expected: list[int]
) -> None:
    assert starts(show("--format", "csv", *arguments)) == expected


def test_only_the_last_revision_is_shown(journal: Journal, show: Callable[..., str]) -> None:
    journal.results.store([result(0, revision=2, net_j_per_op=Quantity(value=0.05, u=0.01, u95=0.02))])
    (row,) = rows_of(show("--format", "csv", "--parameter-set", "ML-KEM-768", "--run", "r1"))
    assert (row["revision"], row["net_j_per_op"]) == ("2", "0.05")


def test_csv_and_json_hold_the_same_columns_and_figures(show: Callable[..., str]) -> None:
    from_csv, from_json = rows_of(show("--format", "csv")), json.loads(show("--format", "json"))
    assert [list(row) for row in from_json] == [list(COLUMNS)] * len(RESULTS) == [list(row) for row in from_csv]
    as_text = [{key: "" if value is None else str(value) for key, value in row.items()} for row in from_json]
    assert as_text == from_csv
    first = from_json[0]
    assert (first["net_j_per_op"], first["u_j_per_op"], first["u95_j_per_op"], first["dof"]) == (0.0345, 4e-4, 8e-4, 9)
    assert (first["s_per_op"], first["repetitions"], first["start_time"]) == (0.0175, 400, rfc3339(T0))
    assert (from_json[3]["net_j_per_op"], from_json[3]["quality"], from_json[3]["flags"]) == (None, "invalid", "gap")
    assert from_json[4]["net_power_w"] == -0.0021


def test_the_table_shows_value_and_uncertainty_and_a_dash_where_there_is_no_energy(show: Callable[..., str]) -> None:
    lines = show().splitlines()
    (keygen,) = [line for line in lines if "ML-KEM-768" in line and "34.50 ± 0.80 mJ" in line and "SIM" not in line]
    assert keygen.split()[-2:] == ["400", "good"]
    (invalid,) = [line for line in lines if "invalid" in line]
    assert "±" not in invalid and "–" in invalid and "(gap)" in invalid
    (sham,) = [line for line in lines if "sham" in line]
    assert "-2.1 ± 4.5 mW" in sham


def test_simulated_stands_beside_every_simulated_figure_and_no_other(show: Callable[..., str]) -> None:
    marked = [line for line in show().splitlines() if "SIMULATED" in line]
    assert len(marked) == 1 and "pizero" in marked[0]
    assert [row["simulated"] for row in rows_of(show("--format", "csv"))] == [
        "False",
        "False",
        "True",
        "False",
        "False",
    ]
    assert [row["simulated"] for row in json.loads(show("--format", "json"))] == [False, False, True, False, False]


@pytest.mark.parametrize("columns", [20, WIDE_LEAST, WIDE_FILE])
def test_the_word_simulated_is_whole_however_narrow_the_terminal(
    journal: Journal, show: Callable[..., str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    journal.results.store([result(6, dut="a-board-with-a-name-of-forty-characters-", run_id="narrow", **SIMULATED)])
    monkeypatch.setattr("opjoule.results.WIDE_FILE", columns)
    assert "SIMULATED" in show("--run", "narrow")


@pytest.mark.parametrize("width", [60, 80, WIDE_FILE])
def test_the_same_operation_by_two_backends_is_told_apart_and_a_null_train_is_in_words(width: int) -> None:
    reads = "processes=1,reads=key+message,message_bytes=19600"
    shown = [result(0), result(1, backend="lib"), result(2, operation="null", parameter_set="none", variant=reads)]
    console = Console(file=StringIO(), width=width)
    console.print(table(shown, width=width))
    assert isinstance(console.file, StringIO)
    said = " ".join(console.file.getvalue().split())
    by = "by " if width < 80 else ""
    assert re.search(rf"ML-KEM-768 {by}cli .*ML-KEM-768 {by}lib ", said)
    assert ("null 1 process: key+message cli " in said) == (width >= 80)
    assert "message_bytes" not in said


def test_brackets_in_a_name_are_shown_as_they_are() -> None:
    console = Console(file=StringIO(), width=200)
    console.print(table([result(0, operation="null", variant="[/red]files")], width=200))
    assert isinstance(console.file, StringIO) and "[/red]files" in console.file.getvalue()


def test_where_nothing_matches_every_format_says_so(show: Callable[..., str]) -> None:
    assert show("--board", "pi1") == "no results match\n"
    assert show("--board", "pi1", "--format", "csv") == ",".join(COLUMNS) + "\n"
    assert json.loads(show("--board", "pi1", "--format", "json")) == []


def test_an_empty_journal_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Journal(tmp_path / "journal.sqlite").close()
    assert main(["results", "--journal", str(tmp_path / "journal.sqlite")]) == 0
    assert capsys.readouterr().out == "no results match\n"


def test_a_journal_in_use_can_be_read_while_results_are_written(
    journal: Journal, show: Callable[..., str], tmp_path: Path
) -> None:
    assert len(rows_of(show("--format", "csv"))) == 5
    with sqlite3.connect(tmp_path / "journal.sqlite", isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE results SET dut='other'")
        assert starts(show("--format", "csv", "--board", "pi4")) == [0, 1, 3, 4]
        writer.execute("ROLLBACK")
    writer.close()
    journal.results.store([result(5)])
    assert len(rows_of(show("--format", "csv"))) == 6


def test_a_journal_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(tmp_path / "none.sqlite", capsys) == f"there is no journal {tmp_path / 'none.sqlite'}"
    assert refusal(tmp_path, capsys) == f"there is no journal {tmp_path}"
    assert list(tmp_path.iterdir()) == []


def test_a_journal_of_another_version_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")
    db.close()
    assert refusal(path, capsys) == (
        f"{path} is not a journal of this version of opjoule (its version is {VERSION + 1})"
    )


@pytest.mark.parametrize("content", [b"machine,method\n" * 100, b"SQLite format 3\x00" + bytes(3000)])
def test_a_file_that_is_no_journal_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(content)
    assert refusal(path, capsys).startswith(f"the journal {path} cannot be used: ")
    assert path.read_bytes() == content


def test_an_empty_file_and_another_database_are_no_journals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.sqlite"
    path.touch()
    assert "is not a journal" in refusal(path, capsys)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE results (x)")
    db.close()
    assert "is not a journal" in refusal(path, capsys)


def test_a_journal_in_a_folder_that_cannot_be_written_to_is_read(
    shared_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared_folder / "journal.sqlite"
    opened = Journal(path)
    opened.results.store(RESULTS)
    opened.close()
    with without_privileges(shared_folder):
        assert main(["results", "--journal", str(path), "--format", "csv"]) == 0
    assert starts(capsys.readouterr().out) == [0, 1, 2, 3, 4]


def test_a_journal_that_may_not_be_read_is_named(shared_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shared_folder / "journal.sqlite"
    Journal(path).close()
    path.chmod(0o000)
    with without_privileges(shared_folder):
        assert refusal(path, capsys).startswith(f"the journal {path} cannot be used: ")
    with without_privileges(shared_folder, 0o000):
        assert refusal(path, capsys) == f"the journal {path} cannot be reached: Permission denied"


def test_without_a_meter_the_table_shows_the_time_of_an_operation(journal: Journal, show: Callable[..., str]) -> None:
    timed = result(
        7,
        run_id="timed",
        quality="time_only",
        net_j_per_op=None,
        budget=(),
        meter=None,
        meter_model=None,
        meter_kind=None,
        time_per_repetition=TimeStatistics(count=400, mean_s=0.003567),
    )
    journal.results.store([timed])
    (line,) = [line for line in show("--run", "timed").splitlines() if "time_only" in line]
    assert "3.57 ms/op" in line


@pytest.mark.parametrize("columns", [60, WIDE_FILE])
def test_lines_of_a_table_in_a_pipe_do_not_end_in_blanks(
    show: Callable[..., str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr("opjoule.results.WIDE_FILE", columns)
    lines = show().splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert any("34.50 ± 0.80 mJ" in line for line in lines)
    assert max(map(len, lines)) <= columns


def test_the_journal_is_found_where_the_services_settings_put_it(
    journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert main(["results"]) == 2
    monkeypatch.setenv("OPJOULE_STATE_DIR", str(tmp_path))
    assert main(["results"]) == 0
    monkeypatch.setenv("OPJOULE_STATE_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("OPJOULE_JOURNAL", str(tmp_path / "journal.sqlite"))
    assert main(["results"]) == 0
    assert capsys.readouterr().err.count("\n") == 1


DAMAGES: list[str | bytes] = ["{}", "not JSON", b"\xff\xfe rubbish", "\x00"]


@pytest.mark.parametrize("payload", DAMAGES)
def test_rows_that_cannot_be_read_are_skipped_and_counted_in_one_line(
    journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str], payload: str | bytes
) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("UPDATE results SET payload=? WHERE operation='sign' OR operation='sham'", (payload,))
    db.close()
    assert main(["results", "--journal", str(tmp_path / "journal.sqlite"), "--format", "csv"]) == 1
    said = capsys.readouterr()
    assert starts(said.out) == [0, 2, 3]
    assert said.err.startswith("opjoule results: skipped 2 results: the journal has a row that cannot be read as ")
    assert said.err.count("\n") == 1


def test_text_that_is_not_utf_8_and_a_flag_of_a_later_version_are_skipped_too(
    journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("UPDATE results SET payload=CAST(x'7bff7d' AS TEXT) WHERE operation='sign'")
        db.execute("""UPDATE results SET payload=replace(payload, '["gap"]', '["moon_phase"]')""")
    db.close()
    assert main(["results", "--journal", str(tmp_path / "journal.sqlite"), "--format", "csv"]) == 1
    said = capsys.readouterr()
    assert starts(said.out) == [0, 2, 4]
    assert said.err.count("skipped 1 result: ") == 2 and "flags.0" in said.err


def test_a_page_of_rubbish_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.sqlite"
    opened = Journal(path)
    for number in range(20):
        opened.results.store([result(number)])
    opened.close()
    page, pages = 4096, path.stat().st_size // 4096
    with path.open("r+b") as file:
        for number in range(pages // 2, pages):
            file.seek(number * page)
            file.write(b"\xa5" * page)
    assert refusal(path, capsys).startswith(f"the journal {path} cannot be used: ")
