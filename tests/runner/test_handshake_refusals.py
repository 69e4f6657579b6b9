"""Handshakes that are not done, and the reason that is given; and what an older OpenSSL can do."""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from errors import SettingsError
from runner.expansion import expand
from runner.job import Job
from runner.openssl import OpenSsl
from runner.openssl.process import serves
from runner.openssl.tls import TlsLibrary
from runner.openssl.tls.binding import TlsError
from runner.openssl.tls.handshake import Handshaker
from runner.openssl.tls.loopback import Loopback
from runner.openssl.tls_names import why_no_group
from runner.operations.handshake import prepare_handshake
from runner.plan import WholeCatalogue, campaign_of
from schemas import CATALOGUE
from tests.openssl_programs import libraries_of, run_python_on
from tests.runner.conftest import MakeBench

CHILD = str(Path(__file__).with_name("handshake_child.py"))


def test_an_older_openssl_shakes_hands_with_what_it_has(system_openssl: OpenSsl) -> None:
    if system_openssl.has_pqc:
        pytest.skip("the system's OpenSSL is not older than 3.5")
    found = json.loads(run_python_on(system_openssl, CHILD, system_openssl.program, "pairs"))
    assert {"X25519+ECDSA-P-256", "ECDH-P-384+ECDSA-P-256", "X25519+RSA-2048", "X25519+Ed448"} <= set(found)
    assert [pair for pair, each in found.items() if each["error"] or each["check"] or "ML-" in pair] == []


@pytest.mark.openssl35
def test_a_session_that_was_resumed_is_no_handshake() -> None:
    nothing: Callable[..., int] = lambda *_: 0  # noqa: E731
    answers: dict[str, Callable[..., int]] = defaultdict(lambda: nothing, SSL_session_reused=lambda _: 1)
    with pytest.raises(TlsError, match=r"^a session was resumed$"):
        Handshaker(SimpleNamespace(library=answers), cast(Loopback, None)).hold(1)  # type: ignore[arg-type]
    answers["SSL_session_reused"] = nothing
    Handshaker(SimpleNamespace(library=answers), cast(Loopback, None)).hold(1)  # type: ignore[arg-type]


def test_a_python_on_another_libssl_says_so(openssl35: OpenSsl) -> None:
    libraries = libraries_of(openssl35)
    if serves(libraries):
        pytest.skip("this Python runs on the OpenSSL that is measured")
    with pytest.raises(SettingsError, match=f"need a Python that runs on {re.escape(str(libraries.ssl))}"):
        TlsLibrary(libraries)


@pytest.mark.parametrize(
    ("group", "certificate", "reason"),
    [
        ("X25519", "", "a handshake needs a certificate"),
        ("X25519", "SLH-DSA-SHA2-128s", "SLH-DSA is not a TLS 1.3 signature scheme"),
        ("X25519", "RSA-1024", "RSA-1024 is too short"),
        ("X25519", "ML-KEM-768", "ML-KEM-768 does not sign"),
        ("ECDH-secp160r1", "Ed25519", "ECDH-secp160r1 is not a key exchange group"),
    ],
)
def test_a_pair_that_tls_does_not_have_is_refused_with_the_reason(
    make_bench: MakeBench, system_openssl: OpenSsl, group: str, certificate: str, reason: str
) -> None:
    job = Job("handshake", group, "lib", certificate=certificate)
    bench = replace(make_bench(system_openssl, group), job=job)
    with pytest.raises(SettingsError, match=reason):
        prepare_handshake(bench)


def test_a_plan_leaves_out_a_certificate_that_tls_does_not_have_and_says_why() -> None:
    plan = expand(campaign_of("handshake:X25519+SLH-DSA-SHA2-128s,handshake:X25519+ML-DSA-65"), WholeCatalogue())
    assert [job.certificate for job in plan.operations] == ["ML-DSA-65"]
    assert [each.reason for each in plan.skipped] == ["SLH-DSA is not a TLS 1.3 signature scheme in OpenSSL"]


def test_every_group_that_the_catalogue_lets_shake_hands_has_a_name_in_tls() -> None:
    able = [name for name, each in CATALOGUE.items() if "handshake" in each.operations]
    assert able
    assert [why_no_group(name) for name in able] == [None] * len(able)
