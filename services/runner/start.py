"""The runner from settings to exit status."""

import logging
import signal
import sys

from configure import load_or_exit, start_logging
from errors import SettingsError
from runner.openssl import Found, find_openssl, remove_abandoned
from runner.orders import own_campaign
from runner.quiet import pin_to
from runner.service import Service
from runner.settings import RunnerSettings
from runner.stopping import Stop, Stopped

log = logging.getLogger("runner")


def run(without_lib: str | None) -> int:
    """Exit status: 0, 1 where something that was asked for was left out, 2 for a wrong setting.

    `without_lib` says why the backend `lib` cannot be used, None where it can.
    """
    settings = load_or_exit(RunnerSettings, "runner", "Measures OpenSSL operations on this board in quiet trains.")
    start_logging(settings.log_level)
    stop = Stop()
    stop.on_signals(signal.SIGTERM, signal.SIGINT)
    try:
        own_campaign(settings)
        return serve(settings, find_openssl(settings.openssl), without_lib, stop)
    except SettingsError as error:
        print(f"runner: {error}", file=sys.stderr)
        return 2


def serve(settings: RunnerSettings, found: Found, without_lib: str | None, stop: Stop) -> int:
    """Run the plan, then commands, to the end or until stopped. Raises SettingsError where the operator must act."""
    log.info("OpenSSL %s, %s", found.openssl.version, found.openssl.origin)
    for shortfall in (found.shortfall, without_lib and f"no backend lib: {without_lib}"):
        if shortfall:
            log.warning("%s", shortfall)
    if settings.core is not None:
        pin_to(settings.core)
    if abandoned := remove_abandoned():
        log.info("removed %d folders with keys that killed runners left", abandoned)
    service = Service.of(settings, found.openssl, without_lib, stop)
    detail = "ended by an error, see its log"
    try:
        confirmed = service.run()
        detail = "plan finished"
    except SettingsError as error:
        detail = str(error)
        raise
    except Stopped:
        detail = "stopped"
        log.info("stopped, %d events wait in the spool", service.pending)
        return 0
    finally:
        service.leave(detail)
    return _verdict(service.left_out, 0 if confirmed else service.pending)


def _verdict(left_out: int, unconfirmed: int) -> int:
    if left_out:
        log.warning("%d of the plan left out, see above", left_out)
    if unconfirmed:
        log.warning("%d events wait in the spool: no aggregator has confirmed them", unconfirmed)
    return 1 if left_out or unconfirmed else 0
