"""The aggregator's loop: take in, commit, acknowledge, join, compute, store, publish."""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from importlib.metadata import version
from uuid import UUID

from aggregator.asking import ClockAsker
from aggregator.clocks import Timeline
from aggregator.crypto import null_key, with_crypto
from aggregator.intake import kind_of, parse, parse_status, rejected
from aggregator.join import Finished, Held, Joiner
from aggregator.journal import Arrival, Journal, held_of
from aggregator.journal_exchanges import Heard
from aggregator.journal_tables import ResultFilter
from aggregator.outcome import of_view, revised
from aggregator.placing import Placer
from aggregator.receipts import receipts
from aggregator.result import without_meter, without_samples
from aggregator.settings import AggregatorSettings
from aggregator.sinks.home_assistant import HomeAssistant
from aggregator.sinks.outbox import StoreOutbox
from aggregator.sinks.pools import Pools
from aggregator.sinks.results_topic import ResultsTopic
from aggregator.views import Views
from bus import Bus, Received
from clock import ServiceClock
from errors import ContractError
from schemas import EnergyResult, OperationEvent, SampleBatch, parse_topic, topic_filter
from schemas.topics import Kind

log = logging.getLogger(__name__)

GROUP_MESSAGES = 256
"""A group of messages that is committed together is no larger."""
SOFTWARE = f"opjoule {version('opjoule')}"


class Aggregator:
    """Joins samples and trains. All that it knows is in the journal; a new one goes on where a killed one stopped."""

    def __init__(
        self,
        bus: Bus,
        journal: Journal,
        clock: ServiceClock,
        settings: AggregatorSettings,
        store: StoreOutbox | None = None,
        home_assistant: HomeAssistant | None = None,
    ) -> None:
        self._bus, self._journal, self._clock, self._settings, self._store = bus, journal, clock, settings, store
        self._home_assistant = home_assistant
        self._views = Views(journal, settings.gain_u_by_meter)
        self._placer = Placer(journal.exchanges)
        self._joiner = Joiner(deadline_ns=round(settings.hold_s * 1e9), placing=self._placer.now)
        self._asker = ClockAsker(bus, clock, settings.without_meter)
        self._sink, self._pools = ResultsTopic(bus, journal), Pools(bus, journal, store)
        self.counts: Counter[str] = Counter(messages=0, duplicates=0, rejected=0, results=0)
        for row in journal.streams():
            self._joiner.set_stream(row.stream)
        for train in journal.held():
            self._joiner.add_train(train)
        self._finished = Finished(self._placer.rough_ns)
        for train in journal.last_done():
            self._finished.note(train)

    @property
    def held(self) -> int:
        """How many trains wait for samples."""
        return self._joiner.held

    def clock_figures(self) -> dict[str, float]:
        """Clock exchanges so far, and the worst bound of a clock of those that are there."""
        return self._asker.figures()

    def subscribe(self) -> None:
        """Ask the broker for what publishers of the sites served say: samples, operations, how they are, clocks."""
        sites = self._settings.sites or ("+",)
        kinds: tuple[Kind, ...] = ("samples", "operations", "status", "pong")
        self._bus.subscribe([topic_filter(kind, site) for site in sites for kind in kinds])

    def resume(self) -> None:
        """What the process before this one had committed and not yet computed; nothing new where it had.

        It had committed one group of messages at most, and stored the results of one train at most, before their
        consequences: revisions of earlier trains by late batches, and by a null train.
        """
        self._revise_late(self._journal.last_batches(GROUP_MESSAGES))
        last = self._journal.results.last()
        for null in self._journal.results.nulls_near(last) if last is not None else []:
            self._revise_crypto(null)
        for site, dut in self._joiner.duts():
            meterless = dut in self._settings.without_meter
            self._finish(self._joiner.take(site, dut) if meterless else self._complete(site, dut))

    def step(self, timeout_s: float) -> None:
        """One round: what came in `timeout_s` is committed, acknowledged and made into results."""
        messages = self._gather(timeout_s)
        if messages:
            self._take_in(messages)
        self._asker.ask()
        for site, dut in self._joiner.wait_for_clocks():
            self._finish(self._complete(site, dut))
        self._release_overdue()
        self._sink.publish()
        self._pools.step()
        if self._store is not None:
            self._store.step()

    def _gather(self, timeout_s: float) -> list[Received]:
        messages = self._bus.receive(timeout_s, GROUP_MESSAGES)
        deadline_s = time.monotonic() + self._settings.group_s
        while messages and len(messages) < GROUP_MESSAGES and (left_s := deadline_s - time.monotonic()) > 0:
            messages += self._bus.receive(left_s, GROUP_MESSAGES - len(messages))
        return messages

    def _take_in(self, messages: Sequence[Received]) -> None:
        """Commit, then acknowledge and send receipts, then compute: nothing acknowledged can be lost."""
        now_ns = self._clock.now_ns()
        arrivals: list[Arrival] = []
        heard: list[Heard] = []
        for received in messages:
            try:
                self._sort(received, arrivals, heard)
            except ContractError as error:
                self._refuse(received.topic, received.payload, str(error))
        committed = self._journal.commit(arrivals, now_ns, heard)
        new, refused = committed.new, [arrival for arrival, _ in committed.refused]
        for arrival, reason in committed.refused:
            self._refuse(arrival.topic, arrival.payload, reason)
        self._bus.acknowledge(messages)
        for receipt in receipts([arrival.message for arrival in arrivals if arrival not in refused]):
            self._bus.publish("journaled", receipt.site, receipt, dut=receipt.dut)
        self.counts["messages"] += len(messages)
        self.counts["duplicates"] += len(arrivals) - len(new) - len(refused)
        if self._home_assistant is not None:
            for arrival in new:
                self._home_assistant.saw(arrival.message)
        self._join([arrival.message for arrival in new], now_ns)

    def _sort(self, received: Received, arrivals: list[Arrival], heard: list[Heard]) -> None:
        """What came is for the journal, an answer of a clock, or a status. Raises ContractError."""
        kind = kind_of(received.topic)
        if kind == "status":
            self._note_status(received)
        elif kind == "pong":
            heard += filter(None, [self._asker.heard(received)])
        else:
            message = parse(received.topic, received.payload, received.retained)
            arrivals.append(Arrival(message, received.payload, received.topic))

    def _note_status(self, received: Received) -> None:
        """Who is there to be asked; health for those who show it. Our own is put into the store as it is made."""
        site, status = parse_status(received.topic, received.payload)
        figures = self._asker.saw_status(site, status)
        if self._home_assistant is not None:
            self._home_assistant.saw_status(site, status)
        if self._store is not None and (status.service, status.instance) != ("aggregator", self._settings.instance):
            self._store.health(site, status.model_copy(update={"health": {**status.health, **figures}}))

    def _refuse(self, topic: str, payload: bytes, reason: str) -> None:
        """Count, log and publish; below our own site where the topic names none."""
        self.counts["rejected"] += 1
        log.warning("refused a message on %s (%d so far): %s", topic, self.counts["rejected"], reason)
        address = parse_topic(topic)
        site = address.site if address is not None else self._settings.site
        self._bus.publish("rejected", site, rejected(topic, payload, reason))

    def _join(self, new: Sequence[SampleBatch | OperationEvent], now_ns: int) -> None:
        batches = [message for message in new if isinstance(message, SampleBatch)]
        events = [message for message in new if isinstance(message, OperationEvent)]
        self._revise_late(batches)
        for event in events:
            self._joiner.add_train(held_of(event, now_ns))
        duts = sorted({(message.site, message.dut) for message in new})
        for site, dut in duts:
            for row in self._journal.streams(site, dut):
                self._joiner.set_stream(row.stream)
        meterless = [event for event in events if event.dut in self._settings.without_meter]
        self._finish([train for event in meterless for train in self._joiner.take(event.site, event.dut)])
        self._finish([train for site, dut in duts for train in self._complete(site, dut)])

    def _complete(self, site: str, dut: str) -> list[Held]:
        return self._joiner.complete(site, dut, self._clock.now_ns())

    def _release_overdue(self) -> None:
        overdue = self._joiner.overdue(self._clock.now_ns())
        for train in overdue:
            log.warning("train %s of %s: no more waiting for samples or clocks", train.event_id, train.dut)
        self._finish(overdue, overdue=True)
        for site, dut in sorted({(train.site, train.dut) for train in overdue}):
            self._journal.arrived.skip_missing(site, dut)

    def _finish(self, trains: Iterable[Held], overdue: bool = False) -> None:
        """Results of trains that are held no longer."""
        for train in trains:
            self._make_results(self._journal.event(train.event_id), [train.event_id], overdue)
            self._finished.note(train)

    def _revise_late(self, batches: Sequence[SampleBatch]) -> None:
        """New results for trains that have one already and now get more samples."""
        late: dict[UUID, OperationEvent] = {}
        for batch in batches:
            timeline = Timeline(batch.timeline_id, batch.host_clock)
            if not self._finished.may_concern(batch.stream, timeline, batch.start_ns):
                continue
            ahead_ns = partial(self._placer.rough_ns, batch.site, meter=timeline)
            late |= {event.event_id: event for event in self._journal.done_overlapping(batch, ahead_ns)}
        for event in late.values():
            self._make_results(event, [], False)

    def _make_results(self, event: OperationEvent, done: Sequence[UUID], overdue: bool) -> None:
        previous = {result.meter: result for result in self._journal.results.latest(event.event_id)}
        newest = max((result.revision for result in previous.values()), default=0)
        computed = [with_crypto(result, self._journal.results.nulls_near(result)) for result in self._compute(event)]
        changed = [revised(result, previous.get(result.meter), newest) for result in computed]
        results = [result for result in changed if result is not None]
        self._journal.results.store(results, done, overdue)
        self.counts["results"] += len(results)
        for result in results:
            if result.operation == "null":
                self._revise_crypto(result)

    def _compute(self, event: OperationEvent) -> list[EnergyResult]:
        if event.dut in self._settings.without_meter:
            return [without_meter(event, 1, SOFTWARE)]
        return [of_view(event, view, SOFTWARE) for view in self._views.of(event)] or [
            without_samples(event, 1, SOFTWARE)
        ]

    def _revise_crypto(self, null: EnergyResult) -> None:
        """A new null train is the nearest one for some trains that have a result already."""
        near = self._journal.results.nulls_near(null)
        others = [each for each in near if each.quality == "good" and null_key(each) == null_key(null)]
        earlier = max((each.start_ns for each in others if each.start_ns < null.start_ns), default=None)
        later = min((each.start_ns for each in others if each.start_ns > null.start_ns), default=None)
        wanted = ResultFilter(site=null.site, dut=null.dut, run_id=null.run_id, after_ns=earlier, before_ns=later)
        fresh = []
        for result in self._journal.results.find(wanted):
            again = revised(with_crypto(result, self._journal.results.nulls_near(result)), result, result.revision)
            if again is not None:
                fresh.append(again)
        self._journal.results.store(fresh)
