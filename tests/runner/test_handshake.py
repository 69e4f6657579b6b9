"""Full TLS 1.3 handshakes, in a Python that runs on the libraries of a real OpenSSL 3.5."""

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.openssl import OpenSsl
from runner.openssl.program import run
from runner.openssl.tls_names import why_no_certificate
from schemas import CATALOGUE
from tests.openssl_programs import libraries_of, run_python_on

pytestmark = pytest.mark.openssl35

CHILD = str(Path(__file__).with_name("handshake_child.py"))
FLAT_BYTES = 1 << 20
MASKS = {"x86_64": "OPENSSL_ia32cap=0", "aarch64": "OPENSSL_armcap=0", "armv7l": "OPENSSL_armcap=0"}
PROVIDER_CONFIGURATION = """\
openssl_conf = init
[init]
providers = providers
[providers]
default = own
opj = added
[own]
activate = 1
[added]
module = {module}
activate = 1
"""
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(openssl35: OpenSsl) -> Ask:
    """The answer of a function in handshake_child.py."""
    return lambda *words: json.loads(run_python_on(openssl35, CHILD, "", *words))


@pytest.fixture(scope="module")
def pairs(ask: Ask) -> Any:
    """One handshake of each group and of each certificate."""
    return ask("pairs")


def test_every_group_and_every_certificate_of_the_catalogue_shakes_hands_and_passes_the_check(pairs: Any) -> None:
    groups = {name for name, each in CATALOGUE.items() if "handshake" in each.operations}
    certificates = {
        name for name, each in CATALOGUE.items() if "sign" in each.operations and not why_no_certificate(name)
    }
    done = [pair.split("+") for pair, found in pairs.items() if found["error"] is None and found["check"] is None]
    assert ({group for group, _ in done}, {name for _, name in done}) == (groups, certificates)
    assert len(done) == len(pairs)


def test_the_event_learns_sizes_segments_and_cpu_time_of_both_ends(pairs: Any) -> None:
    found = pairs["X25519+ML-DSA-65"]
    handshake = found["handshake"]
    assert (found["variant"], found["null_variant"]) == ("certificate=ML-DSA-65", "connection")
    assert (handshake["group"], handshake["certificate"]) == ("X25519", "ML-DSA-65")
    assert found["output_bytes"]["server_bytes"] == handshake["server_bytes"]
    each = CATALOGUE["ML-DSA-65"]
    carried_bytes = found["output_bytes"]["certificate"] + (each.signature_bytes or 0)
    assert carried_bytes < handshake["server_bytes"] < carried_bytes + 500
    assert handshake["client_cpu_s"] > 0
    assert handshake["server_cpu_s"] > 0


def test_a_hybrid_group_costs_its_share_by_direction(pairs: Any) -> None:
    plain, hybrid = (pairs[f"{group}+ECDSA-P-256"]["handshake"] for group in ("X25519", "X25519MLKEM768"))
    kem = CATALOGUE["ML-KEM-768"]
    assert hybrid["client_bytes"] - plain["client_bytes"] == pytest.approx(kem.public_key_bytes, abs=8)
    assert hybrid["server_bytes"] - plain["server_bytes"] == pytest.approx(kem.ciphertext_bytes, abs=8)


def test_segments_are_at_least_what_the_bytes_need_and_more_where_they_are_short(pairs: Any) -> None:
    for pair, found in pairs.items():
        handshake = found["handshake"]
        for mss, count in handshake["segments"].items():
            least = sum(-(-handshake[f"{end}_bytes"] // int(mss)) for end in ("client", "server"))
            assert least <= count <= least + 4, (pair, mss)
        assert handshake["segments"]["536"] > handshake["segments"]["1460"], pair


def test_a_group_that_a_provider_adds_shakes_hands_without_a_line_of_code(
    openssl35: OpenSsl, tmp_path: Path, repository: Path
) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    module, source = tmp_path / "opj.so", repository / "tests/runner/provider/opj.c"
    linked = str(libraries_of(openssl35).crypto)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(module), str(source), linked], check=True)
    configuration = tmp_path / "openssl.cnf"
    configuration.write_text(PROVIDER_CONFIGURATION.format(module=module))
    openssl = replace(openssl35, environment={**openssl35.environment, "OPENSSL_CONF": str(configuration)})
    found = json.loads(run_python_on(openssl, CHILD, "", "added", "opj-group"))
    kem = CATALOGUE["ML-KEM-512"]
    assert kem.public_key_bytes < found.pop("client_bytes") < kem.public_key_bytes + 400
    assert found == {"error": None, "check": None, "size_unknown": True, "offered": True}


@pytest.mark.skipif(platform.machine() not in MASKS, reason="no mask is known for this processor")
def test_a_capability_mask_and_the_memory_of_a_handshake_are_a_matter_of_another_process(ask: Ask) -> None:
    mask = MASKS[platform.machine()]
    found = ask("apart", mask)
    here, masked = found["here"], found["masked"]
    assert here["variant"] == "certificate=ECDSA-P-256"
    assert masked["variant"] == f"certificate=ECDSA-P-256,{mask.removeprefix('OPENSSL_')}"
    assert (here["verified"], masked["failed"], masked["check"]) == (None, 0, None)
    assert masked["verified"] > 1
    for each in (here, masked):
        assert each["cpu_time_s"] > each["client_cpu_s"] / 2 > 0
        peak_bytes = each["peak_memory_bytes"]  # None where the kernel shows nothing
        assert peak_bytes is None or 4096 <= peak_bytes < 50 << 20


def test_nothing_is_resumed_and_no_ticket_is_sent(ask: Ask) -> None:
    assert ask("freshness") == {"reused": [0, 0, 0, 0], "later_bytes": [0, 0], "tickets": [0, 0]}


def test_a_handshake_that_is_not_what_was_asked_for_fails_with_its_reason(ask: Ask) -> None:
    assert ask("failures") == {
        "good": None,
        "another authority": "client: certificate verify failed: self-signed certificate",
        "another name": "client: certificate verify failed: hostname mismatch",
        "another group": "server: no suitable key share",
        "careless client": "the server is not verified: self-signed certificate",
        "group": "the group is x25519, not X448",
        "scheme": "the server signed with ed25519, not ed448",
        "repetition": "client: certificate verify failed: self-signed certificate",
    }


@pytest.mark.not_emulated
def test_memory_is_flat_over_thousands_of_handshakes_and_no_port_is_used_up(ask: Ask) -> None:
    found = ask("growth")
    assert found["resident"][1] - found["resident"][0] < FLAT_BYTES
    assert (found["waiting"], found["descriptors_left"]) == (0, 0)


def test_the_library_says_what_it_offers(ask: Ask) -> None:
    found = ask("offer")
    assert set(found["groups"]) == {name for name, each in CATALOGUE.items() if "handshake" in each.operations}
    assert "ffdhe2048" in found["other_groups"]
    assert found["no_group"] == [None, None, "libssl has no group kyber9", None]


@pytest.mark.parametrize(
    ("group", "certificate", "tls_names"),
    [
        ("X25519MLKEM768", "ML-DSA-65", ("X25519MLKEM768", "mldsa65")),
        ("ECDH-P-256", "RSA-2048", ("secp256r1", "rsa_pss_rsae_sha256")),
    ],
)
def test_the_bytes_are_those_that_the_openssl_program_counts(
    ask: Ask, openssl35: OpenSsl, tmp_path: Path, group: str, certificate: str, tls_names: tuple[str, str]
) -> None:
    ours = ask("sizes", group, certificate, str(tmp_path))
    pem, key = str(tmp_path / "certificate.pem"), str(tmp_path / "certificate-key.pem")
    pinned = ("-tls1_3", "-groups", tls_names[0], "-sigalgs", tls_names[1])
    serve = ("s_server", *pinned, "-accept", "127.0.0.1:0", "-naccept", "1", "-num_tickets", "0")
    with subprocess.Popen(
        (*openssl35.argv_prefix, *serve, "-cert", pem, "-key", key),
        env=dict(openssl35.environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            accepting = next(line for line in server.stdout if line.startswith("ACCEPT"))
            trust = (
                "-CAfile",
                pem,
                "-verify_return_error",
                "-verify_hostname",
                "localhost",
                "-servername",
                "localhost",
            )
            client = ("s_client", *pinned, *trust, "-connect", accepting.split()[1])
            said = run(openssl35.argv_prefix, client, openssl35.environment).stdout
        finally:
            server.kill()
    counted = re.search(r"SSL handshake has read (\d+) bytes and written (\d+) bytes", said)
    assert counted, said
    assert ours == {"server": int(counted[1]), "client": int(counted[2])}
