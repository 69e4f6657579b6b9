"""Files that are written from the code and kept in the repository: written anew, or checked."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Generated:
    """What one command writes: `texts` gives path below a folder and text; no other file may match `patterns`."""

    command: str
    patterns: tuple[str, ...]
    texts: Callable[[], Mapping[str, str]]

    def run(self, folder: Path, check: bool) -> int:
        """Write the files, or name the stale ones; the exit status."""
        if not check:
            for path in self.write(folder):
                print(f"wrote {path}")
            return 0
        found = self.stale(folder)
        for path in found:
            print(f"{self.command}: {path} is stale: run `{self.command}`", file=sys.stderr)
        return 1 if found else 0

    def write(self, folder: Path) -> list[Path]:
        """Bring the files below a folder up to date; gives those that were changed or removed."""
        changed, wanted = self.stale(folder), self.texts()
        for path in changed:
            name = path.relative_to(folder).as_posix()
            if name in wanted:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(wanted[name], encoding="utf-8")
            else:
                path.unlink()
        return changed

    def stale(self, folder: Path) -> list[Path]:
        """The files that are missing, differ, or belong to nothing, in order of name."""
        wanted = self.texts()
        there = {path.relative_to(folder).as_posix() for pattern in self.patterns for path in folder.glob(pattern)}
        return [folder / name for name in sorted(there | wanted.keys()) if _text(folder / name) != wanted.get(name)]


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
