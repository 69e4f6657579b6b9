"""OpenSSL programs, real and fake, and a bench to prepare operations on."""

import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.job import Job
from runner.openssl import OpenSsl, OpenSslCli, find_openssl
from runner.operations import Bench
from runner.stopping import Stop
from schemas import CATALOGUE, ParameterSet
from tests.openssl_programs import libraries_of
from tests.runner.stage import Stage

MakeBench = Callable[..., Bench]
MakeStage = Callable[[OpenSsl], Stage]
MakeFake = Callable[[str], OpenSsl]
Wrap = Callable[[OpenSsl, str, str], OpenSsl]
PROVIDER_CONFIGURATION = """\
openssl_conf = init
[init]
providers = providers
[providers]
default = default_section
opj = opj_section
[default_section]
activate = 1
[opj_section]
module = {module}
activate = 1
"""


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory, repository: Path, system_openssl: OpenSsl) -> Path:
    """A configuration file that activates the provider `opj`, compiled from its source.

    It is linked with libcrypto, as providers are: what a Python loads is not seen by other libraries.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("provider")
    module, source = folder / "opj.so", repository / "tests/runner/provider/opj.c"
    libcrypto = str(libraries_of(system_openssl).crypto)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(module), str(source), libcrypto], check=True)
    configuration = folder / "openssl.cnf"
    configuration.write_text(PROVIDER_CONFIGURATION.format(module=module))
    return configuration


@pytest.fixture(scope="session")
def system_openssl() -> OpenSsl:
    """The openssl program on PATH, whatever its version."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl program on PATH")
    return find_openssl(program).openssl


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

    def make(
        openssl: OpenSsl,
        parameter_set: str = "none",
        processes: int = 0,
        *,
        job: Job | None = None,
        each: ParameterSet | None = None,
        message_file: Path | None = None,
    ) -> Bench:
        folder = tmp_path / f"bench{len(opened)}"
        folder.mkdir()
        if job is None:
            job = Job("null", null_variant=f"processes={processes}") if processes else Job("keygen", parameter_set)
        opened.append(OpenSslCli(openssl, folder, stop, job.capability_mask))
        return Bench(opened[-1], folder, job, each or CATALOGUE.get(job.parameter_set), 1, message_file)

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


@pytest.fixture
def wrap(tmp_path: Path) -> Wrap:
    """An openssl that runs some shell lines before (and, if these exit, instead of) commands that begin so.

    `$count` is the number of earlier ones, `$last` the last argument, `$folder` the folder of that file, `real` runs
    the program.
    """

    def make(openssl: OpenSsl, command: str, lines: str) -> OpenSsl:
        number = len(list(tmp_path.glob("wrapped*")))
        program, counter = tmp_path / f"wrapped{number}", tmp_path / f"count{number}"
        real = " ".join(shlex.quote(part) for part in openssl.argv_prefix)
        program.write_text(
            f'#!/bin/sh\nreal() {{ {real} "$@"; }}\nfor last; do :; done\nfolder=$(dirname "$last")\n'
            f'case "$*" in {shlex.quote(command)}*) count=$(cat {counter} 2>/dev/null || echo 0)\n'
            f'echo $((count + 1)) > {counter}\n{lines}\n;;\nesac\nexec {real} "$@"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return replace(openssl, argv_prefix=(str(program),))

    return make


@pytest.fixture
def make_stage(stop: Stop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeStage:
    """Stages whose trains are watched."""

    def make(openssl: OpenSsl) -> Stage:
        stage = Stage(openssl, tmp_path / "state", stop)
        stage.watch_trains(monkeypatch)
        return stage

    return make
