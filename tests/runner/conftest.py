"""OpenSSL programs, real and fake, and a bench to prepare operations on."""

import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from errors import SettingsError
from runner.openssl import OpenSsl, OpenSslCli, find_openssl, obtain_openssl
from runner.operations import Bench
from runner.stopping import Stop

MakeBench = Callable[..., Bench]
MakeFake = Callable[[str], OpenSsl]


@pytest.fixture(scope="session")
def system_openssl() -> OpenSsl:
    """The openssl program on PATH, whatever its version."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl program on PATH")
    return find_openssl(program).openssl


@pytest.fixture(scope="session")
def openssl35() -> OpenSsl:
    """OpenSSL 3.5 or newer: the system's, the cache's, or fetched into the cache."""
    try:
        found = obtain_openssl(None)
    except SettingsError as error:
        pytest.skip(str(error))
    if found.shortfall is not None:
        pytest.skip(found.shortfall)
    return found.openssl


@pytest.fixture
def stop() -> Iterator[Stop]:
    """A request to end that nobody has made yet."""
    each = Stop()
    yield each
    each.close()


@pytest.fixture
def make_bench(tmp_path: Path, stop: Stop) -> Iterator[MakeBench]:
    """Benches in a folder of the test."""
    opened: list[OpenSslCli] = []

    def make(openssl: OpenSsl, parameter_set: str = "none", processes: int = 0) -> Bench:
        folder = tmp_path / f"bench{len(opened)}"
        folder.mkdir()
        opened.append(OpenSslCli(openssl, folder, stop))
        return Bench(opened[-1], folder, parameter_set, processes, 19_600, 1)

    yield make
    for cli in opened:
        cli.close()


@pytest.fixture
def make_fake(tmp_path: Path, system_openssl: OpenSsl) -> MakeFake:
    """An openssl that runs some shell lines first; `$count` is the number of its earlier runs with `pkeyutl -sign`."""

    def make(lines: str) -> OpenSsl:
        program = tmp_path / "openssl"
        counter = tmp_path / "count"
        program.write_text(
            "#!/bin/sh\n"
            f'if [ "$1 $2" = "pkeyutl -sign" ]; then count=$(cat {counter} 2>/dev/null || echo 0)\n'
            f"echo $((count + 1)) > {counter}\n{lines}\nfi\n"
            f'exec {system_openssl.program} "$@"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return find_openssl(str(program)).openssl

    return make
