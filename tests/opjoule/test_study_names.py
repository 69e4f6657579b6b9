"""What a study's file names and tables mean, however they are written."""

from pathlib import PurePath

import pytest

from opjoule.study.names import Subject, board_of, parameter_set_of, subject_of
from schemas import CATALOGUE
from schemas.base import RESERVED_DUTS


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pi1/01_pi1_baseline.cfn", Subject("pi1", None, "")),
        ("pi1/pi1_baseline.csv", Subject("pi1", None, "")),
        ("pi1/idle.cfn", Subject("pi1", None, "")),
        ("pi1/02_pi1_keys_rsa.cfn", Subject("pi1", "keygen", "RSA-2048")),
        ("pi3/pi3_key_rsa.csv", Subject("pi3", "keygen", "RSA-2048")),
        ("x/03_pi1_keys_ecdsa.cfn", Subject("pi1", "keygen", "ECDSA-P-256")),
        ("x/04_pi1_keys_x25519.cfn", Subject("pi1", "keygen", "X25519")),
        ("x/05_pi1_keys_ecdh.cfn", Subject("pi1", "keygen", "ECDH-P-256")),
        ("x/06_pi1_keys_ml-kem-512.cfn", Subject("pi1", "keygen", "ML-KEM-512")),
        ("x/pi1_keys_ml_kem_512.cfn", Subject("pi1", "keygen", "ML-KEM-512")),
        ("x/22_pi1_signing_ecdsa.cfn", Subject("pi1", "sign", "ECDSA-P-256")),
        ("x/pi1_sign_mldsa44.cfn", Subject("pi1", "sign", "ML-DSA-44")),
        ("x/48_pi1_verifying_slh-dsa-shake-256s.cfn", Subject("pi1", "verify", "SLH-DSA-SHAKE-256s")),
        ("x/pizero2_verification_ml-dsa-87.cfn", Subject("pizero2", "verify", "ML-DSA-87")),
        ("x/49_pi1_tls_rsa.cfn", Subject("pi1", "handshake", "RSA-2048")),
        ("x/09_pi2v1.2_keys_ml-dsa-44.cfn", Subject("pi2v12", "keygen", "ML-DSA-44")),
        ("x/09_pi2_v1.2_keys_ml-dsa-44.cfn", Subject("pi2v12", "keygen", "ML-DSA-44")),
        ("pi4/09_keys_ml-dsa-44.cfn", Subject("pi4", "keygen", "ML-DSA-44")),
        ("pi4/cfn_files/keys_rsa.cfn", Subject("pi4", "keygen", "RSA-2048")),
        ("Pi 4/csv_files/Verification_RSA.CSV", Subject("pi4", "verify", "RSA-2048")),
        ("study/pi4/CFN/baseline.cfn", Subject("pi4", None, "")),
    ],
)
def test_every_form_of_file_name_is_understood(path: str, expected: Subject) -> None:
    assert subject_of(PurePath(path)) == expected


@pytest.mark.parametrize(
    "path",
    [
        "pi1/notes.cfn",
        "pi1/02_pi1_keys.cfn",
        "pi1/02_pi1_keys_frodo-640.cfn",
        "pi1/02_pi1_keys_rsa_again.cfn",
        "pi1/01_pi1_baseline_2.cfn",
        "pi1/02_pi1_rsa.cfn",
        "pi1/02.cfn",
        "csv_files/keys_rsa.csv",
        "keys_rsa.cfn",
        "pi1/.cfn",
    ],
)
def test_a_name_that_does_not_tell_all_three_tells_nothing(path: str) -> None:
    assert subject_of(PurePath(path)) is None


@pytest.mark.parametrize("name", ["pi2v1.2", "Pi2 v1.2", "pi2_v1.2", "pi2-v1-2", " PI2V1.2 "])
def test_a_board_is_the_same_however_its_name_is_written(name: str) -> None:
    assert board_of(name) == "pi2v12"


def test_different_boards_stay_different() -> None:
    names = ["pi1", "pi2", "pi2v1.2", "pi3", "Pi 4", "pizero", "pizero2", "Thinkpad-AMD", "Thinkpad-Intel"]
    assert len({board_of(name) for name in names}) == len(names)


@pytest.mark.parametrize("name", sorted(RESERVED_DUTS))
def test_a_board_with_a_reserved_name_can_still_be_a_dut(name: str) -> None:
    assert board_of(name) == f"board{name}"


def test_a_name_without_letters_and_digits_is_no_board() -> None:
    assert board_of("") == board_of(" -/ ") == ""


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_parameter_set_is_known_by_its_name_in_any_spelling(name: str) -> None:
    spellings = (name, name.casefold(), name.replace("-", "_"), name.replace("-", " "), name.replace("-", ""))
    assert {parameter_set_of(each) for each in spellings} == {name}


def test_an_unknown_parameter_set_is_none() -> None:
    assert parameter_set_of("Kyber512") is parameter_set_of("") is None
