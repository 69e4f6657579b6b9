"""What to do next with a meter of the FNIRSI family: start it, keep it alive, wake it when it falls silent. Pure.

The moment comes as an argument, in s of any clock that never steps. Who calls does what `next_step` says and tells what
came of it. Keep-alives come from the clock, never only from data: a meter that waits for one would wait for ever.
A silent meter is woken in the order of least disturbance (METERS.md 1.4, from OpenFNB58); this never ends.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from meter.protocols.fnirsi import KEEP_ALIVE_S, START_SEQUENCE, Command, Family

STALL_S = 1.0
"""Without data for so long (25 reports) a meter that streamed is silent."""
PAUSE_S, PAUSES, PAUSES_WITHIN_S = 0.2, 3, 10.0
"""So many pauses (5 report periods) in so short a time: each report is answered from then on (baryluk, issue 19)."""
GAP_S = 0.05
"""Between two commands of a sequence: without a gap some meters crash (Randomblock1: 25 ms; OpenFNB58: 50 ms)."""
BACK_OFF_S = (0.5, 1.0, 2.0, 4.0)
"""Between attempts to find and open the device; the last one for ever. So a replug costs about 5 s at the most."""
SILENT_BACK_OFF_S = (*BACK_OFF_S, 8.0, 15.0)
"""The same for a device that is there and stays silent, whatever is tried."""
WRITE_ATTEMPTS = 5
WRITE_PAUSE_S = 0.15
"""Writing to a streaming meter fails now and then (OpenFNB58)."""
LISTEN_S = 0.2
"""Before the start sequence, 5 reports long: IDENTIFY may restart a meter that streams already (OpenFNB58)."""
FIRST_DATA_S = 4.0
"""So long a meter may take to begin after the start sequence (OpenFNB58)."""
_ANSWER_S = 0.12
"""Where each report is answered by CONTINUE: it is also sent so long (3 report periods) after the last one."""
_LEAST_ANSWER_S = 0.003
"""Answers are no closer than this (baryluk): reports of a backlog get one together."""


JUST_OPENED = "the meter is open and has sent no data yet"


class Step(Enum):
    """What is done with the device, besides sending a command."""

    OPEN = "open"
    CLOSE = "close"
    DRAIN = "drain"
    LISTEN = "listen"


@dataclass(frozen=True, slots=True)
class _Rung:
    name: str
    steps: tuple[Step | Command, ...]
    patience_s: float
    switches: bool = False
    """Try as the other family."""


_START = (Command.IDENTIFY, Command.START, Command.START)
_REOPEN = (Step.CLOSE, Step.OPEN)
_LADDER = (
    _Rung("answering each report", (), 1.5),
    _Rung("continue", (Step.DRAIN, Command.CONTINUE), 1.5),
    _Rung("start again", (Step.DRAIN, Command.START, Command.START), 4.0),
    _Rung("identify and start again", (Step.DRAIN, *_START), 4.0),
    _Rung("open again", _REOPEN, 4.0),
    _Rung("open again as the other family", _REOPEN, 4.0, switches=True),
)


class Recovery:
    """The state of one meter."""

    def __init__(self, family: Family, keep_alive_s: float | None = None) -> None:
        """`keep_alive_s`: None is what the family needs, 0 once per report."""
        self.family = self._home = family
        self._asked_keep_alive_s = keep_alive_s
        self._answers_each = False
        self._steps: deque[Step | Command] = deque([Step.OPEN])
        self._due_s = -math.inf
        self._is_open = False
        self._rung = 0
        self._attempts = 0
        self._failed_writes = 0
        self._quiet_s = self._kept_s = -math.inf
        self._data_s: float | None = None
        self._pauses_s: deque[float] = deque(maxlen=PAUSES)
        self._why = "not opened yet"

    @property
    def has_data(self) -> bool:
        """Whether the meter streams as far as is known: data came since it was opened or fell silent."""
        return self._data_s is not None

    @property
    def detail(self) -> str:
        """What is wrong and what is done about it; empty while data flow."""
        return "" if self.has_data else self._why

    @property
    def keep_alive_s(self) -> float:
        """The interval that holds now; 0: once per report."""
        if self._answers_each:
            return 0.0
        return KEEP_ALIVE_S[self.family] if self._asked_keep_alive_s is None else self._asked_keep_alive_s

    def next_step(self, now_s: float) -> Step | Command | None:
        """What is due now; call until there is nothing more. A command that it gives counts as sent."""
        if not self._steps and self._is_open and now_s >= self._silent_at_s():
            self._climb(now_s)
        if self._steps:
            return self._take(now_s) if now_s >= self._due_s else None
        if self._is_open and now_s >= self._keep_alive_at_s():
            self._kept_s = now_s
            return Command.CONTINUE
        return None

    def wait_s(self, now_s: float) -> float:
        """How long nothing is due, if no data come."""
        if self._steps:
            at_s = self._due_s
        else:
            at_s = min(self._silent_at_s(), self._keep_alive_at_s()) if self._is_open else math.inf
        return max(0.0, at_s - now_s)

    def learn_family(self, family: Family) -> None:
        """The family by the model, which is known once it is found."""
        self.family = self._home = family

    def opened(self, now_s: float) -> None:
        """The device was opened."""
        self._is_open = True
        if not self._rung:
            self._why = JUST_OPENED
        self._do(now_s, (Step.DRAIN, Step.LISTEN, *START_SEQUENCE[self.family]))

    def gone(self, now_s: float, why: str) -> None:
        """The device could not be opened, or is not there any more; why in one line."""
        self._is_open, self._data_s = False, None
        self._failed_writes = self._rung = 0
        self.family, self._why = self._home, why
        self._do(now_s, [Step.OPEN])
        self._due_s = now_s + self._back_off_s(BACK_OFF_S)

    def received(self, now_s: float) -> None:
        """A report with valid samples came."""
        self._notice_pause(now_s)
        self._data_s, self._home = now_s, self.family
        self._rung = self._attempts = self._failed_writes = 0
        if Step.CLOSE in self._steps:
            self._steps.clear()
        elif Command.IDENTIFY in self._steps:
            self._do(now_s, [Command.CONTINUE])
        if self.keep_alive_s == 0 and not self._steps and now_s - self._kept_s >= _LEAST_ANSWER_S:
            self._do(now_s, [Command.CONTINUE])

    def write_failed(self, now_s: float, command: Command) -> bool:
        """A command could not be sent: it will be again. False after too many in a row: the device counts as gone."""
        self._failed_writes += 1
        if self._failed_writes >= WRITE_ATTEMPTS:
            return False
        self._steps.appendleft(command)
        self._due_s = now_s + WRITE_PAUSE_S
        return True

    def _notice_pause(self, now_s: float) -> None:
        """A meter that sends only for a moment after each CONTINUE never falls silent, and yet loses most samples."""
        if self._data_s is None or now_s - self._data_s < PAUSE_S:
            return
        self._pauses_s.append(now_s)
        if len(self._pauses_s) == PAUSES and now_s - self._pauses_s[0] < PAUSES_WITHIN_S:
            self._answers_each = True

    def _take(self, now_s: float) -> Step | Command:
        step = self._steps.popleft()
        self._quiet_s = now_s
        if isinstance(step, Command):
            self._kept_s = now_s
            self._due_s = now_s + GAP_S
        if step is Step.LISTEN:
            self._due_s = now_s + LISTEN_S
        if step is Step.CLOSE:
            self._is_open = False
        return step

    def _do(self, now_s: float, steps: Iterable[Step | Command]) -> None:
        self._steps = deque(steps)
        self._due_s = self._quiet_s = now_s

    def _silent_at_s(self) -> float:
        if self._data_s is not None:
            return self._data_s + STALL_S
        return self._quiet_s + (_LADDER[self._rung - 1].patience_s if self._rung else FIRST_DATA_S)

    def _keep_alive_at_s(self) -> float:
        return self._kept_s + (self.keep_alive_s or _ANSWER_S)

    def _climb(self, now_s: float) -> None:
        """To the next rung; above the last one the meter is reported, and opened now and then as either family."""
        self._data_s = None
        if self._rung >= len(_LADDER):
            self._give_up_for_now(now_s)
            return
        rung = _LADDER[self._rung]
        self._rung += 1
        self._answers_each = True
        self._why = f"the meter has fallen silent; trying: {rung.name}"
        if rung.switches:
            self._switch_family()
        self._do(now_s, rung.steps)

    def _give_up_for_now(self, now_s: float) -> None:
        pause_s = self._back_off_s(SILENT_BACK_OFF_S)
        self._why = f"no data: unplug the meter's USB port marked PC and plug it in again; next try in {pause_s:g} s"
        self._switch_family()
        self._do(now_s, _REOPEN)
        self._due_s = now_s + pause_s

    def _switch_family(self) -> None:
        self.family = "A" if self.family == "B" else "B"

    def _back_off_s(self, pauses_s: tuple[float, ...]) -> float:
        self._attempts += 1
        return pauses_s[min(self._attempts, len(pauses_s)) - 1]
