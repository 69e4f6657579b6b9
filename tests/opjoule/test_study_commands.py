"""What `--try-commands` says of commands that fail, that work, and that cannot be tried."""

import shutil
from pathlib import Path

import pytest

from errors import SettingsError
from opjoule.study import commands
from opjoule.study.commands import try_commands
from opjoule.study.names import Subject
from runner.openssl import CommandOutcome, OpenSsl
from runner.openssl.locate import Found
from schemas import Operation
from tests.opjoule.studies import Study, run_study


def subject(operation: Operation, parameter_set: str, board: str = "pi4") -> Subject:
    return Subject(board, operation, parameter_set)


@pytest.fixture
def openssl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenSsl:
    """An OpenSSL that is the only one to be found."""
    found = OpenSsl((str(tmp_path / "openssl"),), "3.0.0", "made up", {})
    monkeypatch.setattr(commands, "obtain_openssl", lambda named: Found(found, "too old"))
    return found


def answer(monkeypatch: pytest.MonkeyPatch, *outcomes: CommandOutcome | SettingsError) -> list[tuple[str, str]]:
    """The commands answer so, in their order; what was asked."""
    left, asked = list(outcomes), []

    def tried(openssl: OpenSsl, operation: str, parameter_set: str) -> CommandOutcome:
        asked.append((operation, parameter_set))
        outcome = left.pop(0)
        if isinstance(outcome, SettingsError):
            raise outcome
        return outcome

    monkeypatch.setattr(commands, "try_published_command", tried)
    return asked


@pytest.mark.usefixtures("openssl")
def test_each_command_is_tried_once_whatever_the_boards_and_what_became_of_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = answer(
        monkeypatch,
        CommandOutcome(0, 1704, ""),
        CommandOutcome(1, 0, "bad input"),
        SettingsError("this OpenSSL lacks ML-DSA-44"),
    )
    subjects = [
        subject("verify", "ML-DSA-44"),
        subject("sign", "RSA-2048"),
        subject("keygen", "RSA-2048"),
        subject("sign", "RSA-2048", "pi1"),
        subject("handshake", "RSA-2048"),
        Subject("pi4", None, ""),
    ]
    steps: list[tuple[int, int]] = []
    said = try_commands(subjects, lambda done, total: steps.append((done, total)))
    assert said == {
        ("keygen", "RSA-2048"): "",
        ("sign", "RSA-2048"): "the published command fails: exit 1, 0 bytes",
        ("verify", "ML-DSA-44"): "not tried: this OpenSSL lacks ML-DSA-44",
    }
    assert asked == list(said)
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_without_any_openssl_every_command_says_why_it_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(named: str | None) -> Found:
        raise SettingsError("no openssl program on PATH")

    monkeypatch.setattr(commands, "obtain_openssl", nothing)
    said = try_commands([subject("sign", "RSA-2048"), subject("verify", "ML-DSA-44")], lambda done, total: None)
    assert set(said.values()) == {"not tried: no openssl program on PATH"}
    assert len(said) == 2


def test_an_openssl_that_lacks_an_algorithm_changes_no_exit_status(
    study: Study, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl program on PATH")
    fake = study.folder / "openssl"
    fake.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = list ]; then printf "  IDs: { 1.2.840.113549.1.1.1, rsaEncryption, RSA } @ default\\n"; exit; fi\n'
        f'exec {program} "$@"\n'
    )
    fake.chmod(0o755)
    old = OpenSsl((str(fake),), "3.0.0", "made up", {"LC_ALL": "C"})
    monkeypatch.setattr(commands, "obtain_openssl", lambda named: Found(old, "too old"))
    study.record("pi4/baseline.csv", b"Time,Power\n0,0.5\n0.02,0.5\n")
    study.lines = [
        "Laptop,signatures,signing,ML-DSA-44,100,,,,0.001,,,,,",
        "Laptop,signatures,signing,RSA-2048,100,,,,0.001,,,,,",
        "Laptop,key generation,,RSA-2048,100,,,,0.001,,,,,",
    ]
    outcome = run_study(study, capsys, "--try-commands")
    assert outcome.status == 0
    assert [row["published_command"] for row in outcome.rows] == [
        "not tried: this OpenSSL lacks ML-DSA-44",
        "the published command fails: exit 1, 0 bytes",
        "",
    ]
    assert "not tried: this OpenSSL lacks ML-DSA-44" in outcome.out
