"""One process per file: a lock beside it, held as long as the process lives, whatever ends it."""

import errno
import fcntl
import hashlib
import os
import socket
from pathlib import Path

from errors import SettingsError


class FileLock:
    """Held until it is closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Let others in."""
        os.close(self._descriptor)


def hold_lock(path: Path, what: str) -> FileLock:
    """The lock `PATH.lock`; missing folders are made. Raises SettingsError that names the holder or the trouble."""
    file = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SettingsError(f"{what} {path} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace")
        os.close(descriptor)
        raise SettingsError(f"{what} {path} is in use by process {holder or 'unknown'}") from None
    except OSError as error:
        os.close(descriptor)
        raise SettingsError(f"{what} {path} cannot be used: {error.strerror}") from None
    return FileLock(descriptor)


def hold_name(path: Path, what: str) -> FileLock:
    """As `hold_lock`, for a folder that cannot be written: a name that Linux keeps in memory (unix(7), abstract).

    It is held within one network namespace; where there are no such names nothing is held.
    """
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
    try:
        held.bind(f"\0opjoule-{digest}")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            held.close()
            raise SettingsError(f"{what} {path} is in use by another process") from None
    return FileLock(held.detach())
