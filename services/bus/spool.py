"""What was published and not yet named on `journaled`: in memory and on disk, within a size limit (DESIGN.md 6)."""

import logging
import sqlite3
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from pydantic import ValidationError

from bus.labels import Label, Spoolable, Stream, label_of, stream_of
from bus.spool_file import SpoolFile
from schemas import Journaled, OperationEvent, SampleBatch

log = logging.getLogger(__name__)

WARN_EVERY = 100
"""Lost batches between two warnings: a full spool loses one a second for days."""


@dataclass(slots=True)
class _Entry:
    label: Label
    added_s: float
    payload: bytes | None
    """Compressed; None when it is on disk only."""
    message: Spoolable | None
    """Spares decoding at the first sending."""
    on_disk: bool


class Spool:
    """Operation events go to disk at once, sample batches when the oldest is `memory_s` old. Times are monotonic, in s.

    When the limit (of payloads, compressed) is reached the oldest sample batches go and are counted; events stay. A
    disk that fails later than at the start keeps everything in memory: `disk_error` says so. `path` None: memory only.
    """

    def __init__(self, path: Path | None, limit_bytes: int, memory_s: float = 10.0) -> None:
        self._file = None if path is None else SpoolFile(path)
        self._limit_bytes = limit_bytes
        self._memory_s = memory_s
        self._entries: dict[int, _Entry] = {}
        self._events: dict[tuple[str, str, UUID], int] = {}
        self._batches: dict[Stream, dict[int, int]] = {}
        self._samples: OrderedDict[int, None] = OrderedDict()
        self._memory: OrderedDict[int, None] = OrderedDict()
        self._unsent: OrderedDict[int, None] = OrderedDict()
        self._sent: OrderedDict[int, float] = OrderedDict()
        self._removals: set[int] = set()
        self._next_spill_s = float("-inf")
        self._events_over_limit = False
        self.size_bytes = 0
        self.lost_batches = 0
        self.lost_samples = 0
        self._lost_of: Counter[Stream] = Counter()
        self.unreadable = 0
        self.disk_errors = 0
        self.disk_error = ""
        for label in self._file.labels() if self._file else []:
            self._insert(_Entry(label, added_s=0.0, payload=None, message=None, on_disk=True))
        self._last_number = max(self._entries, default=0)

    @property
    def pending(self) -> int:
        """Entries that no receipt has named."""
        return len(self._entries)

    @property
    def owners(self) -> frozenset[tuple[str, str]]:
        """Site and DUT of every entry, those of earlier runs among them."""
        return frozenset((entry.label.site, entry.label.dut) for entry in self._entries.values())

    def lost_samples_of(self, stream: Stream) -> int:
        """Samples of one stream that gave way since this process started."""
        return self._lost_of[stream]

    def add(self, message: Spoolable, now_s: float) -> None:
        """Keep until a receipt names it; what is kept already is not kept twice."""
        payload = zlib.compress(message.model_dump_json().encode())
        label = label_of(self._last_number + 1, message, len(payload))
        if self._find(label) is not None:
            return
        self._last_number = label.number
        entry = _Entry(label, now_s, payload, message, on_disk=False)
        self._insert(entry)
        if label.kind == "operations":
            self._write([entry])
        self._make_room()

    def spill(self, now_s: float) -> None:
        """Write what is in memory once its oldest is old enough; after a failure try again as much later."""
        if not self._memory or self._file is None or now_s < self._next_spill_s:
            return
        if now_s - self._entries[next(iter(self._memory))].added_s >= self._memory_s:
            self._write_all()
            self._next_spill_s = now_s + self._memory_s if self.disk_error else float("-inf")

    def take_due(self, now_s: float, resend_s: float, limit: int) -> list[Spoolable]:
        """What was never sent or was sent `resend_s` ago, oldest first; it counts as sent now."""
        numbers: list[int] = []
        for number, sent_s in self._sent.items():
            if len(numbers) == limit or now_s - sent_s < resend_s:
                break
            numbers.append(number)
        for number in self._unsent:
            if len(numbers) == limit:
                break
            numbers.append(number)
        return [message for number in numbers if (message := self._send(number, now_s)) is not None]

    def confirm(self, receipt: Journaled) -> int:
        """Forget exactly what the receipt names; how many that were."""
        numbers = [
            number
            for event_id in receipt.event_ids
            if (number := self._events.get((receipt.site, receipt.dut, event_id))) is not None
        ]
        for span in receipt.ranges:
            batches = self._batches.get((receipt.site, receipt.dut, span.meter, span.timeline_id), {})
            if span.last - span.first < len(batches):
                numbers += [batches[seq] for seq in range(span.first, span.last + 1) if seq in batches]
            else:
                numbers += [number for seq, number in batches.items() if span.first <= seq <= span.last]
        known = set(numbers)
        self._forget(known)
        return len(known)

    def close(self) -> None:
        """Write what is in memory and leave the file."""
        if self._file is None:
            return
        self._write_all()
        self._remove()
        if self._memory:
            log.error("%d spool entries are lost with this process: %s", len(self._memory), self.disk_error)
        self._file.close()
        self._file = None

    def _send(self, number: int, now_s: float) -> Spoolable | None:
        entry = self._entries[number]
        message, entry.message = entry.message or self._load(entry), None
        if number in self._entries:
            self._unsent.pop(number, None)
            self._sent[number] = now_s
            self._sent.move_to_end(number)
        return message

    def _load(self, entry: _Entry) -> Spoolable | None:
        payload = self._read(entry.label.number) if entry.payload is None else entry.payload
        if payload is None:
            return None
        model = OperationEvent if entry.label.kind == "operations" else SampleBatch
        try:
            return model.model_validate_json(zlib.decompress(payload))
        except (zlib.error, ValidationError) as error:
            self.unreadable += 1
            log.warning("unreadable spool entry dropped (%d so far): %s", self.unreadable, str(error).split("\n")[0])
            self._forget({entry.label.number})
            return None

    def _read(self, number: int) -> bytes | None:
        try:
            return self._file.payload(number) if self._file else None
        except sqlite3.Error as error:
            self._disk_failed(error)
            return None

    def _make_room(self) -> None:
        victims: set[int] = set()
        surplus_bytes = self.size_bytes - self._limit_bytes
        for number in self._samples:
            if surplus_bytes <= 0:
                break
            label = self._entries[number].label
            victims.add(number)
            surplus_bytes -= label.size_bytes
            self.lost_samples += label.samples
            self._lost_of[stream_of(label)] += label.samples
            self.lost_batches += 1
            if self.lost_batches % WARN_EVERY == 1:
                log.warning("spool full: %d sample batches lost so far", self.lost_batches)
        if victims:
            self._drop(victims)
        if surplus_bytes > 0 and not self._events_over_limit:
            log.warning("spool over its limit of %d bytes: operation events are kept all the same", self._limit_bytes)
        self._events_over_limit = surplus_bytes > 0

    def _write_all(self) -> None:
        self._write([self._entries[number] for number in self._memory])

    def _write(self, entries: list[_Entry]) -> None:
        file = self._file
        if file is None or not entries:
            return
        rows = [(entry.label, entry.payload) for entry in entries if entry.payload is not None]
        if not self._try(lambda: file.add(rows, self._removals)):
            return
        self._removals.clear()
        for entry in entries:
            entry.on_disk = True
            entry.payload = None
            if entry.label.kind == "samples":
                entry.message = None
            del self._memory[entry.label.number]

    def _try(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except sqlite3.Error as error:
            self._disk_failed(error)
            return False
        self.disk_error = ""
        return True

    def _disk_failed(self, error: sqlite3.Error) -> None:
        self.disk_errors += 1
        if str(error) != self.disk_error:
            self.disk_error = str(error)
            log.error("spool disk fails, entries stay in memory: %s", error)

    def _find(self, label: Label) -> int | None:
        if label.event_id is not None:
            return self._events.get((label.site, label.dut, label.event_id))
        return self._batches.get(stream_of(label), {}).get(label.seq)

    def _insert(self, entry: _Entry) -> None:
        label = entry.label
        self._entries[label.number] = entry
        self._unsent[label.number] = None
        self.size_bytes += label.size_bytes
        if label.event_id is not None:
            self._events[label.site, label.dut, label.event_id] = label.number
        else:
            self._batches.setdefault(stream_of(label), {})[label.seq] = label.number
            self._samples[label.number] = None
        if not entry.on_disk:
            self._memory[label.number] = None

    def _forget(self, numbers: Iterable[int]) -> None:
        self._drop(numbers)
        self._remove()

    def _remove(self) -> None:
        file = self._file
        if self._removals and file is not None and self._try(lambda: file.remove(self._removals)):
            self._removals.clear()

    def _drop(self, numbers: Iterable[int]) -> None:
        """From memory. They leave the disk with the next writing: a full spool drops one batch a second for days."""
        for number in numbers:
            entry = self._entries.pop(number)
            label = entry.label
            self.size_bytes -= label.size_bytes
            for queue in (self._samples, self._memory, self._unsent, self._sent):
                queue.pop(number, None)
            if label.event_id is not None:
                del self._events[label.site, label.dut, label.event_id]
            else:
                batches = self._batches[stream_of(label)]
                del batches[label.seq]
                if not batches:
                    del self._batches[stream_of(label)]
            if entry.on_disk:
                self._removals.add(number)
