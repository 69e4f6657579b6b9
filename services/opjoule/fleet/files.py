"""Private files: written whole or not at all, readable by their owner only."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from errors import SettingsError

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter; one that is there is left as it is. Raises SettingsError."""
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot make the folder {folder}: {error.strerror}") from None


def check_writable(folder: Path) -> None:
    """Make a private folder and try whether files can be made there. Raises SettingsError."""
    private_folder(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise SettingsError(f"cannot write into the folder {folder}: {error.strerror}") from None


def write_private(path: Path, content: bytes) -> None:
    """Replace a file at once; it belongs to whom its folder belongs. Raises SettingsError."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # mode 0600
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _give_to_owner_of(path.parent, temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from None


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a private folder with these files, at once; what had its name goes. Raises SettingsError."""
    try:
        private_folder(folder.parent)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as name:
            made = Path(name) / "made"
            made.mkdir(mode=FOLDER_MODE)
            for each, content in files.items():
                write_private(made / each, content)
            if folder.exists():
                folder.rename(Path(name) / "replaced")
            made.rename(folder)
    except OSError as error:
        raise SettingsError(f"cannot write {folder}: {error.strerror}") from None


def remove_folder(folder: Path) -> None:
    """Take a folder away; one that is not there is no trouble. Raises SettingsError."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SettingsError(f"cannot remove {folder}: {error.strerror}") from None


def read_file(path: Path) -> bytes:
    """Its content. Raises SettingsError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None


def _give_to_owner_of(folder: Path, file: Path) -> None:
    """So that a broker with a user of its own can read what root writes for it."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.chown(file, owner.st_uid, owner.st_gid)
