"""The CSV file that `--out` names: refused before anything runs, written anew after each measurement."""

from collections.abc import Sequence
from pathlib import Path

from errors import SettingsError
from opjoule.run.rows import Row, text_of


class CsvFile:
    """The file, or none. `problem` is one line where the last attempt to write it failed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.problem = ""

    def must_be_writable(self) -> None:
        """Raises SettingsError where the file cannot be written; what is in it stays."""
        if self._path is None:
            return
        there = self._path.exists()
        try:
            with self._path.open("ab"):
                pass
            if not there:
                self._path.unlink()
        except OSError as error:
            raise SettingsError(self._said(error)) from None

    def write(self, rows: Sequence[Row]) -> None:
        """All rows so far. What goes wrong, e.g. a full disk, ends no measurement: it stands in `problem`."""
        if self._path is None:
            return
        try:
            self._path.write_text(text_of(rows), "utf-8")
        except OSError as error:
            self.problem = self._said(error)
        else:
            self.problem = ""

    def _said(self, error: OSError) -> str:
        return f"--out {self._path} cannot be written: {error.strerror}"
