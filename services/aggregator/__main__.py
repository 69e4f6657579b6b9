"""`python -m aggregator`: joins power samples and operation events, publishes and keeps joules with uncertainty."""

import logging
import signal
import sys
import time
from contextlib import ExitStack
from threading import Event
from typing import Literal

from aggregator.journal import Journal
from aggregator.journal_file import TROUBLE
from aggregator.service import SOFTWARE, Aggregator
from aggregator.settings import AggregatorSettings
from aggregator.sinks.home_assistant import HomeAssistant, remove
from aggregator.sinks.outbox import StoreOutbox
from aggregator.sinks.sender import Sender
from bus import MqttBus, Sentry
from clock import ServiceClock, rfc3339
from configure import load_or_exit, start_logging
from errors import SettingsError
from schemas import ServiceStatus

log = logging.getLogger(__name__)

CONNECT_S = 10.0
STEP_S = 0.25
STATUS_S = 10.0
FORGET_S = 3600.0
_DAY_NS = 86_400 * 10**9


def main() -> int:
    """Run until told to stop. Exit status 0 after SIGTERM or SIGINT, 1 where the operator must act."""
    settings = load_or_exit(AggregatorSettings, "aggregator", "Join samples and trains; compute, keep, publish energy.")
    start_logging(settings.log_level)
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        serve(settings, stopping)
    except SettingsError as error:
        print(f"aggregator: {error}", file=sys.stderr)
        return 1
    except TROUBLE as error:
        print(f"aggregator: the journal {settings.journal_path} cannot be used: {error}", file=sys.stderr)
        return 1
    return 0


def serve(settings: AggregatorSettings, stopping: Event) -> None:
    """The service from start to stop. Raises SettingsError where the operator must act."""
    clock = ServiceClock()
    bus = MqttBus(settings.address(), f"opjoule-aggregator-{settings.instance}", persistent=True, manual_ack=True)
    with ExitStack() as stack:
        journal = Journal(settings.journal_path)
        stack.callback(journal.close)
        outbox, sender = _store(settings, journal, clock)
        told = settings.home_assistant_path
        home_assistant = HomeAssistant(bus, told, SOFTWARE) if settings.home_assistant else None
        aggregator = Aggregator(bus, journal, clock, settings, outbox, home_assistant)
        started_ns = clock.now_ns()
        status = _Status(bus, aggregator, outbox, sender, settings, started_ns)
        sentry = Sentry(settings.address(), "+", "aggregator", settings.instance, started_ns)
        stack.callback(sentry.close)
        aggregator.resume()
        aggregator.subscribe()
        status.tell()
        stack.callback(bus.disconnect)
        stack.callback(status.tell, "offline")
        if sender is not None:
            sender.start()
            stack.callback(sender.stop)
        alone = sentry.wait_until_alone(CONNECT_S, stopping.is_set)
        if not (alone and bus.connect(CONNECT_S)) and not stopping.is_set():
            why = bus.last_error or sentry.last_error or "no answer"
            log.warning("no broker at %s yet (%s); trying on", settings.broker_url, why)
        forget_due_s, withdrawn = float("-inf"), settings.home_assistant
        while not stopping.is_set():
            if sentry.alone():
                bus.connect(0.0)
            aggregator.step(STEP_S)
            status.tell_when_due()
            withdrawn = withdrawn or remove(bus, told)
            if time.monotonic() >= forget_due_s:
                before_ns = clock.now_ns() - round(settings.keep_samples_days * _DAY_NS)
                journal.arrived.forget(before_ns)
                journal.exchanges.forget(before_ns)
                forget_due_s = time.monotonic() + FORGET_S


def _store(
    settings: AggregatorSettings, journal: Journal, clock: ServiceClock
) -> tuple[StoreOutbox | None, Sender | None]:
    """The way to the time series store. Its client is big, so it is imported only where a store is configured."""
    if settings.influx_url is None:
        return None, None
    from aggregator.sinks.influx import InfluxStore, line  # noqa: PLC0415

    settings.influx_token()
    outbox = StoreOutbox(journal, line, clock.now_ns, round(settings.outbox_limit_mb * 1e6))
    outbox.catch_up()
    return outbox, Sender(journal.path, lambda: InfluxStore(settings))


class _Status:
    """Says how the aggregator is: every `STATUS_S`, and at once when its store gets into trouble or out of it."""

    def __init__(
        self,
        bus: MqttBus,
        aggregator: Aggregator,
        outbox: StoreOutbox | None,
        sender: Sender | None,
        settings: AggregatorSettings,
        started_ns: int,
    ) -> None:
        self._bus, self._aggregator, self._outbox, self._sender = bus, aggregator, outbox, sender
        self._settings, self._started_ns = settings, started_ns
        self._due_s = float("-inf")
        self._told = ""

    def tell_when_due(self) -> None:
        """Publish the status where it is time, and put it into the store as well."""
        if time.monotonic() < self._due_s and self._trouble == self._told:
            return
        self._due_s = time.monotonic() + STATUS_S
        status = self.tell()
        if self._outbox is not None:
            self._outbox.health(self._settings.site, status)

    def tell(self, state: Literal["online", "offline"] = "online") -> ServiceStatus:
        """Publish the status."""
        self._told = self._trouble
        status = ServiceStatus(
            service="aggregator",
            instance=self._settings.instance,
            state=state,
            version=SOFTWARE,
            started_ns=self._started_ns,
            started_time=rfc3339(self._started_ns),
            duts=(),
            detail=self._told[:500],
            health=self._health(),
        )
        self._bus.set_status(self._settings.site, status)
        return status

    @property
    def _trouble(self) -> str:
        return self._sender.trouble if self._sender is not None else ""

    def _health(self) -> dict[str, float]:
        figures = {"held_trains": float(self._aggregator.held)}
        figures |= {name: float(count) for name, count in sorted(self._aggregator.counts.items())}
        figures |= self._aggregator.clock_figures()
        figures |= self._outbox.figures() if self._outbox is not None else {}
        return figures | ({"sent_lines": float(self._sender.sent)} if self._sender is not None else {})


if __name__ == "__main__":
    raise SystemExit(main())
