"""Small files in the state folder that outlive a kill and a power cut."""

import os
from pathlib import Path


def write_note(path: Path, text: str) -> None:
    """Replace the whole file; it is on the disk when this returns. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_note(path: Path) -> str:
    """Its text; empty where it is missing or cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def drop_note(path: Path) -> None:
    """Take the file away, if it is there. Raises OSError."""
    path.unlink(missing_ok=True)
