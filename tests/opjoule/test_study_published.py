"""The published table is read as people save it, and what cannot be used is named with its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import ContractError
from opjoule.study.names import Subject
from opjoule.study.published import BadRow, PublishedRow, parse_published, read_published
from tests.opjoule.studies import HEADER

ROW = "pizero,key generation,,ECDSA P-256,100,1775827972,1775827986,14.56,0.1456,0.56378,0.9013,0.3375,0.04914,20.4"
LAPTOP = "MacBookAir,signatures,verification,RSA-2048,1000,1775905000,1775905010,5,0.005,,,,,"


def parse(*lines: str, header: str = HEADER) -> list[PublishedRow | BadRow]:
    return list(parse_published("\n".join([header, *lines]), "published.csv"))


def only(line: str) -> PublishedRow | BadRow:
    (row,) = parse(line)
    return row


def with_cell(column: str, text: str) -> str:
    cells = ROW.split(",")
    cells[HEADER.split(",").index(column)] = text
    return ",".join(cells)


def test_a_row_with_power_is_read_with_the_powers_as_typed() -> None:
    assert only(ROW) == PublishedRow(
        line=2,
        machine="pizero",
        subject=Subject("pizero", "keygen", "ECDSA-P-256"),
        iterations=100,
        s_per_op=0.1456,
        start_s=1775827972.0,
        idle_w=0.56378,
        load_w=0.9013,
        j_per_op=0.04914,
        idle_text="0.56378",
        load_text="0.9013",
    )


def test_a_laptop_has_times_only() -> None:
    row = only(LAPTOP)
    assert isinstance(row, PublishedRow)
    assert row.subject == Subject("macbookair", "verify", "RSA-2048")
    assert (row.idle_w, row.load_w, row.j_per_op, row.has_power) == (None, None, None, False)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_byte_order_mark_line_ends_and_blank_lines_make_no_difference(tmp_path: Path, start: str, end: str) -> None:
    file = tmp_path / "published.csv"
    file.write_bytes((start + end.join([HEADER, "," * 13, ROW, "", " , ,", LAPTOP, ""])).encode())
    rows = read_published(file)
    assert [(row.line, row.machine) for row in rows] == [(3, "pizero"), (6, "MacBookAir")]
    assert all(isinstance(row, PublishedRow) for row in rows)


def test_columns_are_found_by_name_in_any_order_and_case() -> None:
    (row,) = parse(
        "0.5,ML-DSA-44,extra,pi4,signing,10,signatures",
        header="Time Per Iteration, ALGORITHM ,comment,Machine,Submethod,Iterations,Method",
    )
    assert isinstance(row, PublishedRow)
    assert (row.subject, row.s_per_op, row.has_power) == (Subject("pi4", "sign", "ML-DSA-44"), 0.5, False)


@pytest.mark.parametrize(
    "column", ["machine", "method", "algorithm", "iterations", "time per iteration", "baseline power", "on-load power"]
)
def test_a_missing_column_is_named(column: str) -> None:
    header = HEADER.replace(column, "something else", 1)
    with pytest.raises(ContractError, match=rf"^published\.csv: the column '{column}' is missing \(its first line is "):
        parse(ROW, header=header)


def test_a_table_with_powers_needs_energies() -> None:
    with pytest.raises(ContractError, match="the column 'joules per iteration' is missing"):
        parse(ROW, header=HEADER.replace("joules per iteration", "J per iteration"))


@pytest.mark.parametrize("text", ["", "\n\n", "\x00"])
def test_what_is_no_table_lacks_its_first_column(text: str) -> None:
    with pytest.raises(ContractError, match=r"^published\.csv: .*the column 'machine' is missing"):
        list(parse_published(text, "published.csv"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (with_cell("algorithm", "Kyber512"), "unknown algorithm 'Kyber512'"),
        (with_cell("method", "hashing"), "unknown method 'hashing'"),
        (with_cell("submethod", "guessing"), "unknown method 'guessing'"),
        (with_cell("machine", "?"), "machine '?' names no board"),
        (with_cell("iterations", ""), "no iterations"),
        (with_cell("iterations", "-3"), "iterations is '-3'"),
        (with_cell("iterations", "1e300"), "iterations is '1e300'"),
        (with_cell("time per iteration", "fast"), "time per iteration is 'fast', not a number"),
        (with_cell("time per iteration", "0"), "time per iteration is '0'"),
        (with_cell("time per iteration", ""), "no time per iteration"),
        (with_cell("baseline power", "0.5 W"), "baseline power is '0.5 W', not a number"),
        (with_cell("on-load power", "nan"), "on-load power is 'nan', not a number"),
        (with_cell("joules per iteration", "inf"), "joules per iteration is 'inf', not a number"),
        (with_cell("joules per iteration", ""), "no joules per iteration beside its powers"),
    ],
)
def test_a_row_that_cannot_be_used_says_why_and_the_next_one_is_read(line: str, reason: str) -> None:
    bad, good = parse(line, LAPTOP)
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.reason) == (2, reason)
    assert isinstance(good, PublishedRow) and good.line == 3


def test_a_row_that_ends_early_lacks_what_follows() -> None:
    row = only("pi4,key generation,,RSA-2048,100")
    assert isinstance(row, BadRow) and row.reason == "no time per iteration"


def test_a_cell_too_large_for_a_table_is_one_line() -> None:
    with pytest.raises(ContractError, match=r"^published\.csv: line \d+: field larger than field limit"):
        parse("x" * 200_000)


def test_a_file_that_is_not_there_or_no_text_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"missing\.csv: No such file or directory$"):
        read_published(tmp_path / "missing.csv")
    with pytest.raises(ContractError, match=r"Is a directory$"):
        read_published(tmp_path)
    (tmp_path / "book.xlsx").write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(ContractError, match=r"not a UTF-8 text file$"):
        read_published(tmp_path / "book.xlsx")


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_any_text_gives_rows_or_one_reason(text: str) -> None:
    for body in (text, f"{HEADER}\n{text}", f"{HEADER}\n{with_cell('iterations', text)}"):
        try:
            rows = list(parse_published(body, "x"))
        except ContractError as error:
            assert str(error).startswith("x: ") and "\n" not in str(error)
        else:
            assert all(isinstance(row, (PublishedRow, BadRow)) for row in rows)
