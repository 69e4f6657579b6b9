"""`opjoule demo`: broker, aggregator, meter and runner on this machine, until every train of the plan is joules."""

import argparse
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.live import Live

from bus import MqttBus
from bus.address import BrokerAddress
from bus.settings import default_state_dir
from errors import SettingsError
from opjoule.local_broker import LocalBroker
from opjoule.processes import Services
from opjoule.results import table
from runner.openssl import obtain_openssl
from schemas import EnergyResult, slug, topic_filter

SUMMARY = "Real OpenSSL operations become joules, for about a minute; the power is SIMULATED."

SITE = "demo"
TITLE = "SIMULATED power: idle and watts per CPU second are invented, the operations and their times are real"
CONNECT_S = 10.0
REFRESH_S = 0.25
RESULTS_S = 15.0
"""How long results may take after the runner has ended."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule demo`."""
    parser.add_argument("--plan", default="demo", help="what to run, as the runner's --plan [default: demo]")
    parser.add_argument("--train-s", type=float, default=7.0, help="length of a train in s [default: 7]")
    parser.add_argument("--seed", type=int, default=None, help="seed of order, segment lengths and noise")
    parser.add_argument("--folder", type=Path, help="where the store lies [default: demo/TIME in the state directory]")
    parser.add_argument("--broker", choices=("mosquitto", "iotcore"), help="[default: mosquitto where it is installed]")


def run(args: argparse.Namespace) -> int:
    """Run the plan; exit status 0 where every train got a result, 1 where something was left out, 130 after Ctrl-C."""
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = args.folder or default_state_dir() / "demo" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    results: dict[tuple[str, str], EnergyResult] = {}
    try:
        status = _play(args, folder, console, results)
    except KeyboardInterrupt:
        console.print("stopped")
        status = 130
    _summary(console, folder, list(results.values()))
    return status


def _play(
    args: argparse.Namespace, folder: Path, console: Console, results: dict[tuple[str, str], EnergyResult]
) -> int:
    """The demo itself; `results` fills as they arrive. Everything that was started has ended when it returns."""
    console.print("looking for OpenSSL 3.5 or newer ...", end="\r")
    found = obtain_openssl(None)
    if found.shortfall:
        console.print(found.shortfall, soft_wrap=True)
    console.print(f"OpenSSL {found.openssl.version} ({found.openssl.origin})", soft_wrap=True)
    with ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        broker = stack.enter_context(LocalBroker(folder / "broker", args.broker))
        services = stack.enter_context(Services(folder))
        bus = MqttBus(BrokerAddress.parse(broker.url), "opjoule-demo")
        stack.callback(bus.disconnect)
        bus.subscribe([topic_filter("results", SITE)])
        if not bus.connect(CONNECT_S):
            raise SettingsError(f"the broker does not answer: {bus.last_error}")
        _start(services, bus, args, folder, broker.url)
        _watch(services, bus, console, results)
        services.must_run("aggregator", "meter")
        status = services.status("runner") or 0
        if status:
            console.print(f"runner: {services.last_line('runner')}", soft_wrap=True)
        return status


def _start(services: Services, bus: MqttBus, args: argparse.Namespace, folder: Path, broker_url: str) -> None:
    """The aggregator first: what is published before it has ever subscribed comes again only after 30 s."""
    shared: dict[str, object] = {"broker_url": broker_url, "site": SITE, "state_dir": folder}
    seed = {} if args.seed is None else {"seed": args.seed}
    noise = {} if args.seed is None else {"simulated_seed": args.seed}
    board = board_name()
    services.start("aggregator", shared | {"journal": folder / "journal.sqlite"})
    services.wait_until_online(bus, SITE, "aggregator")
    runner = shared | {"dut": board, "plan": args.plan, "train_s": args.train_s, "rounds": 1, "gap_s": 1}
    pid = services.start("runner", runner | {"start_delay_s": 2} | seed)
    meter = shared | {"source": "simulated", "dut": board, "meter": "simulated-1", "simulated_pid": pid}
    services.start("meter", meter | noise)


def board_name() -> str:
    """This machine's host name as the name of a DUT."""
    name = slug(socket.gethostname().split(".")[0]).strip("-")[:63]
    return name or "this-board"


def _watch(services: Services, bus: MqttBus, console: Console, results: dict[tuple[str, str], EnergyResult]) -> None:
    """Show results until the runner has ended and a result of each of its trains has come."""
    ended_s: float | None = None
    with Live(table([], TITLE, console.width), console=console, refresh_per_second=4) as live:
        while ended_s is None or time.monotonic() - ended_s < RESULTS_S:
            services.must_run("aggregator", "meter")
            for received in bus.receive(REFRESH_S):
                result = EnergyResult.model_validate_json(received.payload)
                results[str(result.event_id), result.meter or ""] = result
                live.update(table(results.values(), TITLE, console.width))
            if ended_s is None and services.status("runner") is not None:
                ended_s = time.monotonic()
            if ended_s is not None and not bus.receive(2 * REFRESH_S, 1):
                return


def _summary(console: Console, folder: Path, results: list[EnergyResult]) -> None:
    journal = folder / "journal.sqlite"
    if not journal.exists():
        return
    qualities = Counter(result.quality for result in results)
    said = ", ".join(f"{count} {quality}" for quality, count in sorted(qualities.items())) or "none"
    program = sys.argv[0] if shutil.which("opjoule") is None else "opjoule"
    console.print(f"results: {said}; all from SIMULATED power")
    console.print(f"store: {journal}", soft_wrap=True)
    console.print(f"look again: {program} results --journal {journal}", soft_wrap=True)
