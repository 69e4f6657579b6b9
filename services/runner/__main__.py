"""The runner: measures OpenSSL operations on this board in quiet trains and says what happened when.

Find the OpenSSL and what it can do; connect; then train by train: prepare, try, leave the broker, run, check, come
back, report. Run it with `python -m runner --dut NAME`.
"""

import logging
import signal
import sys
from importlib.metadata import version

from bus import MqttBus, Spool, SpoolingPublisher
from clock import ServiceClock
from configure import load_or_exit, start_logging
from errors import SettingsError
from runner.campaign import Campaign
from runner.link import Link
from runner.machine import Machine, read_machine
from runner.openssl import OpenSsl, find_openssl, offered_parameter_sets, remove_abandoned
from runner.plan import parse_plan, skipped_of_catalogue, split_offered
from runner.settings import RunnerSettings
from runner.stopping import Stop, Stopped
from schemas import DeviceDescription

log = logging.getLogger("runner")


def main() -> int:
    """Exit status: 0, 1 where something that was asked for was left out, 2 for a wrong setting."""
    settings = load_or_exit(RunnerSettings, "runner", "Measures OpenSSL operations on this board in quiet trains.")
    start_logging(settings.log_level)
    stop = Stop()
    stop.on_signals(signal.SIGTERM, signal.SIGINT)
    try:
        return serve(settings, stop)
    except SettingsError as error:
        print(f"runner: {error}", file=sys.stderr)
        return 2


def serve(settings: RunnerSettings, stop: Stop) -> int:
    """Run the plan to its end or until stopped. Raises SettingsError where the operator must act first."""
    asked = parse_plan(settings.plan)
    found = find_openssl(settings.openssl)
    log.info("OpenSSL %s, %s", found.openssl.version, found.openssl.origin)
    if found.shortfall is not None:
        log.warning("%s", found.shortfall)
    offered = offered_parameter_sets(found.openssl)
    jobs, skipped = split_offered(asked, offered, found.openssl.version)
    for each in skipped:
        log.warning("skipped: %s %s: %s", each.operation, each.parameter_set, each.reason)
    if abandoned := remove_abandoned():
        log.info("removed %d folders with keys that killed runners left", abandoned)
    machine, clock = read_machine(), ServiceClock()
    link = _link(settings, device(settings, machine, found.openssl, offered), clock, stop)
    campaign = Campaign(settings, found.openssl, machine, clock, stop, link)
    detail = "stopped"
    try:
        link.speak("starting", settings.start_delay_s)
        campaign.run(jobs)
        confirmed = link.wait_until_confirmed(settings.confirm_s)
        detail = "plan finished"
    except Stopped:
        log.info("stopped, %d events wait in the spool", link.pending)
        return 0
    finally:
        link.leave(detail)
    return _verdict(len(skipped) + campaign.left_out, link.pending if not confirmed else 0)


def device(settings: RunnerSettings, machine: Machine, openssl: OpenSsl, offered: tuple[str, ...]) -> DeviceDescription:
    """The full description of this board and its software."""
    return DeviceDescription(
        site=settings.site,
        dut=settings.dut,
        model=machine.model,
        architecture=machine.architecture,
        bits=machine.bits,
        cpu=machine.cpu,
        cores=machine.cores,
        memory_bytes=machine.memory_bytes,
        operating_system=machine.operating_system,
        kernel=machine.kernel,
        python=machine.python,
        openssl=openssl.version,
        openssl_program=openssl.program,
        opjoule=version("opjoule"),
        backends=("cli",),
        parameter_sets=offered,
        skipped=skipped_of_catalogue(offered, openssl.version),
    )


def _link(settings: RunnerSettings, description: DeviceDescription, clock: ServiceClock, stop: Stop) -> Link:
    spool = Spool(settings.state_dir / f"runner-{settings.dut}.spool", settings.spool_limit_bytes)
    bus = MqttBus(settings.address(), f"runner-{settings.site}-{settings.dut}")
    publisher = SpoolingPublisher(bus, spool, settings.site, (settings.dut,), resend_s=settings.resend_s)
    return Link(bus, publisher, clock, description, settings.instance_name, stop)


def _verdict(left_out: int, unconfirmed: int) -> int:
    if left_out:
        log.warning("%d of the plan left out, see above", left_out)
    if unconfirmed:
        log.warning("%d events wait in the spool: no aggregator has confirmed them", unconfirmed)
    return 1 if left_out or unconfirmed else 0


if __name__ == "__main__":
    raise SystemExit(main())
