"""Names that only a provider knows, of which opjoule has never heard: measured and verified like the others."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from errors import SettingsError
from runner.job import Job
from runner.openssl import OpenSsl, offered
from runner.operations import Bench, Work, prepare_work
from schemas import Operation

MakeBench = Callable[..., Bench]
Wrap = Callable[[OpenSsl, str, str], OpenSsl]
LIMIT_S = 60.0


def _with(openssl: OpenSsl, configuration: Path) -> OpenSsl:
    return replace(openssl, environment={**openssl.environment, "OPENSSL_CONF": str(configuration)})


def _work(make_bench: MakeBench, openssl: OpenSsl, operation: Operation, name: str) -> Work:
    offer = offered(openssl)
    assert offer.can("cli", operation, name) is None
    bench = make_bench(openssl, job=Job(operation, name), each=offer.parameter_sets[name])
    return prepare_work(bench)


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("keygen", "opj-sig"),
        ("sign", "opj-sig"),
        ("verify", "opj-sig"),
        ("keygen", "opj-exchange"),
        ("derive", "opj-exchange"),
    ],
)
@pytest.mark.parametrize("program", ["system_openssl", "openssl35"])
def test_what_a_provider_adds_is_measured_and_verified_without_a_line_of_code(
    make_bench: MakeBench, request: pytest.FixtureRequest, provider: Path, program: str, operation: Operation, name: str
) -> None:
    openssl = _with(request.getfixturevalue(program), provider)
    work = _work(make_bench, openssl, operation, name)
    assert work.begin is not None
    assert work.begin(LIMIT_S)().error is None
    assert work.check() is None
    assert work.size_unknown
    assert 0 not in work.output_bytes.values()


@pytest.mark.openssl35
@pytest.mark.parametrize("operation", ["keygen", "encaps", "decaps"])
def test_a_kem_that_a_provider_adds_is_measured_and_verified(
    make_bench: MakeBench, openssl35: OpenSsl, provider: Path, operation: Operation
) -> None:
    work = _work(make_bench, _with(openssl35, provider), operation, "opj-kem")
    assert work.begin is not None
    assert work.begin(LIMIT_S)().error is None
    assert work.check() is None
    assert work.size_unknown


@pytest.mark.openssl35
def test_a_tls_group_that_a_provider_adds_is_offered_for_handshakes(openssl35: OpenSsl, provider: Path) -> None:
    offer = offered(_with(openssl35, provider))
    assert offer.parameter_sets["opj-group"].operations == ("handshake",)
    assert offer.with_backend("lib", {}).can("lib", "handshake", "opj-group") is None


def test_what_a_provider_lists_and_cannot_do_is_said_in_its_own_words_when_it_is_tried(
    make_bench: MakeBench, system_openssl: OpenSsl, provider: Path
) -> None:
    with pytest.raises(SettingsError, match=r"^sign: keygen opj-broken with OpenSSL .*: genpkey: exit 1: ") as caught:
        _work(make_bench, _with(system_openssl, provider), "sign", "opj-broken")
    assert "\n" not in str(caught.value)


def test_a_signature_of_a_provider_that_does_not_verify_is_found_out(
    make_bench: MakeBench, system_openssl: OpenSsl, provider: Path, wrap: Wrap
) -> None:
    lie = 'if [ -e "$(dirname "$8")/lie" ]; then head -c 64 /dev/zero > "$8"; exit 0; fi'
    work = _work(make_bench, wrap(_with(system_openssl, provider), "pkeyutl -sign", lie), "sign", "opj-sig")
    assert work.check() is None
    Path(work.commands[0][7]).with_name("lie").touch()
    assert (work.check() or "").startswith("the signature does not verify: ")


@pytest.mark.openssl35
@pytest.mark.processes
@pytest.mark.parametrize(
    "item",
    [
        "encaps:opj-kem",
        "lib/encaps:opj-kem",
        "lib/sign:opj-sig",
        "lib/derive:opj-exchange",
        "handshake:opj-group+ECDSA-P-256",
    ],
)
def test_a_person_runs_a_provider_s_algorithm_by_its_name_by_either_backend(
    built35: OpenSsl, provider: Path, tmp_path: Path, item: str
) -> None:
    answer = subprocess.run(
        (sys.executable, "-m", "opjoule", "run", item, "--repetitions", "5"),
        env={**os.environ, "OPENSSL_CONF": str(provider), "OPJOULE_OPENSSL": built35.program},
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    name = item.partition(":")[2].partition("+")[0]
    assert any(name in line and line.split()[3:4] == ["5"] for line in answer.stdout.splitlines()), answer.stdout
