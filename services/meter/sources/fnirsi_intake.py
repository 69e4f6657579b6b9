"""What comes of the reports of a FNIRSI meter: placed samples, and a count of everything else. Pure."""

from collections import Counter, deque

from meter.protocols.fnirsi import (
    SAMPLES_PER_REPORT,
    DataReport,
    InfoReport,
    OtherReport,
    Refused,
    SupplySample,
    decode,
)
from meter.rates import Rates
from meter.readings import Counts
from meter.timeline import Placed, SampleTimeline

AFTER_OPENING = 2
"""Data reports dropped after each opening: a stale one was seen, and a double-buffered USB endpoint holds two."""

PlacedSample = tuple[int, SupplySample]
"""When, in ns of the clock of the arrivals, and what."""


class ReportIntake:
    """Reports in, samples out, in order. It lives as long as the source, over all absences of the meter."""

    def __init__(self, sample_period_ns: int) -> None:
        self._timeline = SampleTimeline(SAMPLES_PER_REPORT * sample_period_ns, SAMPLES_PER_REPORT)
        self._held: deque[DataReport] = deque()
        self._ready: list[PlacedSample] = []
        self._to_drop = AFTER_OPENING
        self._rejected: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()
        self._lost_samples = self._gaps = 0
        self.rates = Rates()
        self.firmware: str | None = None
        self.temperature_c: float | None = None
        self.refused: str | None = None
        """Why the last report was refused, if no sound one with samples has come since."""

    @property
    def counts(self) -> Counts:
        """Refused reports by reason, reports without samples by type, lost samples and gaps."""
        return Counts(dict(self._rejected), dict(self._ignored), self._lost_samples, self._gaps)

    def opened(self) -> None:
        """The meter was opened (again): what waits in it is stale."""
        self._to_drop = AFTER_OPENING
        self.restart()

    def restart(self) -> None:
        """The stream was interrupted: what comes next has a phase of its own."""
        self._give(self._timeline.restart())

    @property
    def quiet_s(self) -> float | None:
        """How long a read must wait in vain to show that nothing is under way; None where that is of no use."""
        quiet_ns = self._timeline.quiet_ns
        return None if quiet_ns is None else quiet_ns / 1e9

    def silent(self, until_ns: int) -> None:
        """A read has waited in vain until this moment of the clock of the arrivals."""
        self._give(self._timeline.settle(until_ns))

    def take(self, report: bytes, arrival_ns: int) -> bool:
        """Whether the report brought samples that count. A refused one leaves a gap, which the timeline finds."""
        said = decode(report)
        if isinstance(said, DataReport):
            return self._take_data(said, arrival_ns)
        if isinstance(said, Refused):
            self.refused = said.reason
            self._rejected[said.reason] += 1
        elif isinstance(said, OtherReport):
            self._ignored[f"type_{said.type:02x}"] += 1
        elif isinstance(said, InfoReport):
            self.firmware = said.firmware or self.firmware
        return False

    def pop(self) -> list[PlacedSample]:
        """The samples that have been placed since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def _take_data(self, said: DataReport, arrival_ns: int) -> bool:
        if self._to_drop:
            self._to_drop -= 1
            self._rejected["after_opening"] += 1
            return False
        self.refused = None
        self.temperature_c = said.samples[-1].temperature_c
        self._held.append(said)
        self._give(self._timeline.place(arrival_ns, is_last=False))
        return True

    def _give(self, placed: list[Placed]) -> None:
        for place in placed:
            samples = self._held.popleft().samples
            if place.lost_reports:
                self._gaps += 1
                self._lost_samples += place.lost_reports * SAMPLES_PER_REPORT
            self.rates.add(place.times_ns[-1], [(each.voltage_10uv, each.current_10ua) for each in samples])
            self._ready += zip(place.times_ns, samples, strict=True)
