"""A study with everything that can be wrong: one clear line for each, and the other rows go on."""

import math
import struct
from collections.abc import Callable
from statistics import fmean

import pytest

from tests.opjoule.studies import (
    IDLE_W,
    RATE_HZ,
    SIGN_S,
    SIGN_W,
    VERIFY_S,
    VERIFY_W,
    Outcome,
    Study,
    cfn,
    published_line,
    run_study,
    sign_line,
    verify_line,
)

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def bad(
    tmp_path_factory: pytest.TempPathFactory, broker: None
) -> Callable[[pytest.CaptureFixture[str]], tuple[Study, Outcome]]:
    """One study with everything that can be wrong; it is run once."""
    study = Study(tmp_path_factory.mktemp("bad"))
    study.record("pi1/01_pi1_baseline.cfn", cfn(IDLE_W))
    study.record("pi1/pi1_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    study.record("pi1/pi1_signing_ml-dsa-65.cfn", cfn(SIGN_W)[:-5])
    study.record("pi1/pi1_signing_ml-dsa-87.cfn", b"")
    study.record("pi1/pi1_signing_rsa.cfn", b"GIF89a" + bytes(200))
    study.record("pi1/pi1_signing_ecdsa.cfn", cfn([math.nan] * 500))
    study.record("pi1/pi1_tls_rsa.cfn", cfn(SIGN_W))
    study.record("pi1/pi1_verifying_rsa.cfn", cfn([]))
    study.record("pi1/pi1_verifying_slh-dsa-sha2-128f.cfn", cfn([*SIGN_W, math.nan]))
    study.record("pi1/picture.cfn", b"GIF89a")
    study.record("pi2/pi2_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    study.record("pi3/pi3_baseline.csv", b"Time,Voltage\n0,5\n0.02,5\n")
    study.record("pi3/pi3_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    study.record("pi5/pi5_baseline.cfn", cfn(IDLE_W))
    study.record("pi5/pi5_keys_rsa.cfn", cfn([1.5]))
    study.lines = [
        *(sign_line("pi1", each) for each in ("ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "RSA-2048", "ECDSA P-256")),
        verify_line("pi1", "RSA-2048"),
        published_line("pi1", "verify", "SLH-DSA-SHA2-128f", SIGN_S, fmean(IDLE_W), fmean(SIGN_W)),
        verify_line("pi1", "ML-DSA-87"),
        *(sign_line(board) for board in ("pi2", "pi3", "ghost")),
        published_line("[/red]", "dancing", "RSA-2048", 1.0),
        published_line("pi5", "keygen", "RSA-2048", 1.0, 0.5, 1.5),
    ]
    ran: list[Outcome] = []

    def run(capsys: pytest.CaptureFixture[str]) -> tuple[Study, Outcome]:
        if not ran:
            ran.append(run_study(study, capsys))
        return study, ran[0]

    return run


Bad = Callable[[pytest.CaptureFixture[str]], tuple[Study, Outcome]]


def test_what_is_unreadable_has_a_verdict_and_one_line_and_the_others_go_on(
    bad: Bad, capsys: pytest.CaptureFixture[str]
) -> None:
    study, outcome = bad(capsys)
    assert outcome.status == 1
    assert "Traceback" not in outcome.err and "Traceback" not in outcome.out
    expected = {
        ("pi1", "sign", "ML-DSA-44"): "agrees",
        ("pi1", "sign", "ML-DSA-65"): "unreadable: pi1_signing_ml-dsa-65.cfn: truncated after 499 rows; copy the file",
        ("pi1", "sign", "ML-DSA-87"): "unreadable: pi1_signing_ml-dsa-87.cfn: ends at offset 0, inside the header",
        ("pi1", "sign", "RSA-2048"): "unreadable: pi1_signing_rsa.cfn: not a .cfn recording: ",
        ("pi1", "sign", "ECDSA-P-256"): "unreadable: pi1_signing_ecdsa.cfn: none of its 500 samples is a power",
        ("pi1", "verify", "RSA-2048"): "unreadable: pi1_verifying_rsa.cfn: not one whole row",
        ("pi1", "verify", "SLH-DSA-SHA2-128f"): "agrees",
        ("pi1", "verify", "ML-DSA-87"): "not recorded",
        ("pi1", "handshake", "RSA-2048"): "not published",
        ("pi2", "sign", "ML-DSA-44"): "not recorded",
        ("pi3", "sign", "ML-DSA-44"): "unreadable: pi3_baseline.csv: no column 'Power'",
        ("pi3", "idle", ""): "unreadable: pi3_baseline.csv: no column 'Power'",
        ("ghost", "sign", "ML-DSA-44"): "not recorded",
        ("[/red]", "", ""): "unreadable: line 13: unknown method 'dancing'",
        ("pi5", "keygen", "RSA-2048"): "unreadable: pi5_keys_rsa.cfn: ",
        ("", "", ""): "unreadable: picture.cfn: the file name does not tell",
    }
    assert len(outcome.rows) == len(expected)
    for subject, start in expected.items():
        assert outcome.row(*subject)["verdict"].startswith(start)
    for name in ("ml-dsa-65", "ml-dsa-87", "signing_rsa", "ecdsa", "verifying_rsa"):
        assert len(outcome.said(f"{study.recordings}/pi1/pi1_", f"{name}.cfn: ")) == 1
    assert len(outcome.said(f"{study.recordings}/pi1/picture.cfn: the file name does not tell")) == 1
    assert len(outcome.said(f"{study.recordings}/pi3/pi3_baseline.csv: no column 'Power'")) == 1
    assert len(outcome.said("pi5_keys_rsa.cfn: ")) == 1


def test_a_row_without_energy_shows_none(bad: Bad, capsys: pytest.CaptureFixture[str]) -> None:
    _, outcome = bad(capsys)
    without = [row for row in outcome.rows if row["verdict"] not in ("agrees",)]
    assert len(without) == len(outcome.rows) - 2
    assert all(row["net_j_per_op"] == row["u95_j_per_op"] == row["ratio"] == "" for row in without)


def test_what_is_missing_is_said_board_by_board_with_what_to_do(bad: Bad, capsys: pytest.CaptureFixture[str]) -> None:
    _, outcome = bad(capsys)
    assert outcome.said("ghost: ") == ["ghost: 1 published row and no recording; add its folder"]
    assert outcome.said("pi1: ") == ["pi1: 1 published row without a recording; add what is missing"]
    assert outcome.said("pi2: ") == [
        "pi2: no idle recording (like 01_pi2_baseline.cfn) for 1 published row; add it",
    ]
    assert outcome.said("pi3: ") == []


def test_a_line_of_the_table_that_cannot_be_used_is_named(bad: Bad, capsys: pytest.CaptureFixture[str]) -> None:
    study, outcome = bad(capsys)
    assert outcome.said("dancing") == [f"{study.table}: line 13: unknown method 'dancing'; correct it"]


def test_a_recording_that_is_used_with_a_reservation_says_so(bad: Bad, capsys: pytest.CaptureFixture[str]) -> None:
    study, outcome = bad(capsys)
    (line,) = outcome.said("sha2-128f.cfn")
    assert line.startswith(f"{study.recordings}/pi1/pi1_verifying_slh-dsa-sha2-128f.cfn: used, but ")
    assert "without 1 of 501 samples" in line


def test_a_corrupt_copy_blames_nobody(study: Study, broker: None, capsys: pytest.CaptureFixture[str]) -> None:
    spoilt = bytearray(cfn(SIGN_W))
    struct.pack_into("<d", spoilt, len(spoilt) - 8, 5.0)
    late = bytearray(cfn(VERIFY_W))
    struct.pack_into("<d", late, len(late) - 16, 500 / RATE_HZ)
    study.record("pi1/01_pi1_baseline.cfn", cfn(IDLE_W))
    study.record("pi1/02_pi1_signing_ml-dsa-44.cfn", bytes(spoilt))
    study.record("pi1/03_pi1_verifying_ml-dsa-44.cfn", cfn(VERIFY_W) + b"rest")
    study.record("pi1/04_pi1_verifying_ml-dsa-65.cfn", bytes(late))
    study.record("pi2/01_pi2_baseline.cfn", cfn(IDLE_W)[:-8] + struct.pack("<d", 5.0))
    study.record("pi2/02_pi2_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    wrong = published_line("pi1", "verify", "ML-DSA-65", VERIFY_S, fmean(IDLE_W), 2.5)
    study.lines = [sign_line("pi1"), verify_line("pi1"), wrong, sign_line("pi2")]
    outcome = run_study(study, capsys)
    said = "stored minimum or maximum differs from the data; copy the file again"
    sign, verify = outcome.row("pi1", "sign", "ML-DSA-44"), outcome.row("pi1", "verify", "ML-DSA-44")
    assert sign["verdict"] == f"unreadable: 02_pi1_signing_ml-dsa-44.cfn: {said}" and sign["ratio"] == ""
    assert sign["remarks"] == f"02_pi1_signing_ml-dsa-44.cfn: {said}"
    assert (verify["verdict"], verify["remarks"]) == (
        "agrees",
        "03_pi1_verifying_ml-dsa-44.cfn: extra bytes after the data; copy the file again",
    )
    nominal = outcome.row("pi1", "verify", "ML-DSA-65")
    assert nominal["verdict"].startswith("published load power differs")
    assert nominal["remarks"] == "04_pi1_verifying_ml-dsa-65.cfn: times that are not row / rate"
    assert outcome.row("pi2", "sign", "ML-DSA-44")["verdict"] == f"unreadable: 01_pi2_baseline.cfn: {said}"
    assert outcome.status == 1
    assert len(outcome.said("02_pi1_signing_ml-dsa-44.cfn", said)) == len(outcome.said("01_pi2_baseline.cfn")) == 1
    assert "remarks" in outcome.out and all(line == line.rstrip() for line in outcome.out.splitlines())


def test_without_remarks_the_table_has_no_column_for_them(
    study: Study, broker: None, capsys: pytest.CaptureFixture[str]
) -> None:
    study.record("pi1/01_pi1_baseline.cfn", cfn(IDLE_W))
    study.record("pi1/02_pi1_signing_ml-dsa-44.cfn", cfn(SIGN_W))
    study.lines = [sign_line("pi1")]
    outcome = run_study(study, capsys)
    assert outcome.row("pi1", "sign", "ML-DSA-44")["verdict"] == "agrees"
    assert outcome.row("pi1", "sign", "ML-DSA-44")["remarks"] == ""
    assert "remarks" not in outcome.out
