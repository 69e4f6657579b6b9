"""Python started again on the libraries of the chosen OpenSSL."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.openssl import OpenSsl
from runner.openssl.libraries import Libraries, find_libraries
from runner.openssl.process import ensure_process, find_launch, serves
from tests.openssl_programs import launch_on, libraries_of, run_python_on

LIMIT_S = 60.0
VERSIONS = """
import ctypes, ssl, sys
crypto = ctypes.CDLL(sys.argv[1])
crypto.OpenSSL_version.restype = ctypes.c_char_p
print(ssl.OPENSSL_VERSION)
print(crypto.OpenSSL_version(0).decode())
"""
STARTED_AGAIN = """
import json, os, ssl, sys
from runner.openssl import find_openssl
from runner.openssl.process import ensure_process
before = os.getpid()
openssl = find_openssl(None).openssl
said = ensure_process(openssl)
print(json.dumps({"said": said, "pid": before, "argv": sys.argv[1:], "executable": sys.executable, "prefix": sys.prefix,
    "ssl": ssl.OPENSSL_VERSION, "program": openssl.program, "environment": dict(openssl.environment)}))
"""
Chosen = Callable[[str], OpenSsl]


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> Chosen:
    """The OpenSSL of a fixture that is named."""

    def get(name: str) -> OpenSsl:
        openssl = request.getfixturevalue(name)
        assert isinstance(openssl, OpenSsl)
        return openssl

    return get


@pytest.mark.openssl35
@pytest.mark.parametrize("name", ["openssl35", "built35", "unpacked35"])
def test_one_libcrypto_serves_ssl_and_ctypes(chosen: Chosen, name: str) -> None:
    openssl = chosen(name)
    of_ssl, of_ctypes = run_python_on(openssl, "-c", VERSIONS, str(libraries_of(openssl).crypto)).splitlines()
    assert of_ssl == of_ctypes
    assert of_ssl.split()[1] == openssl.version


@pytest.mark.openssl35
@pytest.mark.parametrize("name", ["built35", "unpacked35"])
def test_the_virtual_environment_is_found_again(chosen: Chosen, name: str) -> None:
    said = run_python_on(chosen(name), "-c", "import sys, pydantic, runner; print(sys.executable, sys.prefix)")
    assert said.split() == [sys.executable, sys.prefix]


@pytest.mark.openssl35
@pytest.mark.parametrize("name", ["built35", "unpacked35"])
def test_a_process_is_started_again_once_with_its_arguments_and_finds_the_same_openssl(
    chosen: Chosen, name: str, tmp_path: Path
) -> None:
    openssl = chosen(name)
    cache = tmp_path / "opjoule" / "openssl"
    cache.mkdir(parents=True)
    root = Path(openssl.program).parents[1] if name == "built35" else Path(openssl.program).parents[2]
    (cache / root.name).symlink_to(root)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/mine"}
    with subprocess.Popen(
        (sys.executable, "-W", "error", "-c", STARTED_AGAIN, "a b", "--c"), env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        printed, errors = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0, errors
    found = json.loads(printed)
    if found["program"].startswith("/usr/bin"):
        pytest.skip("the system's own is used here")
    assert found["said"] is None
    assert found["pid"] == child.pid
    assert found["argv"] == ["a b", "--c"]
    assert (found["executable"], found["prefix"]) == (sys.executable, sys.prefix)
    assert found["ssl"].split()[1] == openssl.version
    assert "LD_LIBRARY_PATH" not in openssl.environment or openssl.environment["LD_LIBRARY_PATH"] == ""
    assert found["environment"]["LD_LIBRARY_PATH"] == ("/mine" if name == "built35" else "")


def test_on_the_libraries_that_python_has_already_nothing_is_done(
    system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not serves(libraries_of(system_openssl)):
        pytest.skip("this Python has another libcrypto than the openssl on PATH")
    monkeypatch.setattr(os, "execve", _never)
    assert ensure_process(system_openssl) is None


@pytest.mark.openssl35
def test_a_process_that_was_started_again_in_vain_is_not_started_a_third_time(
    built35: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    if serves(libraries_of(built35)):
        pytest.skip("this Python has the chosen libcrypto")
    monkeypatch.setenv("OPJOULE_STARTED_AGAIN", "{}")
    monkeypatch.setattr(os, "execve", _never)
    said = ensure_process(built35)
    assert said == f"Python was started again on {libraries_of(built35).folder} and still has another libcrypto"


@pytest.mark.openssl35
def test_libraries_that_python_cannot_have_are_one_line_and_the_process_goes_on(
    built35: OpenSsl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = libraries_of(built35)
    for library in (own.crypto, own.ssl):
        (tmp_path / library.name).write_bytes(b"no library")
    broken = Libraries(tmp_path / own.crypto.name, tmp_path / own.ssl.name)
    said = find_launch(built35, broken)
    assert isinstance(said, str)
    assert said.startswith(f"{sys.executable} does not run on {broken.crypto}: ")
    assert "\n" not in said
    monkeypatch.setattr("runner.openssl.process.find_libraries", lambda _: broken)
    monkeypatch.setattr(os, "execve", _never)
    assert ensure_process(built35) == said


@pytest.mark.parametrize(("shown", "said"), [({}, None), ({"OpenSSL_version": None}, "built in: use a Python that")])
def test_a_python_with_openssl_built_in_serves_unless_it_lends_it_to_all_libraries(
    system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch, shown: dict[str, None], said: str | None
) -> None:
    monkeypatch.setattr("runner.openssl.process._maps", lambda: "7f00-7f01 r-xp 00000000 08:01 1   /usr/bin/python3\n")
    monkeypatch.setattr("ctypes.CDLL", lambda _: SimpleNamespace(**shown))
    found = ensure_process(system_openssl)
    assert (found is None) if said is None else (found is not None and said in found)


def test_without_libraries_the_reason_is_given_on(tmp_path: Path, system_openssl: OpenSsl) -> None:
    program = tmp_path / "openssl"
    program.write_text(f'#!/bin/sh\nexec {system_openssl.program} "$@"\n')
    program.chmod(0o755)
    script = OpenSsl((str(program),), system_openssl.version, "a script", system_openssl.environment)
    assert ensure_process(script) == find_libraries(script)


@pytest.mark.openssl35
def test_a_python_with_the_path_of_another_libcrypto_in_itself_gets_the_chosen_one(
    built35: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As conda's, on which LD_LIBRARY_PATH has no effect: here it is emptied on the way."""
    bash = "/bin/sh"
    monkeypatch.setattr(sys, "executable", bash)
    monkeypatch.setattr(
        "runner.openssl.process._TRIAL",
        ("-c", f"unset LD_LIBRARY_PATH; exec {launch_on(built35).argv_prefix[0]} -I -S -c \"$1\"", "sh",
         "import _ssl; print(open('/proc/self/maps').read())"),
    )  # fmt: skip
    launch = find_launch(built35, libraries_of(built35))
    assert not isinstance(launch, str), launch
    assert "LD_LIBRARY_PATH" not in launch.environment
    assert str(libraries_of(built35).crypto) in launch.environment["LD_PRELOAD"]


def _never(*_: object) -> None:
    raise AssertionError("started again")
