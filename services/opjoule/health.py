"""Whether a service is online, as its broker knows it: by its retained status, which the last will turns `offline`."""

import argparse
import itertools
import os
import sys
import time
from pathlib import Path
from typing import Annotated, get_args
from uuid import uuid4

from pydantic import Field, ValidationError

from bus import Bus, MqttBus
from bus.settings import BrokerSettings
from configure import load
from errors import ContractError, SettingsError
from schemas import ServiceStatus, topic
from schemas.base import Identifier
from schemas.status import Service

SUMMARY = "Exit 0 where the broker says that the service is online or measuring, else say why not and exit 1."

PROCESS_ONE = Path("/proc/1/cmdline")
TIMEOUT_S = 4.0
"""For the broker to answer, and again for the status to come: both within the time-out of the container's check."""


class HealthSettings(BrokerSettings):
    """Read from the environment that the service itself was started with."""

    instance: Annotated[Identifier, Field(description="name of the process in topics")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule health`."""
    parser.add_argument(
        "service", nargs="?", choices=get_args(Service), help="default: the service that process 1 of this container is"
    )


def run(args: argparse.Namespace) -> int:
    """Ask the broker that the service itself was told to use."""
    service = args.service or service_of(PROCESS_ONE.read_bytes())
    settings = load(HealthSettings, "opjoule health", SUMMARY, [], os.environ)
    bus = MqttBus(settings.address(), f"health-{uuid4().hex[:12]}")
    try:
        if not bus.connect(TIMEOUT_S):
            raise SettingsError(f"no answer from the broker at {settings.broker_url}")
        problem = what_is_wrong(bus, topic("status", settings.site, service=service, instance=settings.instance))
    finally:
        bus.disconnect()
    if problem:
        print(f"opjoule health: {service} {problem}", file=sys.stderr)
    return 1 if problem else 0


def service_of(command_line: bytes) -> str:
    """The service that `/proc/PID/cmdline` runs by `python -m SERVICE`. Raises SettingsError if there is none."""
    words = command_line.decode(errors="replace").split("\0")
    for option, module in itertools.pairwise(words):
        if option == "-m" and module in get_args(Service):
            return module
    raise SettingsError(f"process 1 is no service: name one of {', '.join(get_args(Service))}")


def what_is_wrong(bus: Bus, status_topic: str) -> str:
    """Empty where the retained status on this topic is a good one. Raises ContractError where it is no status."""
    bus.subscribe([status_topic])
    deadline_s = time.monotonic() + TIMEOUT_S
    while (left_s := deadline_s - time.monotonic()) > 0:
        for message in bus.receive(left_s):
            try:
                status = ServiceStatus.model_validate_json(message.payload)
            except ValidationError as error:
                raise ContractError(f"{message.topic} holds no status: {error.errors()[0]['msg']}") from None
            return f"is offline: {status.detail}".rstrip(": ") if status.state == "offline" else ""
    return f"is unknown: the broker holds no status on {status_topic}"
