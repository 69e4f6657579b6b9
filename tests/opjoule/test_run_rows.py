"""The CSV of `opjoule run` has the study's columns first, and whoever reads published tables reads it."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from aggregator.clocks import Timeline
from aggregator.result import MeterView, of_train
from opjoule.run.rows import COLUMNS, STUDY_COLUMNS, Row, text_of
from opjoule.study.names import parameter_set_of
from opjoule.study.published import BadRow, PublishedRow, parse_published
from runner.campaign_file import MeasuredOperation
from schemas import CATALOGUE, TimeStatistics
from tests.aggregator.trains import SECOND, T0, event, segments, steps, trace

TIMES = TimeStatistics(count=100, mean_s=0.0125, sd_s=0.001, median_s=0.012, p95_s=0.015)
ROW = Row(
    machine="pi4",
    operation="sign",
    parameter_set="ML-DSA-65",
    variant="message_bytes=19600",
    backend="cli",
    start_ns=T0 + 400_000_000,
    stop_ns=T0 + 1_650_000_000,
    times=TIMES,
    failed=0,
    first_error="",
    openssl="3.5.9",
    null_variant="processes=1,reads=key+message,message_bytes=19600",
)


def _read(*rows: Row) -> list[PublishedRow | BadRow]:
    return list(parse_published(text_of(rows), "run.csv"))


def _cells(row: Row) -> dict[str, str]:
    return next(csv.DictReader(io.StringIO(text_of([row]))))


def test_the_columns_of_the_study_come_first(recordings: Path) -> None:
    published = (recordings / "published_results.csv").read_text("utf-8-sig").splitlines()[0].split(",")
    assert tuple(published) == STUDY_COLUMNS == COLUMNS[: len(STUDY_COLUMNS)]


@pytest.mark.parametrize("operation", get_args(MeasuredOperation))
@pytest.mark.parametrize("parameter_set", ["ML-DSA-65", "ECDSA-P-256", "ECDH-secp160r1", "X25519MLKEM768"])
def test_every_operation_and_set_is_read_as_what_it_is(operation: MeasuredOperation, parameter_set: str) -> None:
    (read,) = _read(replace(ROW, operation=operation, parameter_set=parameter_set))
    assert isinstance(read, PublishedRow)
    assert (read.machine, read.subject.operation, read.subject.parameter_set) == ("pi4", operation, parameter_set)
    assert (read.iterations, read.s_per_op, read.start_s) == (100, 0.0125, float(T0 // 10**9))


def test_names_are_those_of_the_study() -> None:
    assert _cells(replace(ROW, parameter_set="ECDSA-P-256"))["algorithm"] == "ECDSA P-256"
    cells = _cells(replace(ROW, operation="keygen"))
    assert (cells["method"], cells["submethod"]) == ("key generation", "")
    assert all(parameter_set_of(name) == name for name in CATALOGUE)


def test_without_a_meter_the_columns_of_power_are_empty() -> None:
    cells = _cells(ROW)
    assert [cells[name] for name in STUDY_COLUMNS[9:]] == [""] * 5
    assert (cells["total time"], cells["verified"], cells["sd_s"], cells["openssl"]) == (
        "1.25",
        "yes",
        "0.001",
        "3.5.9",
    )


def test_what_failed_has_no_time_and_no_reader_takes_it_for_a_figure() -> None:
    failed = replace(ROW, times=None, failed=100, first_error='pkeyutl: exit 1: "too long", it said')
    (read,) = _read(failed)
    assert isinstance(read, BadRow) and read.reason == "iterations is '0'"
    cells = _cells(failed)
    assert (cells["iterations"], cells["failed"], cells["verified"]) == ("0", "100", "no")
    assert cells["first_error"] == failed.first_error


def test_a_row_with_some_failures_is_not_called_verified() -> None:
    assert _cells(replace(ROW, failed=1))["verified"] == "no"


def test_null_and_sham_have_no_row_but_the_time_of_null_stands_beside_its_operation() -> None:
    null = replace(
        ROW,
        operation="null",
        parameter_set="none",
        variant=ROW.null_variant,
        null_variant="",
        times=TIMES.model_copy(update={"mean_s": 0.004}),
    )
    sham = replace(null, operation="sham", times=None)
    other = replace(ROW, backend="lib")
    elsewhere = replace(ROW, machine="pi3")
    rows = list(csv.DictReader(io.StringIO(text_of([sham, null, ROW, other, elsewhere]))))
    assert [row["null_s"] for row in rows] == ["0.004", "", ""]


def test_a_result_fills_the_columns_of_power_as_the_study_had_them() -> None:
    parts = segments(5, load_s=1.0, idle_s=1.0)
    timeline = Timeline("shared", None)
    view = MeterView("m1", "FNB58", "simulated", timeline, trace(steps(parts, 2.0, 3.0), 11))
    result = of_train(event(parts), view, 1, "opjoule 0")
    assert result.net_j_per_op is not None
    row = replace(ROW, operation="keygen", parameter_set="ML-KEM-768", result=result)
    cells = _cells(row)
    assert float(cells["total power used"]) == pytest.approx(1.0, abs=0.02)
    assert float(cells["joules per iteration"]) * float(cells["iterations per joule"]) == pytest.approx(1.0)
    assert (float(cells["u95_j"]), cells["simulated"], cells["meter"]) == (result.net_j_per_op.u95, "yes", "m1")
    (read,) = _read(row)
    assert isinstance(read, PublishedRow)
    assert (read.idle_w, read.load_w) == pytest.approx(
        (2.0, 3.0), abs=0.02
    ) and read.j_per_op == result.net_j_per_op.value


def test_an_invalid_result_says_so_and_has_no_power() -> None:
    timeline = Timeline("shared", None)
    parts = segments(5, load_s=1.0, idle_s=1.0)
    elsewhere = trace(steps(parts, 2.0, 3.0), 11, start_ns=T0 + 100 * SECOND)
    result = of_train(event(parts), MeterView("m1", "FNB58", "simulated", timeline, elsewhere), 1, "opjoule 0")
    cells = _cells(replace(ROW, result=result))
    assert cells["quality"] == "invalid" and "gap" in cells["flags"]
    assert [cells[name] for name in STUDY_COLUMNS[9:]] == [""] * 5
