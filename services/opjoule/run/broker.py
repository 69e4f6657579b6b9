"""The broker that `opjoule run` speaks to: its flags, as every service has them, and the connection."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from bus import Bus, MqttBus
from bus.settings import BrokerSettings
from configure import flag_of, load, variable_of
from errors import SettingsError

CONNECT_S = 10.0
_LEFT_OUT = ("site", "log_level", "state_dir")


def add_broker_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the broker, `--broker` being short for `--broker-url`, and of the site."""
    group = parser.add_argument_group("boards", "measuring on boards of a fleet, which a broker reaches")
    group.add_argument("--dut", metavar="D[,D2]", help="these boards, or all that are online [default: all]")
    group.add_argument("--site", help="site of the boards [OPJOULE_SITE; default: lab]")
    for name, field in BrokerSettings.model_fields.items():
        if name not in _LEFT_OUT:
            flags = ["--broker", flag_of(name)] if name == "broker_url" else [flag_of(name)]
            group.add_argument(*flags, dest=name, metavar="VALUE", help=f"{field.description} [{variable_of(name)}]")


def asks_for_boards(args: argparse.Namespace) -> bool:
    """Whether a board, a site or a broker is named on the command line, or a broker by OPJOULE_BROKER_URL."""
    return bool(args.dut or args.site or args.broker_url or os.environ.get(variable_of("broker_url")))


def broker_settings(args: argparse.Namespace) -> BrokerSettings:
    """The flags, else the environment, else defaults. Raises SettingsError."""
    names = [name for name in BrokerSettings.model_fields if getattr(args, name, None) is not None]
    flags = [part for name in names for part in (flag_of(name), str(getattr(args, name)))]
    return load(BrokerSettings, "opjoule run", "", flags, os.environ)


@contextmanager
def connected(settings: BrokerSettings) -> Iterator[Bus]:
    """A connection that is left cleanly. Raises SettingsError where the broker does not answer."""
    bus = MqttBus(settings.address(), f"run-{os.getpid()}-{os.urandom(4).hex()}", quiet=True)
    try:
        if not bus.connect(CONNECT_S):
            raise SettingsError(f"the broker at {settings.broker_url} does not answer: {bus.last_error or 'no answer'}")
        yield bus
    finally:
        bus.disconnect()
