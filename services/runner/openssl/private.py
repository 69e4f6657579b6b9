"""Folders for keys and signatures: in shared memory, so that nothing is written to a card, and gone with their process.

A process holds a lock on its folder as long as it lives. What a killed one left is memory lost and keys lying about:
the next runner removes it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from errors import SettingsError

PREFIX = "opjoule-keys-"
_SHARED_MEMORY = Path("/dev/shm")


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that only this user can enter and that goes away. Raises SettingsError where none can be made."""
    try:
        folder, lock = _make(_base())
    except OSError as error:
        raise SettingsError(f"no folder for keys and signatures can be made: {error}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> int:
    """Remove this user's folders that no living process holds; how many."""
    return sum(_remove_if_abandoned(folder) for folder in sorted(_base().glob(f"{PREFIX}*")))


def _base() -> Path:
    usable = os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return _SHARED_MEMORY if usable else Path(tempfile.gettempdir())


def _make(base: Path) -> tuple[Path, int]:
    """A new folder and its lock. One that is taken for abandoned before it is locked is made again."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        try:
            lock = _lock(folder)
        except (FileNotFoundError, BlockingIOError):
            continue
        if folder.is_dir():
            return folder, lock
        os.close(lock)


def _lock(folder: Path) -> int:
    """Raises BlockingIOError where another process holds it, another OSError where it cannot be opened."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_if_abandoned(folder: Path) -> bool:
    try:
        if folder.lstat().st_uid != os.geteuid():
            return False
        lock = _lock(folder)
    except OSError:
        return False
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
    return not folder.exists()
