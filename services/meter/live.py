"""One meter in a thread of its own: what it says waits in a bounded queue until the main loop takes it.

A meter that is stuck, missing or being opened again keeps nobody waiting but its own thread.
"""

import logging
import queue
import threading
from dataclasses import replace

from errors import ContractError, FrameError, SettingsError
from meter.readings import Counts, MeterHealth, Reading, Said, Source
from meter.sources.plan import Planned

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 0.2
"""How long a read may take: the thread hears no later that it must stop."""
QUEUE_LIMIT = 2048
"""Reads that wait for the main loop: more than a minute of an FNB58, which sends 25 reports a second."""
_RETRY_S = 2.0
"""Between attempts to open a meter that is missing."""


class LiveMeter:
    """Opens its source, and again when it fails; reads until it is stopped, then closes it."""

    def __init__(self, planned: Planned, queue_limit: int = QUEUE_LIMIT) -> None:
        self.planned = planned
        self._queue: queue.Queue[Said] = queue.Queue(queue_limit)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"meter {planned.meter}", daemon=True)
        self._before = Counts()
        self._ended = False
        self.health = MeterHealth(connected=False)
        """As last heard, also when nothing is read."""
        self.counts = Counts()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take(self) -> list[Said]:
        """What was read since the last call. Raises RuntimeError when the thread has failed: a fault of ours."""
        has_failed = not self._thread.is_alive() and not self._ended
        said = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        if has_failed and not said:
            raise RuntimeError(f"the reader of meter {self.planned.meter} at {self.planned.dut} has failed")
        return said

    @property
    def waiting(self) -> int:
        """Reads that nobody has taken yet."""
        return self._queue.qsize()

    @property
    def is_over(self) -> bool:
        """Whether the source has ended and everything was taken."""
        return self._ended and self._queue.empty()

    def stop(self) -> None:
        """Ask it to end; `join` waits for that."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Whether it has ended in time. A meter that is stuck in its driver is left behind."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set() and not self._ended:
            source = self._open()
            if source is None:
                break
            try:
                self._ended = self._read_all(source)
            except OSError as error:
                self._wait(error.strerror or str(error))
            finally:
                source.close()
                self._before = self.counts
        self._ended = True

    def _open(self) -> Source | None:
        """None when told to stop before it was there."""
        while not self._stop.is_set():
            try:
                return self.planned.open()
            except OSError as error:
                self._wait(error.strerror or str(error))
            except (SettingsError, ContractError, FrameError) as error:
                self._wait(str(error))
        return None

    def _wait(self, why: str) -> None:
        """The line comes once, as long as the reason stays the same."""
        if why != self.health.detail:
            log.warning("meter %s at %s: %s; waiting for it", self.planned.meter, self.planned.dut, why)
        self.health = replace(self.health, connected=False, detail=why)
        self._stop.wait(_RETRY_S)

    def _read_all(self, source: Source) -> bool:
        """Whether the source has ended. Raises OSError where one cannot find its meter again by itself."""
        bad_frames = 0
        while not self._stop.is_set():
            readings: list[Reading] | None = []
            try:
                readings = source.read(READ_TIMEOUT_S)
            except FrameError as error:
                bad_frames += 1
                log.debug("meter %s at %s: %s", self.planned.meter, self.planned.dut, error)
            self.counts = self._before.plus(source.counts).plus(Counts({"bad_frame": bad_frames} if bad_frames else {}))
            self.health = source.health
            if readings is None:
                return True
            if readings:
                self._keep(Said(source.stream, tuple(readings), self.counts, self.health))
        return False

    def _keep(self, said: Said) -> None:
        """While the queue is full the meter is not read: its source finds the gap, and counts it."""
        while not self._stop.is_set():
            try:
                self._queue.put(said, timeout=READ_TIMEOUT_S)
            except queue.Full:
                continue
            return
