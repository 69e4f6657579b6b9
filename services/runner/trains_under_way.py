"""Which train is under way, on disk: one that a kill or a power cut ended is told at the next start."""

import logging
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from runner.notes import drop_note, read_note, write_note
from schemas.base import Count, Model
from schemas.status import AbortedTrain

log = logging.getLogger(__name__)

MOST_TOLD = 16
"""As many as a status holds."""


class _Aborted(Model):
    """What earlier starts found: how many in all, and the latest."""

    count: Count = 0
    latest: tuple[AbortedTrain, ...] = ()


class TrainsUnderWay:
    """Two small files that begin with `stem`. A train that a request to end cut off counts as aborted as well.

    The train is taken off when its event is in the spool: a kill in the moment between leaves both.
    """

    def __init__(self, stem: Path) -> None:
        self._now = stem.with_name(stem.name + ".under-way.json")
        self._past = stem.with_name(stem.name + ".aborted.json")
        self._writable = True
        self._aborted = _aborted(read_note(self._past))
        self._find()

    @property
    def aborted(self) -> tuple[AbortedTrain, ...]:
        """The latest that were cut off, in the order of their start."""
        return self._aborted.latest

    @property
    def count(self) -> int:
        """How many were ever cut off."""
        return self._aborted.count

    def begin(self, train: AbortedTrain) -> None:
        """It is under way from here on."""
        self._try(lambda: write_note(self._now, train.model_dump_json()))

    def end(self) -> None:
        """It is done, or was left out."""
        self._try(lambda: drop_note(self._now))

    def _find(self) -> None:
        text = read_note(self._now)
        if not text:
            return
        try:
            train = AbortedTrain.model_validate_json(text)
        except ValidationError:
            log.warning("%s cannot be read: a train of the last start was cut off, which one is unknown", self._now)
        else:
            log.warning("aborted: %s %s of the last start was cut off", train.operation, train.parameter_set)
            if train not in self._aborted.latest:
                latest = (*self._aborted.latest, train)[-MOST_TOLD:]
                self._aborted = _Aborted(count=self._aborted.count + 1, latest=latest)
        self._try(lambda: write_note(self._past, self._aborted.model_dump_json()))
        self._try(lambda: drop_note(self._now))

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            if self._writable:
                log.warning("%s cannot be written (%s): a train cut off will not be told", self._now, error.strerror)
            self._writable = False


def _aborted(text: str) -> _Aborted:
    try:
        return _Aborted.model_validate_json(text) if text else _Aborted()
    except ValidationError:
        return _Aborted()
