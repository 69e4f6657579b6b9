"""`make openssl` with a small source archive in place of the real one, which takes minutes."""

import fcntl
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from errors import SettingsError
from runner.openssl import OpenSsl, find_openssl
from runner.openssl.build import build
from runner.openssl.compiling import check_tools
from runner.openssl.progress import Progress
from runner.openssl.source import RELEASE

LIMIT_S = 60.0
MakeArchive = Callable[..., Path]
MAKEFILE = """\
all: a.o b.o
a.o:
	@echo gcc -c -o a.o a.c
b.o:
	@echo gcc -c -o b.o b.c; {compiling}
install_sw:
	@mkdir -p $(DESTDIR)PREFIX/bin $(DESTDIR)PREFIX/lib
	@{installing}
install_ssldirs:
"""
CHILD = "import sys\nfrom runner.openssl import source\nsource.SHA256 = sys.argv.pop()\n" + (
    "from runner.openssl.build import main\nraise SystemExit(main())\n"
)


@pytest.fixture
def make_archive(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MakeArchive:
    """A source that "compiles" by a shell line and installs a copy of the cache's build, with the pinned checksum."""

    def make(compiling: str = "true", installing: str | None = None) -> Path:
        if installing is None:
            root = Path(request.getfixturevalue("built35").program).parents[1]
            installing = f"cp -a {root}/bin/openssl $(DESTDIR)PREFIX/bin && cp -a {root}/lib/*.so* $(DESTDIR)PREFIX/lib"
        makefile = MAKEFILE.format(compiling=compiling, installing=installing)
        (tmp_path / "Makefile.in").write_text(makefile)
        configure = (
            "#!/bin/sh\nfor each; do case $each in --prefix=*) prefix=${each#--prefix=};; esac; done\n"
            f'sed "s|PREFIX|$prefix|g" {tmp_path}/Makefile.in > Makefile\n'
        )
        path = tmp_path / "source.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo(f"openssl-{RELEASE}/Configure")
            member.mode, member.size = 0o755, len(configure)
            archive.addfile(member, io.BytesIO(configure.encode()))
        monkeypatch.setattr("runner.openssl.source.SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
        return path

    return make


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """An empty cache."""
    return tmp_path / "cache" / "opjoule" / "openssl"


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """What progress wrote."""
    with io.StringIO() as stream:
        yield stream


def _final(cache: Path) -> Path:
    return cache / f"build-{RELEASE}-{os.uname().machine}"


def _refused(cache: Path, archive: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        build(cache, str(archive), Progress(io.StringIO()))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.openssl35
def test_a_build_is_installed_found_and_not_made_twice(
    make_archive: MakeArchive, cache: Path, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(cache, str(make_archive()), Progress(said))
    assert made.version == RELEASE
    lines = [line.rpartition(" (")[0] for line in said.getvalue().splitlines()]
    assert lines == [
        "unpacking", "configuring", "compiling",
        "compiling: 1 of 2 files, 50%", "compiling: 2 of 2 files, 100%", "installing",
    ]  # fmt: skip
    assert {each.name for each in cache.iterdir()} == {_final(cache).name, ".build.lock"}
    assert build(cache, "/no/such/source", Progress(said)) == made
    monkeypatch.setenv("PATH", str(cache))
    found = find_openssl(None, cache)
    assert (found.openssl.program, found.shortfall) == (f"{_final(cache)}/bin/openssl", None)


@pytest.mark.openssl35
def test_a_build_is_preferred_to_newer_packages_and_can_be_moved(
    built35: OpenSsl, unpacked35: OpenSsl, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(Path(built35.program).parents[1], cache / "zz-moved", symlinks=True)
    (cache / "packages").symlink_to(Path(unpacked35.program).parents[2])
    monkeypatch.setenv("PATH", str(cache))
    openssl = find_openssl(None, cache).openssl
    assert openssl.origin == f"built in {cache}/zz-moved"
    assert openssl.library_version == openssl.version == built35.version
    assert openssl.environment["OPENSSL_CONF"] == f"{cache}/zz-moved/ssl/openssl.cnf"


@pytest.mark.openssl35
def test_the_user_s_own_configuration_reaches_a_build(built35: OpenSsl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSSL_MODULES", "/opt/oqs/modules")
    monkeypatch.setenv("PATH", "/nowhere")
    environment = find_openssl(None).openssl.environment
    assert environment["OPENSSL_MODULES"] == "/opt/oqs/modules"
    assert environment["OPENSSL_CONF"] == built35.environment["OPENSSL_CONF"]


def test_an_archive_with_another_checksum_is_refused_before_it_is_unpacked(
    make_archive: MakeArchive, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_archive(installing="true")
    monkeypatch.setattr("runner.openssl.source.SHA256", "0" * 64)
    monkeypatch.setattr(tarfile, "open", _never)
    line = _refused(cache, archive)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert line == f"OPJOULE_OPENSSL_SOURCE: source.tar.gz is not OpenSSL {RELEASE}: its SHA-256 is {digest}"


def test_a_compiler_that_fails_is_quoted_and_nothing_is_left(make_archive: MakeArchive, cache: Path) -> None:
    line = _refused(cache, make_archive("echo \"b.c:7: error: expected ';'\" >&2; false", "true"))
    assert line.startswith("make -j")
    assert line.endswith("failed: b.c:7: error: expected ';'")
    assert [each.name for each in cache.iterdir()] == [".build.lock"]


@pytest.mark.parametrize(
    ("installing", "why"),
    [
        ("true", "holds no build of openssl"),
        (
            "echo 'echo OpenSSL 3.5.7 9 Jun 2026' > $(DESTDIR)PREFIX/bin/openssl && chmod 755 $(DESTDIR)PREFIX/bin/*",
            "cannot be run: [Errno 8]",
        ),
    ],
)
def test_a_result_that_does_not_work_is_not_kept(
    make_archive: MakeArchive, cache: Path, installing: str, why: str
) -> None:
    line = _refused(cache, make_archive(installing=installing))
    assert line.startswith("what was built does not work: ")
    assert why in line
    assert [each.name for each in cache.iterdir()] == [".build.lock"]


@pytest.mark.openssl35
def test_remains_of_a_killed_build_and_a_broken_one_make_room(make_archive: MakeArchive, cache: Path) -> None:
    (cache / ".building-abandoned" / "openssl").mkdir(parents=True)
    (_final(cache) / "bin").mkdir(parents=True)
    made = build(cache, str(make_archive()), Progress(io.StringIO()))
    assert Path(made.program).is_file()
    assert {each.name for each in cache.iterdir()} == {_final(cache).name, ".build.lock"}


def test_what_compiling_needs_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = "on Debian and its relatives: sudo apt install gcc libc6-dev make perl"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    for name in ("gcc", "make", "perl"):
        with pytest.raises(SettingsError) as caught:
            check_tools()
        assert str(caught.value) == f"building OpenSSL needs gcc, make and perl: no {name} here; {install}"
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(SettingsError, match="needs perl modules, which are missing; on Debian"):
        check_tools()
    (tmp_path / "perl").write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(SettingsError, match="needs headers of the C library, which are missing; on Debian"):
        check_tools()


def test_a_cache_that_a_makefile_cannot_name_is_refused(tmp_path: Path) -> None:
    line = _refused(tmp_path / "my cache", tmp_path / "none")
    assert line.endswith("name another folder in XDG_CACHE_HOME")


def test_a_cache_that_cannot_be_written_is_one_line(make_archive: MakeArchive, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot write to the cache" in _refused(tmp_path / "file" / "openssl", make_archive(installing="true"))


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_build_stops_its_compiler_and_leaves_nothing(
    make_archive: MakeArchive, tmp_path: Path, number: signal.Signals
) -> None:
    archive = make_archive(f"echo $$$$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 1000", "true")
    with _building(tmp_path, archive) as child:
        _wait_for(lambda: (tmp_path / "pid").exists() or child.poll() is not None)
        child.send_signal(number)
        _, errors = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, errors) == (1, "make openssl: interrupted, nothing was kept\n")
    assert [each.name for each in (tmp_path / "opjoule/openssl").iterdir()] == [".build.lock"]
    _wait_for(lambda: not _lives(int((tmp_path / "pid").read_text())))


@pytest.mark.processes
@pytest.mark.openssl35
def test_a_second_build_waits_and_takes_what_the_first_made(
    make_archive: MakeArchive, built35: OpenSsl, tmp_path: Path
) -> None:
    cache = tmp_path / "opjoule" / "openssl"
    cache.mkdir(parents=True)
    with (cache / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _building(tmp_path, make_archive("false")) as child:
            assert child.stdout is not None
            assert child.stdout.readline().startswith("another process is building: waiting for it (")
            _final(cache).symlink_to(Path(built35.program).parents[1])
            fcntl.flock(lock, fcntl.LOCK_UN)
            printed, errors = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, errors) == (0, "")
    assert printed.startswith(f"OpenSSL {RELEASE}: {_final(cache)}/bin/openssl (")


def test_progress_is_one_line_that_is_rewritten_at_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    progress = Progress(terminal)
    progress.phase("compiling")
    progress.share(1, 3)
    progress.share(3, 3)
    progress.end("OpenSSL 3.5.7")
    written = terminal.getvalue()
    assert written.count("\n") == 1
    assert written.endswith(" s)\x1b[K\n")
    assert [each.partition(" (")[0] for each in written.split("\r")[1:]] == [
        "compiling", "compiling: 1 of 3 files, 33%", "compiling: 3 of 3 files, 100%", "OpenSSL 3.5.7",
    ]  # fmt: skip


def _building(cache_home: Path, archive: Path) -> subprocess.Popen[str]:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return subprocess.Popen(
        (sys.executable, "-c", CHILD, "--source", str(archive), digest),
        env={**os.environ, "XDG_CACHE_HOME": str(cache_home)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _wait_for(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _never(*_: object, **__: object) -> None:
    raise AssertionError("called")
