"""`opjoule demo`: broker, aggregator, meter and runner on this machine, until every train of the plan is joules."""

import argparse
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.live import Live
from rich.table import Table

from bus import MqttBus, Received
from bus.address import BrokerAddress
from configure import load
from errors import SettingsError
from opjoule.local_broker import LocalBroker
from opjoule.places import board_name, state_dir
from opjoule.printing import print_table
from opjoule.processes import Services
from opjoule.results import table
from runner.openssl import obtain_openssl
from runner.plan import parse_plan
from runner.settings import RunnerSettings
from schemas import EnergyResult, OperationEvent, parse_topic, topic_filter

SUMMARY = "Real OpenSSL operations become joules, for about a minute; the power is SIMULATED."

SITE = "demo"
TITLE = "SIMULATED power: idle and watts per CPU second are invented, the operations and their times are real"
CONNECT_S = 10.0
REFRESH_S = 0.25
RESULTS_S = 15.0
"""How long results may take after the runner has ended."""
RUNNER_DONE = (0, 1)
"""Exit statuses of a runner that ran its plan, be it without some of its trains."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule demo`."""
    parser.add_argument("--plan", default="demo", help="what to run, as the runner's --plan [default: demo]")
    parser.add_argument("--train-s", type=float, default=7.0, help="length of a train in s [default: 7]")
    parser.add_argument("--seed", type=int, default=None, help="seed of order, segment lengths and noise")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the store lies [default: demo/TIME in the state directory, OPJOULE_STATE_DIR]",
    )
    parser.add_argument("--broker", choices=("mosquitto", "iotcore"), help="[default: mosquitto where it is installed]")
    parser.add_argument(
        "--openssl",
        help="openssl program [OPJOULE_OPENSSL; default: 3.5 or newer on PATH, in the cache, or fetched into it]",
    )


@dataclass
class Seen:
    """The trains that the runner announced, and the last result of each at each meter."""

    trains: set[UUID] = field(default_factory=set)
    results: dict[tuple[UUID, str | None], EnergyResult] = field(default_factory=dict)

    def add(self, messages: Iterable[Received]) -> bool:
        """Take note of events and results; statuses come on the same connection. Whether there was a result."""
        found = False
        for message in messages:
            address = parse_topic(message.topic)
            kind = address.kind if address is not None else None
            if kind == "operations":
                self.trains.add(OperationEvent.model_validate_json(message.payload).event_id)
            elif kind == "results":
                result = EnergyResult.model_validate_json(message.payload)
                self.results[result.event_id, result.meter] = result
                if result.meter is not None:  # it replaces what was said while no samples had come
                    self.results.pop((result.event_id, None), None)
                found = True
        return found

    @property
    def missing(self) -> int:
        """How many trains have no result."""
        return len(self.trains - {event_id for event_id, _ in self.results})


def run(args: argparse.Namespace) -> int:
    """Run the plan; exit status 0 where every train got a result, 1 where something was left out, 130 after Ctrl-C."""
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _refuse_wrong(args)
    folder = (args.folder or state_dir() / "demo" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}").absolute()
    seen = Seen()
    try:
        status = _play(args, folder, console, seen)
    except KeyboardInterrupt:
        console.print("stopped")
        status = 130
    _summary(console, folder, list(seen.results.values()))
    return status


def _play(args: argparse.Namespace, folder: Path, console: Console, seen: Seen) -> int:
    """The demo itself; `seen` fills as results arrive. Everything that was started has ended when it returns."""
    _find_openssl(args, console)
    with ExitStack() as stack:
        _make(folder, args.folder is not None)
        broker = stack.enter_context(LocalBroker(folder / "broker", args.broker))
        services = stack.enter_context(Services(folder))
        bus = MqttBus(BrokerAddress.parse(broker.url), "opjoule-demo")
        stack.callback(bus.disconnect)
        bus.subscribe([topic_filter("results", SITE), topic_filter("operations", SITE)])
        if not bus.connect(CONNECT_S):
            raise SettingsError(f"the broker does not answer: {bus.last_error}")
        _start(services, bus, args, folder, broker.url)
        _watch(services, bus, console, seen)
        status = services.status("runner") or 0
        if status:
            console.print(f"runner: {services.last_line('runner')}", soft_wrap=True, markup=False)
        if seen.missing:
            console.print(f"{seen.missing} trains without a result; the log files are in {folder}", soft_wrap=True)
        return 1 if status or seen.missing else 0


def _find_openssl(args: argparse.Namespace, console: Console) -> None:
    """Say which OpenSSL will be used, after what it lacks."""
    by = "--openssl" if args.openssl else "OPJOULE_OPENSSL"
    args.openssl = args.openssl or os.environ.get("OPJOULE_OPENSSL") or None
    with console.status("looking for OpenSSL 3.5 or newer"):
        found = obtain_openssl(args.openssl, by=by)
    if found.shortfall:
        console.print(found.shortfall, soft_wrap=True, markup=False)
    console.print(f"OpenSSL {found.openssl.version} ({found.openssl.origin})", soft_wrap=True, markup=False)


def _refuse_wrong(args: argparse.Namespace) -> None:
    """What the services would refuse, before any of them starts."""
    parse_plan(args.plan)
    seed = [] if args.seed is None else ["--seed", str(args.seed)]
    flags = ["--dut", board_name(), "--train-s", str(args.train_s), *seed]
    try:
        load(RunnerSettings, "opjoule demo", SUMMARY, flags, {})
    except SettingsError as error:
        raise SettingsError(re.sub(r" \(OPJOULE_\w+\)", "", str(error), count=1)) from None


def _make(folder: Path, given: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"--folder {folder}" if given else f"{folder} cannot be made; give --folder or OPJOULE_STATE_DIR"
        raise SettingsError(f"{what}: {error.strerror}") from None


def _start(services: Services, bus: MqttBus, args: argparse.Namespace, folder: Path, broker_url: str) -> None:
    """The aggregator first: what is published before it has ever subscribed comes again only after 30 s."""
    shared: dict[str, object] = {"broker_url": broker_url, "site": SITE, "state_dir": folder}
    given = {} if args.seed is None else {"seed": args.seed}
    given |= {} if args.openssl is None else {"openssl": args.openssl}
    noise = {} if args.seed is None else {"simulated_seed": args.seed}
    board = board_name()
    services.start("aggregator", shared | {"journal": folder / "journal.sqlite"})
    services.wait_until_online(bus, SITE, "aggregator")
    runner = shared | {
        "dut": board,
        "plan": args.plan,
        "train_s": args.train_s,
        "rounds": 1,
        "gap_s": 1,
        "busy_wait_s": 0,
    }
    pid = services.start("runner", runner | {"start_delay_s": 2} | given)
    meter = shared | {"source": "simulated", "dut": board, "meter": "simulated-1", "simulated_pid": pid}
    services.start("meter", meter | noise)


def _watch(services: Services, bus: MqttBus, console: Console, seen: Seen) -> None:
    """Show results until the runner has ended, each of its trains has one, and no later revision comes."""
    ended_s: float | None = None
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while ended_s is None or time.monotonic() - ended_s < RESULTS_S:
            live.update(_shown(seen.results.values(), console))
            news = seen.add(bus.receive(REFRESH_S))
            if ended_s is not None and not news and not seen.missing:
                return
            _must_run(services)
            if ended_s is None and services.status("runner") is not None:
                ended_s = time.monotonic()


def _must_run(services: Services) -> None:
    """Raises SettingsError when a service has failed; the runner first, since the meter cannot do without it."""
    if services.status("runner") not in (None, *RUNNER_DONE):
        services.must_run("runner")
    services.must_run("aggregator", "meter")


def _shown(results: Iterable[EnergyResult], console: Console) -> Table:
    return table(results, TITLE, console.width)


def _summary(console: Console, folder: Path, results: list[EnergyResult]) -> None:
    journal = folder / "journal.sqlite"
    if not journal.exists():
        return
    if results:
        print_table(console, _shown(results, console))
    qualities = Counter(result.quality for result in results)
    said = ", ".join(f"{count} {quality}" for quality, count in sorted(qualities.items())) or "none"
    program = sys.argv[0] if shutil.which("opjoule") is None else "opjoule"
    again = shlex.join([program, "results", "--journal", str(journal)])
    console.print(f"results: {said}; all from SIMULATED power")
    console.print(f"store: {journal}", soft_wrap=True, markup=False)
    console.print(f"look again: {again}", soft_wrap=True, markup=False)
