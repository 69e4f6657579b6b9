"""Encapsulation, key agreement and encryption: what both sides must agree on is compared, and lies are found out."""

from collections.abc import Callable

import pytest

from runner.job import Job
from runner.openssl import OpenSsl
from runner.operations import Bench, Work, prepare_work
from schemas import Operation

MakeBench = Callable[..., Bench]
Wrap = Callable[[OpenSsl, str, str], OpenSsl]
LIMIT_S = 60.0


def _prepared(make_bench: MakeBench, openssl: OpenSsl, operation: Operation, parameter_set: str) -> Work:
    return prepare_work(make_bench(openssl, job=Job(operation, parameter_set)))


def _repetition_error(work: Work) -> str | None:
    assert work.begin is not None
    return work.begin(LIMIT_S)().error


@pytest.mark.openssl35
@pytest.mark.parametrize(("name", "ciphertext"), [("ML-KEM-512", 768), ("ML-KEM-768", 1088), ("ML-KEM-1024", 1568)])
def test_encapsulation_writes_a_ciphertext_and_a_secret_of_the_standard_s_sizes(
    make_bench: MakeBench, openssl35: OpenSsl, name: str, ciphertext: int
) -> None:
    work = _prepared(make_bench, openssl35, "encaps", name)
    assert _repetition_error(work) is None
    assert work.check() is None
    assert work.output_bytes == {"ciphertext": ciphertext, "shared_secret": 32}
    assert (work.variant, work.null_variant, work.processes) == ("", "processes=1,reads=key", 1)


@pytest.mark.openssl35
@pytest.mark.parametrize("name", ["ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"])
def test_decapsulation_gives_the_secret_that_was_encapsulated(
    make_bench: MakeBench, openssl35: OpenSsl, name: str
) -> None:
    work = _prepared(make_bench, openssl35, "decaps", name)
    assert _repetition_error(work) is None
    assert work.check() is None
    assert work.output_bytes == {"shared_secret": 32}


@pytest.mark.parametrize(
    ("name", "size"), [("ECDH-P-224", 28), ("ECDH-P-256", 32), ("ECDH-P-521", 66), ("X25519", 32), ("X448", 56)]
)
def test_both_sides_of_a_key_agreement_derive_the_same_secret(
    make_bench: MakeBench, system_openssl: OpenSsl, name: str, size: int
) -> None:
    work = _prepared(make_bench, system_openssl, "derive", name)
    assert _repetition_error(work) is None
    assert work.check() is None
    assert work.output_bytes == {"shared_secret": size}
    assert (work.variant, work.null_variant) == ("", "processes=1,reads=key")


@pytest.mark.parametrize("operation", ["encrypt", "decrypt"])
@pytest.mark.parametrize("name", ["RSA-1024", "RSA-2048"])
def test_what_was_encrypted_decrypts_to_the_plaintext(
    make_bench: MakeBench, system_openssl: OpenSsl, operation: Operation, name: str
) -> None:
    work = _prepared(make_bench, system_openssl, operation, name)
    assert _repetition_error(work) is None
    assert work.check() is None
    assert work.variant == "oaep-sha256,message_bytes=32"


LIES: dict[str, tuple[tuple[Operation, str, str], str, str]] = {
    "a secret of its own": (
        ("decaps", "ML-KEM-512", "pkeyutl -decap"),
        'if [ $count -gt 0 ]; then head -c 32 /dev/zero > "$last"; exit 0; fi',
        "the decapsulated secret is not the encapsulated one",
    ),
    "a secret looked up at the other side": (
        ("decaps", "ML-KEM-512", "pkeyutl -decap"),
        'if [ $count -gt 0 ]; then cp "$folder/secret" "$last"; exit 0; fi',
        "a ciphertext with a flipped bit gives the same secret",
    ),
    "an encapsulation used twice": (
        ("encaps", "ML-KEM-512", "pkeyutl -encap"),
        'if [ $count = 0 ]; then real "$@"; cp "$last" "$folder/kept"; cp "$folder/ciphertext" "$folder/kept_too"\n'
        'else cp "$folder/kept" "$last"; cp "$folder/kept_too" "$folder/ciphertext"; fi; exit 0',
        "two encapsulations give the same secret",
    ),
    "a derivation that draws lots": (
        ("derive", "X25519", "pkeyutl -derive"),
        'head -c 32 /dev/urandom > "$last"; exit 0',
        "the two sides derive different secrets",
    ),
    "a derivation that ignores the peer": (
        ("derive", "X25519", "pkeyutl -derive"),
        'head -c 32 /dev/zero > "$last"; exit 0',
        "another key of the peer gives the same secret",
    ),
    "a decryption to something else": (
        ("decrypt", "RSA-1024", "pkeyutl -decrypt"),
        'head -c 32 /dev/zero > "$8"; exit 0',
        "what was decrypted is not the plaintext",
    ),
    "a decryption that knew the plaintext": (
        ("decrypt", "RSA-1024", "pkeyutl -decrypt"),
        'cp "$(dirname "$8")/message" "$8"; exit 0',
        "a ciphertext with a flipped bit decrypts too",
    ),
}


@pytest.mark.openssl35
@pytest.mark.parametrize("lie", LIES)
def test_an_output_of_the_right_size_and_wrong_content_is_found_out_after_the_train(
    make_bench: MakeBench, openssl35: OpenSsl, wrap: Wrap, lie: str
) -> None:
    (operation, name, command), lines, found = LIES[lie]
    work = _prepared(make_bench, wrap(openssl35, command, lines), operation, name)
    assert _repetition_error(work) is None
    assert work.check() == found


@pytest.mark.openssl35
@pytest.mark.parametrize(
    ("operation", "name", "command", "file", "kind"),
    [
        ("encaps", "ML-KEM-512", "pkeyutl -encap", '"$last"', "shared secret"),
        ("encaps", "ML-KEM-512", "pkeyutl -encap", '"$folder/ciphertext"', "ciphertext"),
        ("decaps", "ML-KEM-512", "pkeyutl -decap", '"$last"', "shared secret"),
        ("derive", "X448", "pkeyutl -derive", '"$last"', "shared secret"),
        ("encrypt", "RSA-1024", "pkeyutl -encrypt", '"$9"', "ciphertext"),
        ("decrypt", "RSA-1024", "pkeyutl -decrypt", '"$8"', "plaintext"),
    ],
)
def test_an_output_of_the_wrong_size_is_a_failed_repetition(
    make_bench: MakeBench, openssl35: OpenSsl, wrap: Wrap, operation: Operation, name: str, command: str, file: str,
    kind: str,
) -> None:  # fmt: skip
    fake = wrap(openssl35, command, f'if [ $count -gt 0 ]; then real "$@"; printf 123 > {file}; exit 0; fi')
    work = _prepared(make_bench, fake, operation, name)
    assert _repetition_error(work) == f"{kind} of 3 bytes"


@pytest.mark.openssl35
def test_an_output_of_an_earlier_repetition_is_not_taken_for_a_new_one(
    make_bench: MakeBench, openssl35: OpenSsl, wrap: Wrap
) -> None:
    work = _prepared(make_bench, wrap(openssl35, "pkeyutl -encap", "[ $count = 0 ] || exit 0"), "encaps", "ML-KEM-768")
    assert _repetition_error(work) == "ciphertext of 0 bytes"
