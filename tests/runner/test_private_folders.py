"""Keys lie in a folder that goes with its process; what a killed process left is removed by the next runner."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from errors import SettingsError
from runner.openssl import private, private_folder, remove_abandoned

HOLD = """
import sys
from pathlib import Path
from runner.openssl import private, private_folder
private._SHARED_MEMORY = Path(sys.argv[1])
with private_folder() as folder:
    (folder / "key").write_text("secret")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for shared memory, so that the machine's is left alone."""
    monkeypatch.setattr(private, "_SHARED_MEMORY", tmp_path)
    return tmp_path


@pytest.fixture
def holder(memory: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a private folder."""
    command = [sys.executable, "-c", HOLD, str(memory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_folder_is_private_and_goes_with_all_that_is_in_it(memory: Path) -> None:
    with private_folder() as folder:
        assert folder.parent == memory and folder.stat().st_mode & 0o077 == 0
        (folder / "key").write_text("secret")
    assert list(memory.iterdir()) == []


def test_a_living_process_keeps_its_folder_and_a_killed_one_s_is_removed(
    memory: Path, holder: tuple[subprocess.Popen[str], Path]
) -> None:
    process, folder = holder
    with private_folder() as own:
        assert remove_abandoned() == 0
        assert (folder / "key").exists() and own.is_dir()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert (folder / "key").exists()
        assert remove_abandoned() == 1
        assert list(memory.iterdir()) == [own]


def test_what_is_not_a_folder_of_ours_stays(memory: Path) -> None:
    (memory / "other-folder").mkdir()
    target = memory / "target"
    target.mkdir()
    (memory / f"{private.PREFIX}link").symlink_to(target)
    assert remove_abandoned() == 0
    assert len(list(memory.iterdir())) == 3


def test_a_folder_that_is_taken_away_before_it_is_locked_is_made_again(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, taken = private._lock, list[Path]()

    def slow_lock(folder: Path) -> int:
        if not taken:
            taken.append(folder)
            folder.rmdir()
        return lock(folder)

    monkeypatch.setattr(private, "_lock", slow_lock)
    with private_folder() as folder:
        assert folder.is_dir() and folder != taken[0]


def test_where_no_folder_can_be_made_one_line_says_so(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "_base", lambda: memory / "missing")
    with pytest.raises(SettingsError, match="no folder for keys and signatures can be made"), private_folder():
        pass
