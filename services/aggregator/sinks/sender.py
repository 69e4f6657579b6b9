"""Carries lines from the journal's outbox to a store: one thread, one request at a time, nothing forgotten.

A line leaves the outbox when the store has confirmed it, or has refused it alone: then it is a dead letter, with the
store's words. There is nothing to flush at the end: what was not confirmed is sent at the next start, and a store that
gets a line twice has it once.
"""

import logging
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Literal, Protocol

from aggregator.journal_outbox import OutboxReader, Waiting
from errors import SettingsError

log = logging.getLogger(__name__)

FULL_LINES = 100
"""After a batch of so many lines the next one goes at once; with fewer, lines gather for a moment."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a store says to a write: it has all lines; try later; the operator must act; it refuses some of them."""

    kind: Literal["stored", "later", "operator", "refused"]
    text: str = ""
    retry_after_s: float | None = None


class Store(Protocol):
    """A server that takes lines."""

    def write(self, lines: Sequence[str]) -> Answer:
        """Write lines in one request."""
        ...

    def close(self) -> None:
        """Give up the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at once, and how long to wait after what."""

    lines: int = 5000
    bytes: int = 1_000_000
    idle_s: float = 0.5
    backoff_min_s: float = 0.5
    backoff_max_s: float = 30.0
    operator_s: float = 30.0
    stop_s: float = 1.5

    def backoff_s(self, attempt: int, chance: float) -> float:
        """How long to wait after the failed attempt of this number (from 1); `chance` in [0, 1) is the jitter."""
        ceiling_s = min(self.backoff_max_s, self.backoff_min_s * 2.0 ** min(attempt - 1, 16))
        return ceiling_s * (0.5 + 0.5 * chance)


class Sender:
    """Sends until it is stopped. `open_store` may raise SettingsError: then it is tried again."""

    def __init__(self, journal: Path, open_store: Callable[[], Store], pace: Pace | None = None) -> None:
        self._journal, self._open_store, self._pace = journal, open_store, pace or Pace()
        self._stopping = Event()
        self._attempt = 0
        self._store: Store | None = None
        self.trouble = ""
        """Why nothing is sent, and who must act; empty when all is well."""
        self.sent = 0
        """Lines that the store has confirmed since the start."""
        self._thread = Thread(target=self._run, name="store sender", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def stop(self) -> bool:
        """Stop; a server that hangs is not waited for. Whether the thread has ended."""
        self._stopping.set()
        self._thread.join(self._pace.stop_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            reader = OutboxReader(self._journal)
        except SettingsError as error:
            self._say(str(error))
            return
        try:
            while not self._stopping.is_set():
                self._stopping.wait(self._round(reader))
        finally:
            reader.close()
            self._hang_up()

    def _round(self, reader: OutboxReader) -> float:
        """Send what waits; how long to wait before the next round."""
        try:
            batch = reader.take(self._pace.lines, self._pace.bytes)
            if not batch:
                return self._pace.idle_s
            return self._wait_after(self._deliver(reader, batch), len(batch))
        except SettingsError as error:  # the token file, or a journal that is locked for long or on a full disk
            return self._wait_after(Answer("operator", str(error)), 0)

    def _deliver(self, reader: OutboxReader, batch: Sequence[Waiting]) -> Answer:
        """Write a batch. What a store refuses is halved until the bad lines are alone."""
        if self._stopping.is_set():
            return Answer("later")
        if self._store is None:
            self._store = self._open_store()
        answer = self._store.write([each.line for each in batch])
        if answer.kind == "stored":
            reader.delete(batch)
            self.sent += len(batch)
        elif answer.kind == "refused" and (len(batch) == 1 or _refuses_all(answer.text, len(batch))):
            reader.bury(batch, answer.text, time.time_ns())
            log.warning("the store refuses %d lines for good, %.120s...: %s", len(batch), batch[0].line, answer.text)
            return Answer("stored")
        elif answer.kind == "refused":
            middle = len(batch) // 2
            first = self._deliver(reader, batch[:middle])
            return self._deliver(reader, batch[middle:]) if first.kind == "stored" else first
        return answer

    def _wait_after(self, answer: Answer, lines: int) -> float:
        if answer.kind == "stored":
            self._attempt = 0
            self._say("")
            return 0.0 if lines >= FULL_LINES else self._pace.idle_s
        self._say(answer.text)
        if answer.kind == "operator":
            self._hang_up()  # a new token is read
            return self._pace.operator_s
        self._attempt += 1
        backoff_s = self._pace.backoff_s(self._attempt, random.random())
        return max(backoff_s, answer.retry_after_s or 0.0)

    def _hang_up(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _say(self, trouble: str) -> None:
        if trouble != self.trouble and not self._stopping.is_set():
            log.log(logging.WARNING if trouble else logging.INFO, "%s", trouble or "the store takes lines again")
            self.trouble = trouble


def _refuses_all(reason: str, lines: int) -> bool:
    """Whether the store says that it dropped every line (InfluxDB: `partial write: ... dropped=N`)."""
    found = re.search(r"\bdropped=(\d+)", reason)
    return found is not None and int(found[1]) == lines
