"""Which other programs have a node open. Linux only, and of other users' programs only root learns it."""

import os
from pathlib import Path


def holders(node: str, proc: Path = Path("/proc")) -> list[str]:
    """`python3 (process 1234)` for each process but this one that has the node open; empty where that is not told."""
    wanted = os.path.realpath(node)
    found = []
    for process in sorted((each for each in proc.glob("[0-9]*")), key=lambda each: int(each.name)):
        if int(process.name) != os.getpid() and wanted in _open_files(process):
            found.append(f"{_name(process)} (process {process.name})")
    return found


def _open_files(process: Path) -> set[str]:
    """None of a process that has ended, or that this user may not look into."""
    try:
        return {str(each.readlink()) for each in (process / "fd").iterdir()}
    except OSError:
        return set()


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text("utf-8", errors="replace").strip()
    except OSError:
        return "a program"
