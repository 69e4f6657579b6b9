"""What `opjoule watch` knows of the boards, from the messages that came. Pure: times are those of the messages."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import ValidationError

from aggregator.clocks import Timeline, place, shifted
from aggregator.intake import parse_status
from bus.interface import Received
from errors import ContractError
from schemas import ClockState, EnergyResult, OperationEvent, SampleBatch, ServiceStatus, parse_topic

RESULTS_KEPT = 5
_TRAINS_KEPT = 16
"""Whose results are waited for."""
Board = tuple[str, str]
News = SampleBatch | EnergyResult | OperationEvent | ServiceStatus
_MODELS: dict[str, type[SampleBatch] | type[EnergyResult] | type[OperationEvent]] = {
    "samples": SampleBatch,
    "results": EnergyResult,
    "operations": OperationEvent,
}


@dataclass
class Trace:
    """The last samples of one meter, on its timeline, and the load segments that fall into them."""

    timeline: Timeline
    simulated: bool
    samples: deque[tuple[int, float]] = field(default_factory=deque)
    loads: deque[tuple[int, int]] = field(default_factory=deque)
    unplaced: deque[OperationEvent] = field(default_factory=lambda: deque(maxlen=_TRAINS_KEPT))
    """Trains of another host, until their results say how its clock goes."""

    @property
    def end_ns(self) -> int:
        """Time of the newest sample; 0 where there is none."""
        return self.samples[-1][0] if self.samples else 0

    def add(self, batch: SampleBatch, window_ns: int) -> None:
        """Take samples, forget those that have left the window."""
        self.samples.extend(
            (batch.start_ns + 1000 * offset, power_w)
            for offset, power_w in zip(batch.offset_us, batch.power_w, strict=True)
        )
        while self.samples and self.samples[0][0] < self.end_ns - window_ns:
            self.samples.popleft()
        while self.loads and self.loads[0][1] < self.end_ns - window_ns:
            self.loads.popleft()

    def mark(self, event: OperationEvent) -> None:
        """Take the load segments of a train, as soon as it is known where they lie on the meter's timeline."""
        clock = place(Timeline(event.timeline_id, event.host_clock), self.timeline)
        if clock.method == "assumed":
            self.unplaced.append(event)
        else:
            self._mark(event, clock)

    def learn(self, result: EnergyResult) -> None:
        """The aggregator has compared the clocks of a train's host and of this meter's."""
        clock = result.clock
        if clock is None or clock.method == "assumed":
            return
        for event in [each for each in self.unplaced if each.event_id == result.event_id]:
            self.unplaced.remove(event)
            self._mark(event, clock)

    def _mark(self, event: OperationEvent, clock: ClockState) -> None:
        self.loads.extend(
            (each.start_ns, each.end_ns) for each in shifted(event.segments, clock) if each.kind == "load"
        )

    def columns(self, count: int, window_ns: int) -> list[float | None]:
        """Mean power of each of `count` equal parts of the window; None where there is no sample."""
        sums, numbers = [0.0] * count, [0] * count
        first_ns = self.end_ns - window_ns
        for t_ns, power_w in self.samples:
            column = min(count - 1, max(0, (t_ns - first_ns) * count // window_ns))
            sums[column] += power_w
            numbers[column] += 1
        return [total / number if number else None for total, number in zip(sums, numbers, strict=True)]

    def loaded(self, count: int, window_ns: int) -> list[bool]:
        """Whether the middle of each part of the window is in a load segment that is known."""
        first_ns = self.end_ns - window_ns
        middles = [first_ns + (2 * column + 1) * window_ns // (2 * count) for column in range(count)]
        return [any(start <= middle < end for start, end in self.loads) for middle in middles]


@dataclass
class Watched:
    """All boards that were heard of, or the one that was asked for."""

    window_ns: int
    dut: str | None = None
    traces: dict[Board, dict[str, Trace]] = field(default_factory=dict)
    results: dict[Board, deque[EnergyResult]] = field(default_factory=dict)
    runners: dict[Board, ServiceStatus] = field(default_factory=dict)

    @property
    def boards(self) -> list[Board]:
        """In the order of their names."""
        return sorted({*self.traces, *self.results, *self.runners})

    def take(self, messages: Iterable[Received]) -> list[tuple[str, News]]:
        """What is news of a board that is watched, with its site; what cannot be read is the aggregator's business."""
        found = []
        for message in messages:
            heard = _heard(message)
            if heard is not None and self._note(*heard):
                found.append(heard)
        return found

    def _note(self, site: str, news: News) -> bool:
        if isinstance(news, ServiceStatus):
            duts = [dut for dut in news.duts if self._wanted(dut)] if news.service == "runner" else []
            for dut in duts:
                self.runners[site, dut] = news
            return bool(duts)
        if not self._wanted(news.dut):
            return False
        board = (site, news.dut)
        if isinstance(news, SampleBatch):
            self._trace(board, news).add(news, self.window_ns)
        elif isinstance(news, OperationEvent):
            for trace in self.traces.get(board, {}).values():
                trace.mark(news)
        else:
            self.results.setdefault(board, deque(maxlen=RESULTS_KEPT)).append(news)
            if news.meter in (traces := self.traces.get(board, {})):
                traces[news.meter].learn(news)
        return True

    def _trace(self, board: Board, batch: SampleBatch) -> Trace:
        """The trace of a meter; a new one where its timeline is new."""
        meters = self.traces.setdefault(board, {})
        timeline = Timeline(batch.timeline_id, batch.host_clock)
        if batch.meter not in meters or meters[batch.meter].timeline != timeline:
            meters[batch.meter] = Trace(timeline, batch.meter_kind == "simulated")
        return meters[batch.meter]

    def _wanted(self, dut: str) -> bool:
        return self.dut is None or dut == self.dut


def _heard(message: Received) -> tuple[str, News] | None:
    """Site and news; None where it cannot be read, or where the payload claims to be of another than its topic."""
    address = parse_topic(message.topic)
    if address is None:
        return None
    try:
        if address.kind == "status":
            return parse_status(message.topic, message.payload)
        if address.kind not in _MODELS:
            return None
        news = _MODELS[address.kind].model_validate_json(message.payload)
    except (ContractError, ValidationError):
        return None
    return (address.site, news) if (news.site, news.dut) == (address.site, address.dut) else None
