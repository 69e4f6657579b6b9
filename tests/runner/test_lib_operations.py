"""The operations of libcrypto in process, in a Python that runs on the libraries of a real OpenSSL."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from errors import SettingsError
from runner.job import Job
from runner.openssl import OpenSsl
from runner.openssl.lib import load, offer_error, size_cell
from runner.openssl.lib.repetitions import Call, Written, writing, writing_two
from runner.operations import OPERATIONS, prepare_work
from runner.operations.lib.case import Case
from runner.operations.lib.prepare import prepare_in_process
from schemas import CATALOGUE
from tests.openssl_programs import libraries_of, run_python_on
from tests.runner.conftest import MakeBench
from tests.runner.lib_child import FLAT, FUNCTIONS

CHILD = str(Path(__file__).with_name("lib_child.py"))
FLAT_BYTES = 128 * 1024
"""Less than 8 bytes in each of 20,000 repetitions."""
REOPENED_BYTES = 512 * 1024
Ask = Callable[[OpenSsl, str], Any]


@pytest.fixture(scope="module")
def ask() -> Ask:
    """The answer of a function in lib_child.py."""
    return lambda openssl, what: json.loads(run_python_on(openssl, CHILD, str(libraries_of(openssl).crypto), what))


@pytest.fixture(scope="module")
def every(ask: Ask, openssl35: OpenSsl) -> Any:
    """All operations of all parameter sets that do not take long."""
    return ask(openssl35, "every")


@pytest.mark.openssl35
def test_openssl_3_5_does_every_operation_and_each_passes_its_check(every: Any) -> None:
    refused = {name: answer for name, answer in every.items() if isinstance(answer, str)}
    assert set(refused) <= {"keygen ECDSA-secp160r1", "sign ECDSA-secp160r1", "verify ECDSA-secp160r1",
                            "keygen ECDH-secp160r1", "derive ECDH-secp160r1"}, refused  # fmt: skip
    assert {name: each["errors"] for name, each in every.items() if name not in refused} == {
        name: [None, None] for name in every if name not in refused
    }
    assert {each["null"] for name, each in every.items() if name not in refused} == {"calls=1"}


@pytest.mark.openssl35
def test_what_is_written_has_the_sizes_of_the_standards(every: Any) -> None:
    for name in ("ML-KEM-768", "ML-DSA-65", "SLH-DSA-SHA2-128f", "RSA-2048", "ECDH-P-384", "Ed448", "X448"):
        each = CATALOGUE[name]
        keys = every[f"keygen {name}"]
        assert (keys["private_key"], keys["public_key"]) == (each.private_key_bytes, each.public_key_bytes)
    assert (every["encaps ML-KEM-768"]["ciphertext"], every["decaps ML-KEM-768"]["shared_secret"]) == (1088, 32)
    assert every["sign SLH-DSA-SHA2-128f"]["signature"] == 17088
    assert every["sign ECDSA-P-521"]["signature"] <= 139
    assert every["encrypt RSA-2048"]["ciphertext"] == 256


@pytest.mark.openssl35
def test_a_variant_says_the_message_and_the_hash_that_is_chosen_for_it(every: Any) -> None:
    assert every["sign ML-DSA-44"]["variant"] == every["verify Ed25519"]["variant"] == "message_bytes=100"
    assert every["sign RSA-2048"]["variant"] == every["verify ECDSA-P-256"]["variant"]
    assert every["sign RSA-2048"]["variant"] == "message_bytes=100,digest=SHA256"
    assert every["encrypt RSA-1024"]["variant"] == "oaep-sha256,message_bytes=32"
    assert every["keygen X25519"]["variant"] == ""


def test_the_systems_openssl_does_the_classical_operations_and_says_what_it_lacks(
    ask: Ask, system_openssl: OpenSsl
) -> None:
    found = ask(system_openssl, "every")
    for name in ("sign RSA-2048", "verify ECDSA-P-256", "derive X25519", "sign Ed25519", "decrypt RSA-2048"):
        assert found[name]["errors"] == [None, None]
    if not system_openssl.has_pqc:
        assert found["sign ML-DSA-44"] == f"libcrypto {system_openssl.version} lacks ML-DSA-44"


@pytest.mark.not_emulated
@pytest.mark.openssl35
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not tell memory exactly")
def test_memory_stays_flat_over_20_000_repetitions_and_over_preparing_and_closing(ask: Ask, openssl35: OpenSsl) -> None:
    found = ask(openssl35, "flat")
    assert set(found) >= {f"{operation} {name}" for operation, name in FLAT}
    assert {name: error for name, (error, _) in found.items() if error is not None} == {}
    grown = {name: growth for name, (_, growth) in found.items()}
    assert {name for name, growth in grown.items() if growth > FLAT_BYTES and "reopened" not in name} == set(), grown
    assert {name for name, growth in grown.items() if growth > REOPENED_BYTES} == set(), grown


@pytest.mark.openssl35
def test_a_function_that_returns_success_and_does_nothing_is_found_out_by_the_check(
    ask: Ask, openssl35: OpenSsl
) -> None:
    found = ask(openssl35, "idle")
    assert {operation: honest for operation, (honest, _) in found.items()} == dict.fromkeys(FUNCTIONS)
    assert {operation for operation, (_, caught) in found.items() if caught is None} == set()
    assert found["decaps"][1] == "the decapsulated secret is not the encapsulated one"
    assert found["verify"][1] == "a signature with a flipped bit verifies too"


@pytest.mark.openssl35
def test_a_function_that_writes_something_else_and_returns_success_is_found_out_by_the_check(
    ask: Ask, openssl35: OpenSsl
) -> None:
    flipped = "a ciphertext with a flipped bit "
    assert ask(openssl35, "forged") == {
        "encaps twice": "two encapsulations give the same secret",
        "encaps flipped": f"{flipped}gives the same secret",
        "decaps flipped": f"{flipped}gives the same secret",
        "derive": "the two sides derive different secrets",
        "derive anyhow": "another key of the peer gives the same secret",
        "encrypt": "what is decrypted is not what was encrypted",
        "decrypt": "what is decrypted is not what was encrypted",
        "encrypt flipped": f"{flipped}decrypts too",
        "decrypt flipped": f"{flipped}decrypts too",
    }


@pytest.mark.parametrize("sizes", [(11, 7), (10, 6), (9, 7)])
def test_an_output_of_the_wrong_size_is_a_failed_repetition_whichever_of_two_it_is(
    system_openssl: OpenSsl, sizes: tuple[int, int]
) -> None:
    crypto, cells = load(libraries_of(system_openssl).crypto), (size_cell(), size_cell())

    def write(*_: object) -> int:
        cells[0].value, cells[1].value = sizes
        return 1

    outputs = (Written("ciphertext", cells[0], 10, 10, 10), Written("secret", cells[1], 7, 7, 7))
    wrong = f"ciphertext of {sizes[0]} bytes" if sizes[0] != 10 else f"secret of {sizes[1]} bytes"
    assert writing_two(crypto, Call("encaps", write, ()), *outputs)().error == wrong
    if sizes[0] != 10:
        assert writing(crypto, Call("encaps", write, ()), outputs[0])().error == wrong


def test_the_names_of_a_provider_work_without_being_known_and_what_it_cannot_do_is_said(
    openssl35: OpenSsl, provider: Path
) -> None:
    environment = f"import os, runpy, sys; os.environ['OPENSSL_CONF'] = {str(provider)!r}; "
    start = environment + "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    words = (CHILD, str(libraries_of(openssl35).crypto), "provider")
    found = json.loads(run_python_on(openssl35, "-c", start, *words))
    assert found.pop("keygen opj-broken")[1].startswith("keygen opj-broken: i2d_PrivateKey: ")
    assert {name: outcome[:4] for name, outcome in found.items()} == {name: [None, None, None, True] for name in found}
    assert found["sign opj-sig"][4] == {"signature": 64}
    assert found["encaps opj-kem"][4] == {"ciphertext": 768, "shared_secret": 32}


def test_a_wrong_size_and_an_operation_that_the_set_has_not_are_one_clear_line(system_openssl: OpenSsl) -> None:
    crypto = load(libraries_of(system_openssl).crypto)
    wrong = replace(CATALOGUE["Ed25519"], signature_bytes=65)
    with pytest.raises(SettingsError, match=r"^Ed25519 in libcrypto: signature of 64 bytes$"):
        prepare_in_process(crypto, Case(Job("sign", "Ed25519", "lib"), wrong, 1, b"message"))
    unknown = replace(CATALOGUE["Ed25519"], name="Ed1")
    with pytest.raises(SettingsError, match=rf"^libcrypto {crypto.version}: keygen Ed1: unsupported"):
        prepare_in_process(crypto, Case(Job("keygen", "Ed1", "lib"), unknown, 1))
    assert offer_error(crypto, "encaps", CATALOGUE["Ed25519"]) == "Ed25519 has no encaps"
    assert offer_error(crypto, "sign", unknown) == f"libcrypto {crypto.version} lacks Ed1"


def test_a_function_that_an_older_libcrypto_lacks_is_named(system_openssl: OpenSsl) -> None:
    crypto = load(libraries_of(system_openssl).crypto)
    with pytest.raises(SettingsError, match=rf"libcrypto {crypto.version} lacks EVP_NO_SUCH: a newer one is needed"):
        crypto["EVP_NO_SUCH"]
    with pytest.raises(SettingsError, match="libcrypto cannot be loaded into this process"):
        load(Path(os.devnull))


def test_a_repetition_that_fails_says_what_and_why_and_the_next_one_is_not_blamed(system_openssl: OpenSsl) -> None:
    crypto = load(libraries_of(system_openssl).crypto)
    work = prepare_in_process(crypto, Case(Job("sign", "ECDSA-P-256", "lib"), CATALOGUE["ECDSA-P-256"], 1, b"message"))
    assert work.begin is not None
    crypto["EVP_PKEY_CTX_new_from_name"](None, b"no such algorithm", None)
    assert work.begin(1.0)().error is None
    work.close()
    assert "unsupported" in crypto.error()
    assert crypto.error() == "libcrypto gives no reason"


def test_each_backend_has_its_operations_and_none_else(make_bench: MakeBench, system_openssl: OpenSsl) -> None:
    assert set(OPERATIONS["lib"]) - set(OPERATIONS["cli"]) == {"handshake"}
    with pytest.raises(SettingsError, match="the backend none has no sign"):
        prepare_work(make_bench(system_openssl, job=Job("sign", "Ed25519", "none")))
    with pytest.raises(SettingsError, match="the lib backend has no null train processes=1: it has calls=1"):
        prepare_work(make_bench(system_openssl, job=Job("null", backend="lib", null_variant="processes=1")))
