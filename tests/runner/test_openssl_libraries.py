"""Which libraries an OpenSSL program runs on, and what is said where they are not its own or not there."""

from pathlib import Path

import pytest

from runner.openssl import OpenSsl, find_openssl
from runner.openssl.libraries import Libraries, find_libraries, listed_libraries
from runner.openssl.program import own_environment, probe
from tests.openssl_programs import libraries_of


def _script(folder: Path, text: str) -> OpenSsl:
    path = folder / "openssl"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return find_openssl(str(path)).openssl


def _one_line(said: Libraries | str) -> str:
    assert isinstance(said, str)
    assert "\n" not in said
    return said


def test_the_libraries_are_those_that_the_loader_finds_for_the_program(system_openssl: OpenSsl) -> None:
    libraries = libraries_of(system_openssl)
    assert libraries.crypto.is_file()
    assert libraries.ssl.is_file()
    assert libraries.crypto.name.startswith("libcrypto.")
    assert libraries.ssl.name.startswith("libssl.")


@pytest.mark.openssl35
def test_a_build_runs_on_the_libraries_beside_it_whatever_ld_library_path_says(
    built35: OpenSsl, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries_of(system_openssl).folder))
    again = probe(built35.argv_prefix, "again", {})
    assert isinstance(again, OpenSsl)
    assert libraries_of(again).folder.resolve() == Path(built35.program).parent.parent.resolve() / "lib"
    assert again.mismatch is None


@pytest.mark.openssl35
def test_unpacked_packages_run_on_the_libraries_among_them(unpacked35: OpenSsl) -> None:
    assert libraries_of(unpacked35).folder == Path(unpacked35.argv_prefix[0]).parent


@pytest.mark.openssl35
def test_a_program_on_the_library_of_another_version_goes_on_without_the_lib_backend(
    built35: OpenSsl, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system_openssl.has_pqc:
        pytest.skip("the system's own is as new")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries_of(built35).folder))
    openssl = find_openssl(system_openssl.program).openssl
    line = _one_line(find_libraries(openssl))
    assert line.startswith(
        f"{openssl.program} is OpenSSL {openssl.version} and runs on the libcrypto of {built35.version}: "
    )
    assert line.endswith("install both from one release, or unset LD_LIBRARY_PATH")


def test_a_new_program_on_an_old_library_lacks_the_post_quantum_sets_and_the_mismatch_is_why(tmp_path: Path) -> None:
    _script(tmp_path, "echo 'OpenSSL 3.5.0 8 Apr 2025 (Library: OpenSSL 3.0.17 1 Jul 2025)'")
    found = find_openssl(str(tmp_path / "openssl"))
    assert found.openssl.version == "3.5.0"
    assert found.openssl.library_version == "3.0.17"
    assert not found.openssl.has_pqc
    assert found.shortfall == f"no ML-KEM, ML-DSA and SLH-DSA: {found.openssl.mismatch}"
    assert find_libraries(found.openssl) == found.openssl.mismatch


def test_a_script_in_place_of_the_program_shows_no_libraries(tmp_path: Path, system_openssl: OpenSsl) -> None:
    line = _one_line(find_libraries(_script(tmp_path, f'exec {system_openssl.program} "$@"')))
    assert "or is a script that starts another program" in line
    assert "OPJOULE_OPENSSL" in line


def test_a_program_that_has_gone_is_one_line(tmp_path: Path) -> None:
    openssl = _script(tmp_path, "echo OpenSSL 3.5.0 8 Apr 2025")
    Path(openssl.program).unlink()
    assert "cannot be listed" in _one_line(find_libraries(openssl))


def test_libraries_are_read_as_macos_lists_them() -> None:
    listing = (
        "dyld[81]: <5A0F8C2E-0000-3333-9D6E-61F0A1C0E5D2> /opt/homebrew/Cellar/openssl@3/3.5.2/lib/libssl.3.dylib\n"
        "dyld[81]: <6B1F8C2E-0000-3333-9D6E-61F0A1C0E5D2> /opt/homebrew/Cellar/openssl@3/3.5.2/lib/libcrypto.3.dylib"
    )
    folder = Path("/opt/homebrew/Cellar/openssl@3/3.5.2/lib")
    assert listed_libraries(listing) == Libraries(folder / "libcrypto.3.dylib", folder / "libssl.3.dylib")
    assert listed_libraries(listing.partition("\n")[0]) is None


def test_the_environment_of_a_process_that_was_started_again_is_known_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/chosen:/mine")
    monkeypatch.setenv("OPENSSL_CONF", "/chosen/openssl.cnf")
    monkeypatch.setenv("OPJOULE_STARTED_AGAIN", '{"LD_LIBRARY_PATH": "/mine", "OPENSSL_CONF": null}')
    environment = own_environment()
    assert environment["LD_LIBRARY_PATH"] == "/mine"
    assert not {"OPENSSL_CONF", "OPJOULE_STARTED_AGAIN"} & set(environment)
