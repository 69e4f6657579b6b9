"""When samples were taken, from when their reports arrived (DESIGN.md 3). Pure: times come as arguments.

Meters of the FNIRSI family send no time and no sequence number (METERS.md 1). The newest sample of a report is taken to
be as old as the least delayed report is late, i.e. it carries the time of the envelope; the others lie before it, one
sample period apart. A constant delay of meter and USB is not seen here: it is part of `power_latency_s`.

Reports are held back, and placed together a little later, in two cases: the first ones after opening, until the
envelope is known (25 reports, 1 s), and where a report seems missing, until the next one shows whether it is lost or
whether several were only late together. So every count of lost reports is final. A busy host may be kept from reading
twice in a row, and then the next one proves nothing: who reads a queue says with `settle` that nothing waits there.

What waited while the host was away for long is placed by `catch_up`, right after what came before: a queue that
overflows, and a meter that nobody told to go on, both lose the newest. By the moment of reading nobody could know it.
"""

from dataclasses import dataclass

from meter.envelope import Envelope

FIRST_REPORTS = 25
HIDRAW_QUEUE_REPORTS = 63
"""What Linux keeps for a reader that sleeps (drivers/hid/hidraw.c, 64 slots of which 63 hold); it drops the newest."""
_MOST_HELD = 256
_QUIET_PERIODS = 0.25
"""Reports that are late by just a period are followed by the next within an eighth of one, and its own delay."""
_PHASE_KEPT_REPORTS = 2
"""Of a backlog, so many may still be under way; where more are missing the meter has stopped and begins anew."""
_CLOSE_PERIODS = 0.875
_LEAST_STEP = 0.1
"""Samples are never closer than a tenth of their period, however the envelope moves."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The sample times of one report in ns, oldest first, and how many reports are missing before it."""

    times_ns: tuple[int, ...]
    lost_reports: int


class SampleTimeline:
    """Places reports in the order of their arrival. The times of all samples increase strictly.

    `place` returns, in order, the reports that can be placed now: usually the one that is given, sometimes none, then
    several. Who calls keeps the contents of reports in a queue beside.
    """

    def __init__(
        self, report_period_ns: int, samples_per_report: int, queue_reports: int | None = HIDRAW_QUEUE_REPORTS
    ) -> None:
        """`queue_reports`: with so many waiting, what overflowed was newer; None: the oldest are dropped."""
        self._samples = samples_per_report
        self._queue = queue_reports
        self._nominal_ns = report_period_ns
        self._known_ns: float = report_period_ns
        self._envelope: Envelope | None = None
        self._held: list[int] = []
        self._arrival_ns: int | None = None
        self._zero_ns: int | None = None
        self._last_index: int | None = None
        self._last_ns: int | None = None

    @property
    def report_period_ns(self) -> float:
        """One report by the host's clock, as measured; the nominal one until something is known."""
        return self._envelope.period_ns if self._envelope else self._known_ns

    @property
    def held(self) -> int:
        """Reports that wait to be placed."""
        return len(self._held)

    @property
    def is_known(self) -> bool:
        """Whether there is an envelope: without it nobody can say when a report that had to wait was sent."""
        return self._envelope is not None

    @property
    def quiet_ns(self) -> float | None:
        """How long nothing must come before `settle` helps; None where nothing is in doubt."""
        in_doubt = len(self._held) >= (FIRST_REPORTS if self._envelope is None else 1)
        return _QUIET_PERIODS * self.report_period_ns if in_doubt else None

    def place(self, arrival_ns: int, is_last: bool = True) -> list[Placed]:
        """What can be placed now that a report came at this moment of a clock that never steps.

        `is_last` False: others may wait behind it, and `settle` will say that none does.
        """
        if self._zero_ns is None:
            self._zero_ns = arrival_ns  # small numbers: float arithmetic is exact to far below a ns
        self._arrival_ns = arrival_ns
        self._held.append(arrival_ns - self._zero_ns)
        if self._envelope is None:
            return self._release() if len(self._held) >= (1 if is_last else 2) * FIRST_REPORTS else []
        is_settled = self._is_complete(self._envelope) or (is_last and self._is_apart(self._envelope))
        return self._release() if is_settled else []

    def is_close(self, arrival_ns: int) -> bool:
        """Whether less than a period has passed since the report before."""
        return self._arrival_ns is not None and arrival_ns - self._arrival_ns < _CLOSE_PERIODS * self.report_period_ns

    def has_slot(self, arrival_ns: int) -> bool:
        """Whether a slot is left for a report of this moment; so until slots are known."""
        if self._envelope is None or self._last_index is None:
            return True
        return self._envelope.slot(arrival_ns - self._origin()) - self._last_index > len(self._held)

    def catch_up(self, reports: int, now_ns: int) -> list[Placed]:
        """So many waited until now for a host that was away, maybe none: they and what was held can be placed.

        Only where the timeline `is_known`.
        """
        now = now_ns - self._origin()
        self._held += [now] * reports
        placed = self._release(reports)
        if self._envelope is None or self._last_index is None:
            return placed
        if self._envelope.slot(now) - self._last_index > _PHASE_KEPT_REPORTS:
            self.restart()
        return placed

    def settle(self, silent_until_ns: int) -> list[Placed]:
        """What can be placed now that nothing has come from the last report to this moment, in which nothing waited."""
        quiet_ns = self.quiet_ns
        if quiet_ns is None or silent_until_ns - self._origin() - self._held[-1] < quiet_ns:
            return []
        return self._release() if self._envelope is None or self._is_apart(self._envelope) else []

    def restart(self) -> list[Placed]:
        """What was held, placed as well as it can be. The next report begins anew: for a meter that was away."""
        placed = self._release()
        self._known_ns = self.report_period_ns
        self._envelope = self._last_index = None
        return placed

    def _is_complete(self, envelope: Envelope) -> bool:
        """Nothing seems to be missing, or too many are held."""
        slot = envelope.slot(self._held[-1])
        last_index = self._last_index if self._last_index is not None else -1
        return slot - last_index <= len(self._held) or len(self._held) >= _MOST_HELD

    def _is_apart(self, envelope: Envelope) -> bool:
        """A report came apart from those before it, so no more of them are waiting."""
        if len(self._held) < 2:
            return False
        apart = self._held[-1] - self._held[-2] >= envelope.period_ns / 8
        return apart and envelope.slot(self._held[-1]) > envelope.slot(self._held[0])

    def _release(self, waiting: int = 0) -> list[Placed]:
        arrivals, self._held = self._held, []
        if not arrivals:
            return []
        envelope = self._envelope = self._envelope or Envelope(self._nominal_ns, arrivals, self._known_ns)
        placed: list[Placed] = []
        told = len(arrivals) - waiting
        for row, index in enumerate(self._indexes(envelope, arrivals, told)):
            placed.append(self._placed(envelope, index, arrivals[row]))
            if row < told:  # what waited knows nothing of the envelope
                envelope.add(index, arrivals[row])
        return placed

    def _indexes(self, envelope: Envelope, arrivals: list[int], told: int) -> list[int]:
        """Each as late as its arrival allows, so that what is lost was lost first; but see `queue_reports`.

        The first ones `told` it; those behind them waited, and follow them.
        """
        slots = [envelope.slot(arrival) for arrival in arrivals]
        last = self._last_index
        if last is not None and self._queue is not None and len(arrivals) > self._queue:
            slots[:-1] = range(last + 1, last + len(arrivals))
        for row in range(len(slots) - 2, -1, -1):
            slots[row] = min(slots[row], slots[row + 1] - 1)
        indexes: list[int] = []
        for row, slot in enumerate(slots):
            follows = last is not None and row >= told
            last = slot if last is None else last + 1 if follows else max(slot, last + 1)
            indexes.append(last)
        return indexes

    def _placed(self, envelope: Envelope, index: int, arrival: int) -> Placed:
        """Newest sample on the envelope; never after its arrival, never before what was said already."""
        period_ns = envelope.period_ns
        newest_ns = self._origin() + round(min(envelope.at(index), arrival))
        lost = self._lost_before(newest_ns, index, period_ns)
        step_ns = period_ns / self._samples
        if self._last_ns is not None:
            newest_ns = max(newest_ns, self._last_ns + round(_LEAST_STEP * period_ns))
            step_ns = min(step_ns, (newest_ns - self._last_ns) / self._samples)
        self._last_index, self._last_ns = index, newest_ns
        times_ns = (newest_ns - round(step_ns * before) for before in range(self._samples - 1, -1, -1))
        return Placed(tuple(times_ns), lost)

    def _lost_before(self, newest_ns: int, index: int, period_ns: float) -> int:
        """After an absence its length says it; for a meter without power that is what it would have sent."""
        if self._last_index is not None:
            return index - self._last_index - 1
        if self._last_ns is None:
            return 0
        return max(0, round((newest_ns - self._last_ns) / period_ns) - 1)

    def _origin(self) -> int:
        return self._zero_ns or 0
