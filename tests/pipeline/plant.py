"""Real services as processes on a real broker, to be killed at will, and the journal that they leave."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID

import pytest

from aggregator.journal import Journal, unpack_batch
from aggregator.journal_tables import ResultFilter
from bus import BrokerAddress, MqttBus, Spool, SpoolingPublisher
from errors import SettingsError
from opjoule.local_broker import Kind, LocalBroker, available
from opjoule.processes import Services
from schemas import EnergyResult, OperationEvent, SampleBatch, ServiceStatus, parse_topic, topic_filter

SITE, DUT = "lab", "pi4"
DEADLINE_S = 40.0
POLL_S = 0.02
RESEND_S = 1.0
"""Instead of 30 s: how long what was lost stays lost."""
_END_OF_TIME_NS = 2**62 - 1


class Plant:
    """Broker and services with their files in one folder. The test's own connection stands in for a runner."""

    def __init__(self, folder: Path, kind: Kind = "mosquitto") -> None:
        if not available(kind):
            pytest.skip(f"{kind} is not installed")
        self.folder = folder
        self.broker = LocalBroker(folder / "broker", kind)
        self.services = Services(folder)
        self.heard_batches = 0
        self.published: list[EnergyResult] = []
        self.statuses: dict[str, ServiceStatus] = {}
        self._bus = MqttBus(BrokerAddress.parse(self.broker.url), "test")
        self._bus.subscribe([topic_filter(kind, SITE) for kind in ("results", "samples", "status")])
        self._publisher = SpoolingPublisher(self._bus, Spool(None, 10**8), SITE, (DUT,), resend_s=RESEND_S)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.broker)
        self._stack.enter_context(self.services)
        self._stack.callback(self._bus.disconnect)
        assert self._bus.connect(DEADLINE_S), self._bus.last_error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, module: str, **settings: object) -> int:
        """A service with the settings that all have in common, and these; its process id."""
        shared: dict[str, object] = {"broker_url": self.broker.url, "site": SITE, "state_dir": self.folder}
        shared |= {} if module == "aggregator" else {"resend_s": RESEND_S}
        return self.services.start(module, shared | settings)

    def put(self, *events: OperationEvent) -> None:
        """Publish as a runner does: again and again until there is a receipt."""
        for event in events:
            self._publisher.put(event)

    def flush(self) -> None:
        """The broker has acknowledged what was put."""
        assert self._bus.flush(DEADLINE_S)

    @property
    def unconfirmed(self) -> int:
        """Events that were put and have no receipt."""
        return self._publisher.pending

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds; fails at the deadline with what the services last said."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline_s, self._last_words()
            self._listen()
            time.sleep(POLL_S)

    def count(self, table: str) -> int:
        """Rows in a table of the journal; none while there is no journal."""
        try:
            with self.journal() as journal:
                return journal.counts()[table]
        except SettingsError:
            return 0

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """The journal, beside the aggregator that writes it."""
        journal = Journal(self.folder / "journal.sqlite", read_only=True)
        try:
            yield journal
        finally:
            journal.close()

    def results(self) -> list[EnergyResult]:
        """Last revisions."""
        with self.journal() as journal:
            return list(journal.results.find(ResultFilter()))

    def finals(self) -> list[dict[str, object]]:
        """Last revisions, field by field, but for their number."""
        return [result.model_dump(exclude={"revision"}) for result in self.results()]

    def batches(self) -> dict[str, list[SampleBatch]]:
        """Every batch in the journal, by timeline, in order of `seq`."""
        with self.journal() as journal:
            return {
                row.stream.key[3]: [unpack_batch(packed) for packed in journal.batches(row.row, 0, _END_OF_TIME_NS)]
                for row in journal.streams()
            }

    def _listen(self) -> None:
        for received in self._publisher.step():
            address = parse_topic(received.topic)
            if address is not None and address.kind == "results":
                self.published.append(EnergyResult.model_validate_json(received.payload))
            elif address is not None and address.kind == "status":
                self.statuses[address.levels["service"]] = ServiceStatus.model_validate_json(received.payload)
            else:
                self.heard_batches += 1

    def _last_words(self) -> str:
        said = [f"{log.name}: {self.services.last_line(log.stem)}" for log in sorted(self.folder.glob("*.log"))]
        return "; ".join(["waited in vain", *said])


def assert_whole(plant: Plant, event_ids: set[UUID]) -> None:
    """Every event once, one final result each, published, and of every timeline all batches."""
    results = plant.results()
    assert plant.count("events") == len(event_ids)
    assert sorted(result.event_id for result in results) == sorted(event_ids)
    assert {result.event_id for result in plant.published} == event_ids
    for batches in plant.batches().values():
        assert [batch.seq for batch in batches] == list(range(len(batches)))


def work_folders(pid: int) -> set[Path]:
    """Folders in shared memory that a process has files open in."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = descriptor.readlink()
        except OSError:
            continue
        if str(target).startswith("/dev/shm/opjoule-"):  # the folder, which is locked, or a file in it
            found.add(Path(*target.parts[:4]))
    return found


def processes_naming(text: str) -> dict[int, str]:
    """Process ids and command lines of every living process that names this text, but for this one."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found[int(entry.name)] = line
    return found
