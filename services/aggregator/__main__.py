"""`python -m aggregator`: joins power samples and operation events, publishes and keeps joules with uncertainty."""

import logging
import signal
import sys
import time
from threading import Event
from typing import Literal

from aggregator.journal import Journal
from aggregator.service import SOFTWARE, Aggregator
from aggregator.settings import AggregatorSettings
from bus import MqttBus
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
    return 0


def serve(settings: AggregatorSettings, stopping: Event) -> None:
    """The service from start to stop. Raises SettingsError where the operator must act."""
    clock = ServiceClock()
    bus = MqttBus(settings.address(), f"opjoule-aggregator-{settings.instance}", persistent=True, manual_ack=True)
    journal = Journal(settings.journal_path)
    aggregator = Aggregator(bus, journal, clock, settings)
    aggregator.resume()
    aggregator.subscribe()
    started_ns = clock.now_ns()
    bus.set_status(settings.site, _status(aggregator, settings, started_ns))
    if not bus.connect(CONNECT_S):
        log.warning("no broker at %s yet (%s); trying on", settings.broker_url, bus.last_error or "no answer")
    status_due_s = forget_due_s = float("-inf")
    try:
        while not stopping.is_set():
            aggregator.step(STEP_S)
            now_s = time.monotonic()
            if now_s >= status_due_s:
                bus.set_status(settings.site, _status(aggregator, settings, started_ns))
                status_due_s = now_s + STATUS_S
            if now_s >= forget_due_s:
                journal.forget_samples(clock.now_ns() - round(settings.keep_samples_days * _DAY_NS))
                forget_due_s = now_s + FORGET_S
    finally:
        bus.set_status(settings.site, _status(aggregator, settings, started_ns, state="offline"))
        bus.disconnect()
        journal.close()


def _status(
    aggregator: Aggregator,
    settings: AggregatorSettings,
    started_ns: int,
    state: Literal["online", "offline"] = "online",
) -> ServiceStatus:
    return ServiceStatus(
        service="aggregator",
        instance=settings.instance,
        state=state,
        version=SOFTWARE,
        started_ns=started_ns,
        started_time=rfc3339(started_ns),
        duts=(),
        health={"held_trains": float(aggregator.held), **{k: float(v) for k, v in sorted(aggregator.counts.items())}},
    )


if __name__ == "__main__":
    raise SystemExit(main())
