"""What `opjoule run` prints fits 80 columns, says loudly what failed, and names null loops in words."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from opjoule.figures import null_name
from opjoule.run.view import duration, failures, job_name, left_out_lines, short_time, timing_table
from runner.job import Job
from tests.opjoule.test_run_rows import ROW, TIMES


def _printed(*rows: object) -> str:
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(timing_table(rows))  # type: ignore[arg-type]
    return out.getvalue()


def test_the_longest_names_and_times_stand_on_one_line_of_80_columns() -> None:
    slow = TIMES.model_copy(update={"mean_s": 0.1234, "sd_s": 0.1234, "median_s": 0.1234, "p95_s": 0.1234})
    rows = [
        replace(ROW, operation="handshake", parameter_set=name, backend="lib", times=slow)
        for name in ("SecP384r1MLKEM1024", "SLH-DSA-SHAKE-256s")
    ]
    lines = _printed(*rows).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any("handshake  SecP384r1MLKEM1024  lib   100  123 ms" in " ".join(line.split(" ")) for line in lines)


def test_a_variant_is_shown_only_where_it_tells_two_rows_apart() -> None:
    assert "message_bytes" not in _printed(ROW)
    shown = _printed(ROW, replace(ROW, variant="message_bytes=32"))
    assert "message_bytes=19600" in shown and "message_bytes=32" in shown


def test_what_failed_says_of_how_many_and_why() -> None:
    some = replace(ROW, failed=3, first_error="pkeyutl: exit 1")
    none = replace(ROW, times=None, failed=100, first_error="sign: exit 1")
    assert failures([ROW, some, none]) == [
        "FAILED: sign ML-DSA-65 by cli: 3 of 103 repetitions: pkeyutl: exit 1",
        "FAILED: sign ML-DSA-65 by cli: 100 of 100 repetitions: sign: exit 1",
    ]
    assert "100 of 103" in _printed(some) and "0 of 100" in _printed(none)


def test_what_is_left_out_for_one_reason_is_one_line() -> None:
    found = [("keygen A", "lacks A"), ("sign A", "lacks A"), ("sign A", "lacks A"), ("sign B", "no")]
    assert left_out_lines(found) == ["left out: keygen A, sign A: lacks A", "left out: sign B: no"]


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("processes=1", "1 process"),
        ("processes=2,reads=key", "2 processes: key"),
        ("processes=1,reads=key+message,message_bytes=19600", "1 process: key+message"),
        ("processes=1,reads=key+message,message_bytes=32", "1 process: key+message 32 B"),
        ("calls=1", "calls=1"),
        ("connection", "connection"),
    ],
)
def test_a_null_loop_is_named_by_what_it_starts_and_reads(variant: str, name: str) -> None:
    assert null_name(variant) == name
    assert job_name(Job("null", backend="lib", null_variant=variant)) == f"null {name} by lib"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (12.34, "12.3 s"), (1.0, "1.00 s"), (0.1, "100 ms"), (0.0045, "4.50 ms"), (2.5e-5, "25.0 µs")],
)
def test_times_have_three_digits(seconds: float | None, text: str) -> None:
    assert short_time(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (3725, "1 h 02 min"), (90_000, "1 d 01 h")],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
