"""One process per file: a lock beside it that dies with its holder."""

import fcntl
import os
from pathlib import Path
from typing import TextIO

from errors import SettingsError


def hold_lock(path: Path, what: str) -> TextIO:
    """The open lock file `path.lock`; closing it, or the end of the process, gives up the lock.

    Makes missing folders. Raises SettingsError that names the holder, or says why the file cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(path.name + ".lock").open("a+")
    except OSError as error:
        raise SettingsError(f"the {what} {path} cannot be made: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise SettingsError(f"the {what} {path} is in use by process {holder}") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
