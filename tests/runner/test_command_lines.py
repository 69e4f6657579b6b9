"""The command lines, word for word: what is measured must be what the pages and the studies say."""

from pathlib import Path

import pytest

from runner.openssl import commands
from runner.openssl.commands import Command, Paths
from schemas import CATALOGUE

PATHS = Paths.within(Path("/k"))


def _line(command: Command) -> str:
    return " ".join(command)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("RSA-1024", ("genrsa -out /k/priv.pem 1024", "rsa -in /k/priv.pem -pubout -out /k/pub.pem")),
        (
            "ECDH-P-224",
            (
                "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-224 -out /k/priv.pem",
                "pkey -in /k/priv.pem -pubout -out /k/pub.pem",
            ),
        ),
        (
            "ML-KEM-768",
            ("genpkey -algorithm ML-KEM-768 -out /k/priv.pem", "pkey -in /k/priv.pem -pubout -out /k/pub.pem"),
        ),
    ],
)
def test_a_key_pair_is_made_by_the_first_study_s_two_commands(name: str, lines: tuple[str, str]) -> None:
    assert tuple(map(_line, commands.keygen_commands(CATALOGUE[name], PATHS))) == lines


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("RSA-3072", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072 -out /k/priv.pem"),
        ("ECDSA-secp160r1", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp160r1 -out /k/priv.pem"),
        ("Ed25519", "genpkey -algorithm Ed25519 -out /k/priv.pem"),
    ],
)
def test_a_private_key_is_made_by_genpkey_alone_as_in_the_second_study(name: str, line: str) -> None:
    assert _line(commands.private_key_command(CATALOGUE[name], PATHS)) == line


def test_secrets_are_agreed_on_by_these_commands() -> None:
    assert _line(commands.encaps_command(PATHS)) == (
        "pkeyutl -encap -pubin -inkey /k/pub.pem -out /k/ciphertext -secret /k/secret"
    )
    assert _line(commands.decaps_command(PATHS)) == (
        "pkeyutl -decap -inkey /k/priv.pem -in /k/ciphertext -secret /k/peer_secret"
    )
    assert _line(commands.derive_command(PATHS)) == (
        "pkeyutl -derive -inkey /k/priv.pem -peerkey /k/peer_pub.pem -out /k/secret"
    )
    assert _line(commands.derive_command(PATHS.of_the_peer())) == (
        "pkeyutl -derive -inkey /k/peer_priv.pem -peerkey /k/pub.pem -out /k/peer_secret"
    )
    assert PATHS.of_the_peer().of_the_peer() == PATHS


def test_rsa_encrypts_with_oaep_and_sha_256() -> None:
    oaep = "-pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256"
    assert _line(commands.encrypt_command(PATHS)) == (
        f"pkeyutl -encrypt -pubin -inkey /k/pub.pem -in /k/message -out /k/ciphertext {oaep}"
    )
    assert _line(commands.decrypt_command(PATHS)) == (
        f"pkeyutl -decrypt -inkey /k/priv.pem -in /k/ciphertext -out /k/secret {oaep}"
    )


def test_a_classical_signature_is_of_the_raw_message_and_the_published_one_was_not() -> None:
    published = "pkeyutl -sign -inkey /k/priv.pem -in /k/message -out /k/sig"
    assert _line(commands.sign_command(CATALOGUE["ECDSA-P-256"], PATHS)) == f"{published} -rawin"
    assert _line(commands.sign_command(CATALOGUE["ML-DSA-65"], PATHS)) == published
    assert _line(commands.published_command("sign", CATALOGUE["ECDSA-P-256"], PATHS)[0]) == published
    assert commands.published_command("keygen", CATALOGUE["X25519"], PATHS) == commands.keygen_commands(
        CATALOGUE["X25519"], PATHS
    )


@pytest.mark.parametrize("name", ["ECDSA-P-256", "ML-DSA-65"])
def test_a_verification_reads_the_same_input_as_the_signature(name: str) -> None:
    published = "pkeyutl -verify -pubin -inkey /k/pub.pem -in /k/message -sigfile /k/sig"
    assert _line(commands.published_command("verify", CATALOGUE[name], PATHS)[0]) == published
    raw = commands.raw_input(CATALOGUE[name])
    assert _line(commands.verify_command(CATALOGUE[name], PATHS)) == " ".join((published, *raw))


@pytest.mark.parametrize(
    ("name", "curve"),
    [("ECDSA-P-256", "prime256v1"), ("ECDH-P-521", "secp521r1"), ("ECDSA-secp160r1", "secp160r1"), ("X25519", None)],
)
def test_a_curve_is_looked_for_by_the_name_that_openssl_lists(name: str, curve: str | None) -> None:
    assert commands.curve(CATALOGUE[name]) == curve


def test_the_page_of_operations_shows_every_command_that_a_repetition_or_a_null_train_runs(repository: Path) -> None:
    page = (repository / "docs/operations.md").read_text("utf-8")
    kem, rsa = CATALOGUE["ML-KEM-768"], CATALOGUE["RSA-2048"]
    run: list[Command] = [
        *commands.keygen_commands(kem, PATHS),
        *commands.keygen_commands(rsa, PATHS),
        commands.encaps_command(PATHS),
        commands.decaps_command(PATHS),
        commands.derive_command(PATHS),
        *commands.published_command("sign", kem, PATHS),
        *commands.published_command("verify", kem, PATHS),
        commands.encrypt_command(PATHS),
        commands.decrypt_command(PATHS),
        *commands.null_commands(2, reads_key=True, reads_message=False, paths=PATHS),
        *commands.null_commands(1, reads_key=True, reads_message=True, paths=PATHS),
    ]
    for command in run:
        line = _line(command).replace("/k/", "").replace("ML-KEM-768", "NAME").replace("2048", "BITS")
        assert f"`{line}`" in page or f"`{line} " in page, line
