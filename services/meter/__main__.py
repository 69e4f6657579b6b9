"""`python -m meter`: what power meters say becomes sample batches, and none is forgotten before it is journaled."""

import logging
import signal
import sys
import threading
from importlib.metadata import version

from bus import MqttBus, Sentry, Spool, SpoolingPublisher
from clock import ServiceClock
from configure import load_or_exit, start_logging
from errors import ContractError, SettingsError
from meter.outlet import Outlet, Rules
from meter.service import MeterService
from meter.settings import MeterSettings
from meter.sources import SOURCES
from meter.sources.plan import Planned
from meter.status import Identity
from meter.strangers import StrangerWatch

SUMMARY = "Reads power meters, or what stands in for them, and publishes sample batches."
CONNECT_TIMEOUT_S = 1.0
"""How long the first samples wait for the broker; after that they are spooled."""

log = logging.getLogger("meter")


def main() -> int:
    """Exit status 0: all done; 1: something was left out; 2: the operator must act first."""
    settings = load_or_exit(MeterSettings, "meter", SUMMARY)
    start_logging(settings.log_level)
    try:
        return _run(settings)
    except (SettingsError, ContractError) as error:
        print(f"meter: {error}", file=sys.stderr)
        return 2


def _run(settings: MeterSettings) -> int:
    stop = _stop_on_signals()
    clock = ServiceClock()
    plans = SOURCES[settings.source](settings, clock)
    outlet = _open_outlet(settings, plans)
    outlet.bus.answer_pings(settings.site, "meter", settings.instance_name, clock)
    identity = Identity(settings.instance_name, version("opjoule"), clock.now_ns(), _published_settings(settings))
    sentry = Sentry(settings.address(), settings.site, "meter", identity.instance, identity.started_ns)
    service = MeterService(outlet, _rules(settings), identity, clock, stop.is_set, sentry.alone)
    try:
        log.info("source %s, timeline %s, broker %s", settings.source, clock.timeline_id, settings.address())
        alone = sentry.wait_until_alone(CONNECT_TIMEOUT_S, stop.is_set)
        service.announce()
        outlet.bus.connect(CONNECT_TIMEOUT_S if alone else 0.0)
        return _play(settings, plans, service, outlet, stop)
    finally:
        sentry.close()


def _play(
    settings: MeterSettings, plans: list[Planned], service: MeterService, outlet: Outlet, stop: threading.Event
) -> int:
    complete = True
    try:
        if settings.is_live:
            service.serve(plans, _strangers(settings))
            return 0
        complete = service.play(plans)
        if settings.exit_at_end:
            complete = _confirm(service, outlet.publisher, stop) and complete
        else:
            service.linger()
    finally:
        service.say_goodbye()
        outlet.publisher.close()
        outlet.bus.disconnect()
    return 0 if complete else 1


def _strangers(settings: MeterSettings) -> StrangerWatch | None:
    """Where meters are told apart, one that is not meant is reported."""
    return StrangerWatch(settings.entries()) if settings.source in ("auto", "fnirsi") else None


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _open_outlet(settings: MeterSettings, plans: list[Planned]) -> Outlet:
    name = settings.instance_name
    bus = MqttBus(settings.address(), f"opjoule-meter-{settings.site}-{name}")
    limit_bytes = settings.spool_limit_bytes(len(plans))
    spool = Spool(settings.state_dir / f"meter-{settings.site}-{name}.spool", limit_bytes)
    duts = tuple(sorted({planned.dut for planned in plans}))
    return Outlet(bus, spool, SpoolingPublisher(bus, spool, settings.site, duts, resend_s=settings.resend_s))


def _published_settings(settings: MeterSettings) -> dict[str, float]:
    """What a reader needs to repeat a simulation."""
    if settings.source != "simulated":
        return {}
    return {
        "simulated_seed": settings.simulated_seed,
        "simulated_idle_w": settings.simulated_idle_w,
        "simulated_watts_per_cpu_s": settings.simulated_watts_per_cpu_s,
        "simulated_noise_w": settings.simulated_noise_w,
    }


def _rules(settings: MeterSettings) -> Rules:
    return Rules(
        site=settings.site,
        batch_samples=settings.batch_samples,
        batch_s=settings.batch_s,
        speed=settings.speed,
        unconfirmed_batches=settings.unconfirmed_batches,
        confirm_timeout_s=settings.confirm_timeout_s if settings.exit_at_end else None,
    )


def _confirm(service: MeterService, publisher: SpoolingPublisher, stop: threading.Event) -> bool:
    """Whether everything played was confirmed; being told to stop is no failure, the spool keeps the rest."""
    if service.confirm() or stop.is_set():
        return True
    log.error("%d batches not confirmed: no receipt from an aggregator; they stay in the spool", publisher.pending)
    return False


if __name__ == "__main__":
    sys.exit(main())
