"""The file of the journal: opened, locked, one transaction at a time, errors said in one line."""

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from aggregator.journal_tables import TABLES, VERSION
from errors import SettingsError
from file_lock import hold_lock
from schemas import Message

TROUBLE = (sqlite3.Error, zlib.error)
"""What a damaged file raises wherever it is read."""
M = TypeVar("M", bound=Message)


class JournalFile:
    """One SQLite file. Raises SettingsError where the operator must act: in use, unreadable, foreign, disk full."""

    def __init__(self, path: Path, read_only: bool) -> None:
        self.path = path
        if read_only:
            _refuse_missing(path)
        address = f"{path.absolute().as_uri()}?{_reading(path) if read_only else 'mode=rwc'}"
        with ExitStack() as undo:
            if not read_only:
                undo.enter_context(closing(hold_lock(path, "journal")))
            with self.operator_must_act():
                self.db = undo.enter_context(
                    closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=10.0))
                )
                self.db.text_factory = _text
                self._prepare(read_only)
            self._open = undo.pop_all()

    def _prepare(self, read_only: bool) -> None:
        (version,) = self.db.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION) or (read_only and version == 0):
            raise SettingsError(f"{self.path} is not a journal of this version of opjoule (its version is {version})")
        if not read_only:
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=FULL")
            self.db.executescript(TABLES)
            self.db.execute(f"PRAGMA user_version={VERSION}")

    def close(self) -> None:
        """Close the file and give up the lock."""
        self._open.close()

    @contextmanager
    def operator_must_act(self) -> Iterator[None]:
        """Errors of SQLite as SettingsError."""
        try:
            yield
        except sqlite3.Error as error:
            raise SettingsError(f"the journal {self.path} cannot be used: {error}") from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; on disk when it returns."""
        with self.operator_must_act():
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")


def stored(model: type[M], payload: str | bytes) -> M:
    """A message as it lies in the journal, compressed where it is bytes. Raises SettingsError where that fails."""
    try:
        return model.model_validate_json(zlib.decompress(payload) if isinstance(payload, bytes) else payload)
    except (ValueError, zlib.error) as error:
        raise SettingsError(
            f"the journal has a row that cannot be read as {model.__name__}: it is damaged or of a later version of"
            f" opjoule ({_first_line(error)})"
        ) from None


def _refuse_missing(path: Path) -> None:
    try:
        there = path.is_file()
    except OSError as error:
        raise SettingsError(f"the journal {path} cannot be reached: {error.strerror}") from None
    if not there:
        raise SettingsError(f"there is no journal {path}")


def _reading(path: Path) -> str:
    """How to open it for reading: where SQLite can make no files beside it and nobody writes, as one that stays."""
    in_use = path.with_name(f"{path.name}-wal").exists()
    return "mode=ro" if in_use or os.access(path.parent, os.W_OK, effective_ids=True) else "mode=ro&immutable=1"


def _text(stored: bytes) -> str:
    """Damaged text ends the reading of its row, not of the table: it is refused when it is parsed."""
    return stored.decode("utf-8", "surrogateescape")


def _first_line(error: Exception) -> str:
    """What is wrong, without values: of a pydantic error the first field and its message."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
    return str(error).partition("\n")[0]
