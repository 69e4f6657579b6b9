"""Finding the OpenSSL, and what it can do."""

import time
from pathlib import Path

import pytest

from errors import SettingsError
from runner.openssl import OpenSsl, find_openssl, obtain_openssl, offered_parameter_sets, program
from runner.openssl.debian13 import fetch
from runner.openssl.listing import listed_names, parse_listing
from runner.openssl.program import version_number
from schemas import CATALOGUE


def _program(folder: Path, text: str) -> str:
    path = folder / "openssl"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_named_program_is_taken_and_its_shortfall_said(tmp_path: Path) -> None:
    found = find_openssl(_program(tmp_path, "echo OpenSSL 3.0.17 1 Jul 2025"))
    assert found.openssl.number == (3, 0, 17)
    assert found.shortfall is not None
    assert "3.5 or newer" in found.shortfall
    assert "OPJOULE_OPENSSL" in found.shortfall


def test_it_is_said_how_a_program_was_named(tmp_path: Path) -> None:
    program = _program(tmp_path, "echo OpenSSL 3.5.0 8 Apr 2025")
    assert find_openssl(program).openssl.origin == "named by --openssl (OPJOULE_OPENSSL)"
    assert obtain_openssl(program, by="--openssl").openssl.origin == "named by --openssl"
    with pytest.raises(SettingsError, match="--openssl names 'no-such', which"):
        obtain_openssl("no-such", by="--openssl")


def test_openssl_4_has_all_that_3_5_has(tmp_path: Path) -> None:
    assert find_openssl(_program(tmp_path, "echo OpenSSL 4.0.0-beta1 1 Mar 2026")).shortfall is None
    assert version_number("3.10.1") > version_number("3.5.9")


@pytest.mark.parametrize("text", ["echo LibreSSL 3.8.2", "exit 1", "echo OpenSSL 3.5.0; exit 3"])
def test_a_named_program_that_is_no_openssl_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="is not an OpenSSL program") as caught:
        find_openssl(_program(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_named_program_that_is_missing_is_refused() -> None:
    with pytest.raises(SettingsError, match="names '/no/such/openssl', which is no program"):
        find_openssl("/no/such/openssl")


def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "VERSION_LIMIT_S", 0.5)
    with pytest.raises(SettingsError, match="timed out"):
        find_openssl(_program(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; wait"))
    status = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/status")
    deadline_s = time.monotonic() + 10.0
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < deadline_s, "what it started still runs"


def test_a_version_without_end_is_cut(tmp_path: Path) -> None:
    assert len(find_openssl(_program(tmp_path, f"echo OpenSSL 3.5.0{'x' * 300}")).openssl.version) == 64


def test_without_any_openssl_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match=r"no openssl program on PATH; install it .* apt install openssl"):
        find_openssl(None, tmp_path / "cache")


def test_an_older_one_on_path_is_the_last_resort_and_a_broken_cache_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache" / "trixie-amd64" / "usr" / "bin").mkdir(parents=True)
    _program(tmp_path, "echo OpenSSL 3.0.17 1 Jul 2025")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_openssl(None, tmp_path / "cache")
    assert found.openssl.version == "3.0.17"
    assert found.shortfall is not None


def test_where_nothing_can_be_fetched_the_older_one_stays_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path, "echo OpenSSL 3.0.17 1 Jul 2025")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = obtain_openssl(None, tmp_path / "cache")
    assert found.openssl.version == "3.0.17"
    assert found.shortfall is not None
    assert "no apt-get here" in found.shortfall
    assert "make openssl" in found.shortfall


def _debian(root: Path, sources: str) -> None:
    (root / "etc" / "apt").mkdir(parents=True)
    (root / "etc" / "os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    (root / "etc" / "apt" / "sources.list").write_text(sources)


@pytest.mark.skipif(not Path("/usr/bin/apt-get").exists(), reason="not a Debian-like machine")
def test_an_archive_that_cannot_be_reached_fails_at_once_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    _debian(tmp_path, f"deb [trusted=yes] file://{tmp_path}/no-archive bookworm main\n")
    with pytest.raises(SettingsError, match="trixie: apt-get failed: E: ") as caught:
        fetch(tmp_path / "cache", tmp_path)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.skipif(not Path("/usr/bin/apt-get").exists(), reason="not a Debian-like machine")
def test_a_machine_without_its_distribution_s_archive_says_so(tmp_path: Path) -> None:
    _debian(tmp_path, "deb http://vendor.invalid/apt vendor main\n")
    with pytest.raises(SettingsError, match="none of this machine's apt sources"):
        fetch(tmp_path / "cache", tmp_path)


def test_key_managers_are_read_with_all_their_names() -> None:
    listing = (
        "  Name: OpenSSL ML-DSA-65 implementation\n    Type: Provider Algorithm\n"
        "    IDs: { 2.16.840.1.101.3.4.3.18, id-ml-dsa-65, ML-DSA-65, MLDSA65 } @ default\n"
        "    IDs: TLS1-PRF @ default\n"
    )
    assert {"ML-DSA-65", "MLDSA65", "TLS1-PRF"} < listed_names(parse_listing(listing))


def test_the_system_s_openssl_offers_the_classical_sets(system_openssl: OpenSsl) -> None:
    classical = {name for name, each in CATALOGUE.items() if not each.post_quantum}
    assert classical <= set(offered_parameter_sets(system_openssl))


@pytest.mark.openssl35
def test_openssl_3_5_offers_the_whole_catalogue(openssl35: OpenSsl) -> None:
    assert offered_parameter_sets(openssl35) == tuple(CATALOGUE)


def test_an_openssl_that_lists_nothing_is_too_old(tmp_path: Path) -> None:
    openssl = find_openssl(_program(tmp_path, '[ "$1" = version ] && echo OpenSSL 1.1.1w 11 Sep 2023')).openssl
    with pytest.raises(SettingsError, match=r"3\.0 or newer is needed"):
        offered_parameter_sets(openssl)
