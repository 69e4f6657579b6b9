"""The runner's side of the bus: what it is doing, silence inside trains, events that are not lost."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from bus import Bus, Received, Rival, SpoolingPublisher
from clock import ServiceClock, rfc3339
from runner.stopping import Stop
from schemas import DeviceDescription, OperationEvent, ServiceStatus, topic
from schemas.status import AbortedTrain, CampaignState, CommandAnswer

log = logging.getLogger(__name__)

FLUSH_S = 2.0
STEP_NS = 50_000_000
LAST_WORD_S = 1.0
"""How long a runner that was stopped inside a train tries to reach the broker, to say that it is offline."""

WORDS_UNHEARD = 2
"""So many times in a row the broker was away when the runner had spoken: then it says so, once."""

Hear = Callable[[Received], None]


class Speaker(Protocol):
    """What a campaign needs of whoever it tells: `Link` with a broker, anything else without one."""

    health: dict[str, float]
    """Counters by name, told with the next word."""
    campaign: CampaignState | None
    """How far it is, told with the next word."""

    def speak(self, detail: str, duration_s: float) -> None:
        """Say what goes on, and be there for this long, in s. Raises Stopped."""
        ...

    def fall_silent(self, until_ns: int, detail: str) -> None:
        """A train begins: nothing is sent, logged or written until the next `put` or `speak`."""
        ...

    def put(self, event: OperationEvent) -> None:
        """A train is done: keep its event."""
        ...


class Link:
    """Speaks for one runner. A broker that is away is waited for in the gaps only; events wait in the spool."""

    def __init__(
        self,
        bus: Bus,
        publisher: SpoolingPublisher,
        clock: ServiceClock,
        device: DeviceDescription,
        instance: str,
        stop: Stop,
    ) -> None:
        self._bus = bus
        self._publisher = publisher
        self._clock = clock
        self._device = device
        self._instance = instance
        self._stop = stop
        self._started_ns = clock.now_ns()
        self._rival = Rival("runner", instance, self._started_ns)
        self._hearers: list[Hear] = []
        self.listen([topic("status", device.site, service="runner", instance=instance)], self._rival.hear)
        self._announced = False
        self._unconnected = 0
        self._detail = ""
        self._told: ServiceStatus | None = None
        self._lost = 0
        self.health: dict[str, float] = {}
        self.campaign: CampaignState | None = None
        self.answer: CommandAnswer | None = None
        self.aborted: tuple[AbortedTrain, ...] = ()

    @property
    def pending(self) -> int:
        """Events that the aggregator has not confirmed."""
        return self._publisher.pending

    @property
    def arrived(self) -> bool:
        """Whether our first status came back: what came before it was sent before we were there."""
        return self._rival.heard_own

    def listen(self, filters: Sequence[str], hear: Hear) -> None:
        """Subscribe; `hear` gets everything that comes, once, also what others subscribed to."""
        if hear not in self._hearers:
            self._hearers.append(hear)
        self._bus.subscribe(filters)

    def speak(self, detail: str, duration_s: float) -> None:
        """Be online for this long: connect, say what goes on, deliver what waits.

        Raises Stopped, and SettingsError where another runner has our name.
        """
        self._detail = detail
        self.say()
        self._bus.connect(0.0)
        end_ns = time.monotonic_ns() + round(duration_s * 1e9)
        self._deliver()
        while (now_ns := time.monotonic_ns()) < end_ns:
            self._stop.wait_until(min(end_ns, now_ns + STEP_NS))
            self._deliver()
        self._warn_once()

    def say(self) -> None:
        """Tell the status as it is now, with the last detail, unless it was told last."""
        status = self._status("online", self._detail)
        if status != self._told:
            self._tell(status)

    def fall_silent(self, until_ns: int, detail: str) -> None:
        """Say until when, then leave the broker."""
        self._tell(self._status("measuring", detail, until_ns))
        if self._bus.connected:
            self._bus.flush(FLUSH_S)
        self._bus.disconnect()

    def put(self, event: OperationEvent) -> None:
        """Keep an event until the aggregator has confirmed it."""
        self._publisher.put(event)

    def wait_until_confirmed(self, timeout_s: float) -> bool:
        """Whether the aggregator named all events within this time. Raises as `speak` does."""
        end_ns = time.monotonic_ns() + round(timeout_s * 1e9)
        self._deliver()
        while self._publisher.pending and (now_ns := time.monotonic_ns()) < end_ns:
            self._stop.wait_until(min(end_ns, now_ns + STEP_NS))
            self._deliver()
        return not self._publisher.pending

    def leave(self, detail: str) -> None:
        """Say offline, also when a train was cut off and the broker has to be reached again for it.

        Not where another runner has our name: the status topic is that one's.
        """
        if not self._rival.found:
            self._tell(self._status("offline", detail))
            if self._bus.connect(LAST_WORD_S):
                self._bus.flush(FLUSH_S)
        self._bus.disconnect()
        self._publisher.close()

    def _tell(self, status: ServiceStatus) -> None:
        self._told = status
        self._bus.set_status(self._device.site, status)

    def _deliver(self) -> None:
        if self._lost != self._bus.lost:  # a rival takes this change as proof that we live
            self._lost = self._bus.lost
            self.say()
        if self._bus.connected and not self._announced:
            self._bus.publish("device", self._device.site, self._device, dut=self._device.dut)
            self._announced = True
        for received in self._publisher.step():
            for hear in self._hearers:
                hear(received)

    def _warn_once(self) -> None:
        """Not after the first words, which may be over before a broker that is there has answered."""
        self._unconnected = 0 if self._bus.connected else self._unconnected + 1
        if self._unconnected == WORDS_UNHEARD:
            log.warning("no broker; trains go on, events wait in the spool (%d so far)", self._publisher.pending)

    def _status(
        self, state: Literal["online", "measuring", "offline"], detail: str, until_ns: int | None = None
    ) -> ServiceStatus:
        return ServiceStatus(
            service="runner",
            instance=self._instance,
            state=state,
            until_ns=until_ns,
            version=self._device.opjoule,
            started_ns=self._started_ns,
            started_time=rfc3339(self._started_ns),
            duts=(self._device.dut,),
            detail=detail[:500],
            health=self.health
            | {"spool_depth": float(self._publisher.pending), "connections_lost": float(self._bus.lost)},
            campaign=self.campaign,
            answer=self.answer,
            aborted=self.aborted,
        )
