"""A meter service on a bus in memory, what stands in for the aggregator, and meters that do as they are told."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from bus import MemoryBroker, MemoryBus, Spool, SpoolingPublisher
from clock import ServiceClock
from meter.outlet import Outlet, Rules
from meter.readings import Counts, MeterHealth, Reading, Stream
from meter.service import MeterService
from meter.sources.plan import Planned
from meter.status import Identity
from schemas import Journaled, SampleBatch, SeqRange, ServiceStatus, parse_topic, topic_filter

START_NS = 1_775_827_500_000_000_000
CLOCK = ServiceClock()
PERIOD_NS = 10_000_000
DEADLINE_S = 20.0


class Journal:
    """Stands in for the aggregator: keeps every batch once and sends receipts."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._bus = MemoryBus(broker, "journal")
        self._bus.subscribe([topic_filter("samples"), topic_filter("status")])
        self._bus.connect(0.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.batches: dict[tuple[str, str, str, str, int], SampleBatch] = {}
        self.statuses: list[ServiceStatus] = []

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stop.is_set()
            for message in self._bus.receive(0.02):
                address = parse_topic(message.topic)
                if address is not None and address.kind == "status":
                    self.statuses.append(ServiceStatus.model_validate_json(message.payload))
                else:
                    self._keep(SampleBatch.model_validate_json(message.payload))

    def _keep(self, batch: SampleBatch) -> None:
        self.batches[*batch.stream, batch.seq] = batch
        span = SeqRange(meter=batch.meter, timeline_id=batch.timeline_id, first=batch.seq, last=batch.seq)
        self._bus.publish(
            "journaled", batch.site, Journaled(site=batch.site, dut=batch.dut, ranges=(span,)), dut=batch.dut
        )

    def of(self, dut: str) -> list[SampleBatch]:
        return sorted((batch for batch in self.batches.values() if batch.dut == dut), key=lambda batch: batch.seq)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()


class Rig:
    """A meter service on a memory bus."""

    def __init__(self, duts: Sequence[str], spool_bytes: int = 10**8, **rules: object) -> None:
        self.broker = MemoryBroker()
        self.journal = Journal(self.broker)
        self.bus = MemoryBus(self.broker, "meter")
        self.stop = threading.Event()
        self._serving: threading.Thread | None = None
        self.spool = spool = Spool(None, spool_bytes)
        publisher = SpoolingPublisher(self.bus, spool, "lab", duts)
        given = {
            "batch_samples": 100,
            "batch_s": 1.0,
            "speed": 0.0,
            "unconfirmed_batches": 5,
            "confirm_timeout_s": 10.0,
        }
        self.service = MeterService(
            Outlet(self.bus, spool, publisher),
            Rules(site="lab", **{**given, **rules}),  # type: ignore[arg-type]
            Identity("m1", "0.1.0", START_NS),
            CLOCK,
            self.stop.is_set,
        )
        self.service.announce()
        self.bus.connect(0.0)

    def statuses(self) -> list[ServiceStatus]:
        """All that were published so far."""
        name = "opjoule/v1/lab/services/meter/m1/status"
        return [ServiceStatus.model_validate_json(each.payload) for each in self.broker.published if each.topic == name]

    @property
    def is_serving(self) -> bool:
        """Whether the service still runs."""
        return self._serving is not None and self._serving.is_alive()

    @contextmanager
    def serving(self, *plans: Planned) -> Iterator[None]:
        """The service in a thread; it is stopped at the end."""
        failure: list[BaseException] = []

        def serve() -> None:
            try:
                self.service.serve(plans)
            except RuntimeError as error:
                failure.append(error)

        self._serving = thread = threading.Thread(target=serve)
        with self.journal.at_work():
            thread.start()
            try:
                yield
            finally:
                self.stop.set()
                thread.join()
        if failure:
            raise failure[0]


def wait_until(condition: Callable[[], bool]) -> None:
    """Return once it holds; fail after a deadline that is met only when it never will."""
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s, "waited too long"
        time.sleep(0.01)


class ScriptedMeter:
    """A live source: each read is the next of `script`, a list of readings, an error to raise, or an event to wait for.

    After the script it says nothing.
    """

    def __init__(
        self,
        script: Iterable[Sequence[Reading] | Exception | threading.Event],
        dut: str = "pi4",
        meter: str = "m1",
    ) -> None:
        self.stream = Stream("lab", dut, meter, "FNB58", "measured", CLOCK.timeline_id, CLOCK.host_clock, PERIOD_NS)
        self._script = iter(script)
        self.counts = Counts()
        self.health = MeterHealth()
        self.closed = 0

    def read(self, timeout_s: float) -> list[Reading] | None:
        step = next(self._script, None)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, threading.Event):
            step.wait()
            return []
        if step is None:
            time.sleep(timeout_s)
        return list(step or [])

    def close(self) -> None:
        self.closed += 1

    @property
    def planned(self) -> Planned:
        return Planned(self.stream.dut, lambda: self, self.stream.meter, "FNB58")
