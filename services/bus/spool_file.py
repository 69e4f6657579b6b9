"""The spool's SQLite file: one process at a time, survives kill -9, set aside when corrupt."""

import contextlib
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from bus.labels import Label
from errors import SettingsError
from file_lock import hold_lock

log = logging.getLogger(__name__)

VERSION = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, site TEXT NOT NULL, dut TEXT NOT NULL,
    event_id TEXT, meter TEXT, timeline_id TEXT, seq INTEGER,
    samples INTEGER NOT NULL, size_bytes INTEGER NOT NULL, payload BLOB NOT NULL)
"""
_COLUMNS = "number, kind, site, dut, event_id, meter, timeline_id, seq, samples, size_bytes"
_INSERT = f"INSERT OR REPLACE INTO entries ({_COLUMNS}, payload) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
_DELETE = "DELETE FROM entries WHERE number = ?"
JOURNAL_PAGES = 64
"""Of 4 KiB: when SQLite's write-ahead log has so many it is copied into the file, so that it stays about that small.
Its own 1000 would be 4 MB beside a spool of 6.5 MB."""


class SpoolFile:
    """Payloads are zlib-compressed JSON. Methods raise sqlite3.Error when the disk fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = hold_lock(path, "spool")
        try:
            self._db = self._open()
        except BaseException:
            self._lock.close()
            raise

    def labels(self) -> list[Label]:
        """All entries, oldest first."""
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY number")
        return [
            Label(number, kind, site, dut, UUID(event_id) if event_id else None, meter, timeline_id, seq, samples, size)
            for number, kind, site, dut, event_id, meter, timeline_id, seq, samples, size in rows
        ]

    def add(self, entries: Iterable[tuple[Label, bytes]], gone: Iterable[int] = ()) -> None:
        """Write, and forget what is gone, in one transaction that is on the disk when this returns."""
        rows = [
            (e.number, e.kind, e.site, e.dut, str(e.event_id) if e.event_id else None, e.meter, e.timeline_id, e.seq,
             e.samples, e.size_bytes, payload)
            for e, payload in entries
        ]  # fmt: skip
        self._write([(_DELETE, [(number,) for number in gone]), (_INSERT, rows)], "FULL")

    def remove(self, numbers: Iterable[int]) -> None:
        """Forget. A power cut may bring entries back: they are sent again, which is harmless."""
        self._write([(_DELETE, [(number,) for number in numbers])], "NORMAL")

    def payload(self, number: int) -> bytes:
        """One payload, compressed; empty where it is gone."""
        row = self._db.execute("SELECT payload FROM entries WHERE number = ?", (number,)).fetchone()
        return b"" if row is None else bytes(row[0])

    def close(self) -> None:
        """Leave the file to others."""
        self._db.close()
        self._lock.close()

    def _write(self, work: Sequence[tuple[str, Sequence[tuple[object, ...]]]], synchronous: str) -> None:
        self._db.execute(f"PRAGMA synchronous = {synchronous}")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            for statement, rows in work:
                self._db.executemany(statement, rows)

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self._path)
        except sqlite3.Error as error:
            if not _is_corrupt(error):
                raise SettingsError(f"spool {self._path} cannot be used: {error}") from None
            aside = _set_aside(self._path)
            log.warning("spool %s is corrupt (%s): kept as %s, beginning anew", self._path, error, aside)
        try:
            return _connect(self._path)
        except sqlite3.Error as error:
            raise SettingsError(f"spool {self._path} cannot be used: {error}") from None


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise SettingsError(f"spool {path} was written by another version of opjoule (format {version})")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {JOURNAL_PAGES}")
        db.execute(f"PRAGMA journal_size_limit = {JOURNAL_PAGES * 4096}")
        verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise _Corrupt(verdict)
        db.execute(_TABLE)
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("BEGIN IMMEDIATE")  # fails here, not later, where the disk is read-only
        db.execute("ROLLBACK")
    except BaseException:
        db.close()
        raise
    return db


class _Corrupt(sqlite3.DatabaseError):
    """What the integrity check found."""


def _is_corrupt(error: sqlite3.Error) -> bool:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return isinstance(error, _Corrupt) or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    try:
        path.rename(aside)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).unlink()
    except OSError as error:
        raise SettingsError(f"spool {path} is corrupt and cannot be set aside: {error.strerror}") from None
    return aside
