"""What the log says of one meter: each change once, and of one that changes all the time only now and then."""

import logging
from collections import deque

from meter.recovery import JUST_OPENED

log = logging.getLogger(__name__)

LINES, WITHIN_S = 12, 600.0
"""So many lines in so long a time; what is more is counted, and the state told when there is room again."""
LOST_EVERY_S = 600.0
"""Losses are told at once, then with the count so far at most so often."""


class Telling:
    """The moment comes as an argument, in s of any clock that never steps."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._node = ""
        self._told = ""
        self._left_out = 0
        self._lines_s: deque[float] = deque(maxlen=LINES)
        self._lost = 0
        self._lost_s: float | None = None

    def opened(self, node: str, now_s: float) -> None:
        """A meter that is silent is opened again and again: that is told when its node is new or data came between."""
        if node != self._node:
            self._node = node
            self._say(logging.INFO, f"{self._name} opened at {node}", now_s)

    def state(self, detail: str, now_s: float) -> None:
        """What is wrong, nothing while samples flow. That nothing has come yet is not told at all."""
        before, self._told = self._told, detail
        is_news = detail not in (before, JUST_OPENED)
        if is_news or (self._left_out and self._has_room(now_s)):
            self._say_state(now_s)

    def lost(self, samples: int, gaps: int, now_s: float) -> None:
        """How many samples are lost so far."""
        is_due = self._lost_s is None or now_s - self._lost_s >= LOST_EVERY_S
        if samples > self._lost and is_due:
            self._lost, self._lost_s = samples, now_s
            log.warning("%s: samples lost so far: %d, gaps: %d", self._name, samples, gaps)

    def closed(self, samples: int, gaps: int) -> None:
        """The last word: losses that were not told yet."""
        self._lost_s = None
        self.lost(samples, gaps, 0.0)

    def _say_state(self, now_s: float) -> None:
        if not self._told:
            self._node = ""
        level = logging.WARNING if self._told else logging.INFO
        self._say(level, f"{self._name}: {self._told or 'samples flow'}", now_s)

    def _has_room(self, now_s: float) -> bool:
        return len(self._lines_s) < LINES or now_s - self._lines_s[0] >= WITHIN_S

    def _say(self, level: int, text: str, now_s: float) -> None:
        if not self._has_room(now_s):
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        self._lines_s.append(now_s)
        log.log(level, "%s%s", text, f" ({left_out} changes before were not logged)" if left_out else "")
