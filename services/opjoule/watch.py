"""`opjoule watch [DUT]`: power, segments and results of the boards as they come, from the broker's topics."""

import argparse
import os
import signal
from collections.abc import Callable

from rich.console import Console
from rich.live import Live

from bus import Bus, MqttBus
from bus.settings import BrokerSettings
from configure import flag_of, load, variable_of
from errors import SettingsError
from opjoule.watch_view import plain, screen
from opjoule.watched import Watched
from schemas import topic_filter
from schemas.topics import Kind

SUMMARY = "Show power, segments and results of the boards as they come. Ctrl-C ends it."

CONNECT_S = 10.0
REFRESH_S = 0.25
READ: tuple[Kind, ...] = ("samples", "operations", "results", "status")
_LEFT_OUT = ("site", "log_level", "state_dir")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule watch`."""
    parser.add_argument("dut", nargs="?", metavar="DUT", help="only this board [default: all]")
    parser.add_argument("--site", help="only this site [OPJOULE_SITE; default: all]")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the trace [default: 60]")
    for name, field in BrokerSettings.model_fields.items():
        if name not in _LEFT_OUT:
            parser.add_argument(flag_of(name), dest=name, help=f"{field.description} [{variable_of(name)}]")


def run(args: argparse.Namespace) -> int:
    """Watch until Ctrl-C or SIGTERM; exit status 0. Raises SettingsError where there is no broker."""
    if not 1 <= args.seconds <= 3600:
        raise SettingsError(f"--seconds {args.seconds:g} is not between 1 and 3600")
    given = [name for name in BrokerSettings.model_fields if getattr(args, name, None) is not None]
    flags = [part for name in given for part in (flag_of(name), getattr(args, name))]
    settings = load(BrokerSettings, "opjoule watch", SUMMARY, flags, os.environ)
    site = settings.site if args.site or os.environ.get(variable_of("site")) else "+"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    bus = MqttBus(settings.address(), f"watch-{os.getpid()}-{os.urandom(4).hex()}")
    bus.subscribe([topic_filter(kind, site) for kind in READ])
    try:
        if not bus.connect(CONNECT_S):
            raise SettingsError(f"the broker at {settings.broker_url} does not answer: {bus.last_error or 'no answer'}")
        watch(bus, Watched(round(args.seconds * 1e9), args.dut), Console())
    except KeyboardInterrupt:
        return 0
    finally:
        bus.disconnect()
    return 0


def watch(bus: Bus, watched: Watched, console: Console, going_on: Callable[[], bool] = lambda: True) -> None:
    """Show what comes, as pictures in a terminal and as lines elsewhere, while `going_on`."""
    if not console.is_terminal:
        while going_on():
            for site, news in watched.take(bus.receive(REFRESH_S)):
                if line := plain(site, news):
                    print(line, flush=True)
        return
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while going_on():
            watched.take(bus.receive(REFRESH_S))
            live.update(screen(watched, console.width), refresh=True)
