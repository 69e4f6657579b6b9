"""What comes of the reports of a FNIRSI meter: placed samples, and a count of everything else. Pure."""

from collections import Counter, deque
from collections.abc import Sequence

from meter.protocols.fnirsi import (
    DATA,
    REPORT_BYTES,
    SAMPLES_PER_REPORT,
    START,
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
        self._held: deque[DataReport | None] = deque()
        self._last_report = b""
        self._missing_reports = 0
        self._ready: list[PlacedSample] = []
        self._to_drop = AFTER_OPENING
        self._rejected: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()
        self.lost_samples = self.gaps = 0
        self.rates = Rates()
        self.firmware: str | None = None
        self.temperature_c: float | None = None
        self.refused: str | None = None
        """Why the last report was refused, if no sound one with samples has come since."""

    @property
    def counts(self) -> Counts:
        """Refused reports by reason, reports without samples by type, lost samples and gaps."""
        return Counts(dict(self._rejected), dict(self._ignored), self.lost_samples, self.gaps)

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
        """Whether the report brought samples that count. What else is missing the timeline finds."""
        slots = self._slots(report)
        if not slots or self._is_again(report, arrival_ns, slots):
            return False
        self._held += slots
        self._give(self._timeline.place(arrival_ns, is_last=False))
        return slots != [None]

    def catch_up(self, waited: Sequence[bytes], now_ns: int) -> bool:
        """Reports that waited until now while the host was away: whether any brought samples that count."""
        slots = [slot for report in waited for slot in self._slots(report)]
        self._last_report = b""
        if self._timeline.is_known:
            self._held += slots
            self._give(self._timeline.catch_up(len(slots), now_ns))
        else:
            self._rejected["after_stall"] += sum(slot is not None for slot in slots)
            self.restart()
        return any(slot is not None for slot in slots)

    def pop(self) -> list[PlacedSample]:
        """The samples that have been placed since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def _slots(self, report: bytes) -> list[DataReport | None]:
        """The slot of the stream that a report fills, if any: a damaged data report has one, and no samples."""
        said = decode(report)
        if isinstance(said, DataReport):
            return self._of_data(said)
        if isinstance(said, Refused):
            self.refused = said.reason
            self._rejected[said.reason] += 1
            is_data = len(report) == REPORT_BYTES and report[:2] == bytes([START, DATA])
            return [None] if is_data and not self._to_drop else []
        if isinstance(said, OtherReport):
            self._ignored[f"type_{said.type:02x}"] += 1
        elif isinstance(said, InfoReport):
            self.firmware = said.firmware or self.firmware
        return []

    def _of_data(self, said: DataReport) -> list[DataReport | None]:
        if self._to_drop:
            self._to_drop -= 1
            self._rejected["after_opening"] += 1
            return []
        self.refused = None
        self.temperature_c = said.samples[-1].temperature_c
        return [said]

    def _is_again(self, report: bytes, arrival_ns: int, slots: list[DataReport | None]) -> bool:
        """Whether it is the report before, sent twice. Values that are only held come in a slot of their own."""
        is_same = report == self._last_report and self._timeline.is_close(arrival_ns)
        is_held = all(said is None or len(set(said.samples)) == 1 for said in slots)
        is_again = is_same and not (is_held and self._timeline.has_slot(arrival_ns))
        self._last_report = b"" if is_again else report  # nothing is sent three times
        self._rejected += Counter({"duplicate": 1} if is_again else {})
        return is_again

    def _give(self, placed: list[Placed]) -> None:
        for place in placed:
            said = self._held.popleft()
            self._missing_reports += place.lost_reports + (said is None)
            if said is None:
                continue
            self._count_missing()
            values = [(each.voltage_10uv, each.current_10ua) for each in said.samples]
            self.rates.add(place.times_ns[-1], values)
            self._ready += zip(place.times_ns, said.samples, strict=True)

    def _count_missing(self) -> None:
        """Neighbours are one gap, whether lost or damaged."""
        missing, self._missing_reports = self._missing_reports, 0
        self.gaps += missing > 0
        self.lost_samples += missing * SAMPLES_PER_REPORT
