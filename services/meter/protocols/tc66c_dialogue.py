"""Asking a TC66 for its readings: one request at a time, and no reply is taken for that of another request.

Pure: moments of the monotonic clock come as arguments. The rules answer what went wrong for others: libsigrok repeats
a request without waiting for silence and loses step for ever; PQCEnergyPi finds the first reply after opening stale.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

from errors import FrameError
from meter.protocols.tc66c import (
    BOOTLOADER,
    LAST_BLOCK,
    MEASURING,
    POLL,
    QUERY,
    Tc66Reply,
    decode_reply,
    find_reply,
)

QUIET_NS = 100_000_000
"""Silence that ends a reply, and that must pass before the next request when something went wrong."""
REPLY_TIMEOUT_NS = 1_000_000_000
"""As libsigrok waits."""
QUIET_TIMEOUT_NS = 3_000_000_000
"""A port that never falls silent belongs to something that talks unasked, such as a GPS receiver."""
MOST_QUERIES = 2
MOST_FAILURES = 5
"""Polls in a row without a reading: then the port is opened anew."""
LATE_NS = 50_000_000
"""An answer that takes so much longer than twice the usual is not used: a busy host has read it late, and the middle
between request and answer would be wrong by half of that."""
_MEMORY = 8
"""Answers that the usual time is averaged over, exponentially."""
_MOST_BYTES = 1024


class _State(Enum):
    SETTLING = auto()
    READY = auto()
    ASKED = auto()


@dataclass(frozen=True, slots=True)
class Tc66Sample:
    """A reply with the moments between which the meter made it, in ns of the monotonic clock."""

    reply: Tc66Reply
    asked_ns: int
    answered_ns: int
    """When its first bytes had come."""
    late_ns: int
    """How long the request went out after it could have: the host was busy."""

    @property
    def t_ns(self) -> int:
        """The middle between request and answer: off by at most half of what lies between them, evenly distributed."""
        return (self.asked_ns + self.answered_ns) // 2


class Tc66Dialogue:
    """What to send when, and what the bytes that come are worth. Every method may raise FrameError: this is no TC66."""

    def __init__(self, now_ns: int, period_ns: int, rejected: Counter[str]) -> None:
        self._period_ns = period_ns
        self._rejected = rejected
        self._state = _State.SETTLING
        self._since_ns = self._heard_ns = self._asked_ns = self._slot_ns = self._ready_ns = now_ns
        self._first_ns: int | None = None
        self._late_ns = 0
        self._slowest_ns = 0
        self._usual_ns: float | None = None
        self._is_tc66 = False
        self.identity: Tc66Reply | None = None
        self._discard = "after_opening"
        self._failures = 0
        self._received = bytearray()
        self._problem = ""

    @property
    def wake_ns(self) -> int:
        """When `request` has something to do, should nothing be heard before."""
        if self._state is _State.SETTLING:
            return self._heard_ns + self._quiet_ns
        if self._state is _State.READY:
            return self._slot_ns
        timeout_ns = self._asked_ns + REPLY_TIMEOUT_NS
        return timeout_ns if self._first_ns is None else min(timeout_ns, self._heard_ns + QUIET_NS)

    def request(self, now_ns: int) -> bytes:
        """What must be sent now; empty while nothing is due."""
        if now_ns < self.wake_ns:
            return b""
        if self._state is _State.ASKED:
            self._give_up(now_ns)
        if self._state is _State.SETTLING and now_ns >= self.wake_ns:
            self._ready_ns = self.wake_ns
            self._state = _State.READY
        if self._state is not _State.READY or now_ns < self._slot_ns:
            return b""
        return self._ask(now_ns)

    def _ask(self, now_ns: int) -> bytes:
        self._state = _State.ASKED
        self._late_ns = now_ns - max(self._slot_ns, self._ready_ns)
        next_ns = self._slot_ns + self._period_ns
        self._slot_ns = next_ns if next_ns > now_ns else now_ns + self._period_ns
        self._asked_ns, self._first_ns = now_ns, None
        self._received.clear()
        self._problem = ""
        return POLL if self._is_tc66 else QUERY

    def hear(self, data: bytes, now_ns: int) -> Tc66Sample | None:
        """A sample, when these bytes complete a reply that can be used."""
        self._heard_ns = now_ns
        if self._state is not _State.ASKED:
            self._hear_unasked(now_ns)
            return None
        self._first_ns = self._first_ns or now_ns
        self._received += data
        if len(self._received) > _MOST_BYTES:
            self._fail("overlong", now_ns)
        elif self._is_tc66:
            return self._hear_reading(now_ns)
        else:
            self._hear_mode(now_ns)
        return None

    @property
    def _quiet_ns(self) -> int:
        """Longer where the meter is slow: a reply that is late must have come before the next request goes out."""
        return min(max(QUIET_NS, 2 * self._slowest_ns), REPLY_TIMEOUT_NS)

    def _hear_unasked(self, now_ns: int) -> None:
        if self._state is _State.READY:
            self._rejected["unasked"] += 1
            self._settle(now_ns, "after_unasked")
        elif now_ns - self._since_ns > QUIET_TIMEOUT_NS:
            raise FrameError("the port never falls silent: this is no TC66")

    def _hear_mode(self, now_ns: int) -> None:
        mode = bytes(self._received).strip(b"\r\n\0 ")
        if mode == BOOTLOADER:
            raise FrameError("the TC66 waits for a new firmware: plug it in again without holding a button")
        if mode == MEASURING:
            self._is_tc66 = True
            self._failures = 0
            self._settle(now_ns, "after_opening")

    def _hear_reading(self, now_ns: int) -> Tc66Sample | None:
        found = find_reply(bytes(self._received))
        if found is None:
            return None
        try:
            reply = decode_reply(found)
        except FrameError as error:
            self._problem = str(error).partition(":")[0]
            if found.endswith(LAST_BLOCK):
                self._fail(self._problem, now_ns)
            return None
        return self._accept(reply, now_ns)

    def _accept(self, reply: Tc66Reply, now_ns: int) -> Tc66Sample | None:
        answered_ns = self._first_ns or now_ns
        self._failures = 0
        self.identity = reply
        self._slowest_ns = max(self._slowest_ns, now_ns - self._asked_ns)
        is_late = self._is_late(answered_ns - self._asked_ns)
        if self._discard:
            self._rejected[self._discard] += 1
            self._settle(now_ns, "")
            return None
        self._state = _State.READY
        self._ready_ns = now_ns
        if is_late:
            self._rejected["late"] += 1
            return None
        return Tc66Sample(reply, self._asked_ns, answered_ns, self._late_ns)

    def _is_late(self, took_ns: int) -> bool:
        usual_ns = took_ns if self._usual_ns is None else self._usual_ns
        self._usual_ns = usual_ns + (took_ns - usual_ns) / _MEMORY
        return took_ns > 2 * usual_ns + LATE_NS

    def _give_up(self, now_ns: int) -> None:
        if self._first_ns is None:
            self._fail("no_reply", now_ns)
            return
        self._fail(self._problem or "short", self._heard_ns)

    def _fail(self, reason: str, quiet_since_ns: int) -> None:
        self._rejected[reason] += 1
        self._failures += 1
        if not self._is_tc66 and self._failures >= MOST_QUERIES:
            raise FrameError("no TC66 answers here; if it is one, plug it in anew (micro-USB port of the meter)")
        if self._failures >= MOST_FAILURES:
            raise FrameError(f"the TC66 answers no more ({reason})")
        self._settle(quiet_since_ns, "after_no_reply" if reason == "no_reply" else self._discard)

    def _settle(self, quiet_since_ns: int, discard: str) -> None:
        """Wait for silence. With a reason to discard, what the next request brings may answer an earlier one."""
        self._state = _State.SETTLING
        self._since_ns = self._heard_ns = quiet_since_ns
        self._discard = discard
        self._received.clear()


class EnergyCounter:
    """Both energy groups of a TC66 as one counter, since only the group that is chosen on the meter counts.

    It decreases when somebody clears a group, and never else: a reader must take a decrease for a reset, not for energy
    given back. A group that passes 2^32 steps goes on.
    """

    _WRAP = 2**32
    _NEAR = 1000
    """Steps of 3.6 J: 24 s at 150 W, the most that such a meter can carry."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._wraps = 0
        self.resets = 0

    def add(self, steps: tuple[int, int]) -> int:
        """The counter in steps after a reply with these."""
        fallen = [(before, now) for before, now in zip(self._last or steps, steps, strict=True) if now < before]
        wrapped = [before >= self._WRAP - self._NEAR and now < self._NEAR for before, now in fallen]
        self._wraps += sum(wrapped)
        self.resets += not all(wrapped)
        self._last = steps
        return sum(steps) + self._wraps * self._WRAP
