"""A private folder that is full, fills up or turns read-only: one clear line, and what can go on goes on."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from errors import SettingsError
from runner.job import Job
from runner.openssl import OpenSsl, OpenSslCli
from runner.operations import Bench, Work, prepare_work
from runner.stopping import Stop
from schemas import CATALOGUE

MakeBench = Callable[..., Bench]
Wrap = Callable[[OpenSsl, str, str], OpenSsl]
LIMIT_S = 60.0
SIZE_BYTES = 64 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; the test is skipped where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or _mount("-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "none", str(folder)):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


@pytest.fixture
def bench(small_disk: Path, system_openssl: OpenSsl, stop: Stop) -> Iterator[Bench]:
    """A bench on the small disk."""
    cli = OpenSslCli(system_openssl, small_disk, stop)
    yield Bench(cli, small_disk, Job("derive", "X25519"), CATALOGUE["X25519"], 1)
    cli.close()


def _mount(*arguments: str) -> int:
    return subprocess.run(("mount", *arguments), check=False, capture_output=True).returncode


def _fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    return filler


def _repetition_error(work: Work) -> str | None:
    assert work.begin is not None
    return work.begin(LIMIT_S)().error


def test_a_full_disk_is_named_when_an_operation_is_prepared(bench: Bench) -> None:
    _fill(bench.folder)
    with pytest.raises(SettingsError, match=rf"no space left in {bench.folder}\)$") as caught:
        prepare_work(bench)
    assert "\n" not in str(caught.value)


def test_repetitions_fail_while_the_disk_is_full_and_succeed_again_when_it_is_not(bench: Bench) -> None:
    work = prepare_work(bench)
    assert _repetition_error(work) is None
    (bench.folder / "secret").unlink()
    filler = _fill(bench.folder)
    assert (_repetition_error(work) or "").endswith(f"(no space left in {bench.folder})")
    filler.unlink()
    assert _repetition_error(work) is None


def test_repetitions_fail_on_a_disk_that_turned_read_only_and_the_check_says_so(bench: Bench) -> None:
    work = prepare_work(bench)
    folder = str(bench.folder)
    assert _mount("--bind", folder, folder) == _mount("-o", "remount,bind,ro", folder) == 0
    try:
        assert _repetition_error(work) == "the old shared secret cannot be removed: Read-only file system"
        assert work.check() == "the old shared secret cannot be removed: Read-only file system"
    finally:
        subprocess.run(("umount", folder), check=True)
    assert _repetition_error(work) is None


def test_a_folder_that_cannot_be_written_to_is_refused_in_one_line(
    tmp_path: Path, system_openssl: OpenSsl, stop: Stop
) -> None:
    with pytest.raises(SettingsError, match=f"^cannot work in {tmp_path}/none: No such file or directory$"):
        OpenSslCli(system_openssl, tmp_path / "none", stop)


def test_a_program_that_may_write_nothing_more_fails_and_the_next_repetition_goes_on(
    make_bench: MakeBench, system_openssl: OpenSsl, wrap: Wrap
) -> None:
    fake = wrap(system_openssl, "pkeyutl -derive", "[ $count != 1 ] || ulimit -f 0")
    work = prepare_work(make_bench(fake, job=Job("derive", "X25519")))
    assert _repetition_error(work) is not None
    assert _repetition_error(work) is None
    assert work.check() is None
