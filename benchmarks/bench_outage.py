"""InfluxDB down for ten minutes under the load of 100 boards, the broker killed in it: `make bench-outage`.

Every board sends 100 samples a second and a train of 57 s every minute. The recorded time runs `--factor` times as fast
as the clock on the wall: what piles up is that of the whole outage, what must be done in a second is `--factor` times
that of a real fleet. `--factor 1` is real time. The load goes on while the outbox is drained. InfluxDB is Debian's
influxd behind a shim that speaks its v2 write endpoint. The last line has the figures as key=value.

Exit status 1 where a point is missing or double, or a limit of the project is not kept.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import numpy as np

from aggregator.journal import Journal
from aggregator.journal_outbox import Totals
from aggregator.journal_tables import ResultFilter
from bus import BrokerAddress, MqttBus, Spool, SpoolingPublisher
from errors import SettingsError
from opjoule.local_broker import LocalBroker
from opjoule.processes import Services
from schemas import SampleBatch, Segment
from tests.aggregator.trains import SECOND, batches, event, segments, steps, trace
from tests.influxd import Influxd, Shim, influxd_available

SITE = "lab"
LOADS = 40
MINUTE_S = 60
TICK_S = 0.02
MOST_DRAIN_S = 120.0
MOST_GROWTH_MB = 30.0
"""Of the aggregator's resident memory over the outage: its caches and SQLite's fill in the first seconds of it."""
T0 = 1_800_000_000 * SECOND


@dataclass
class Fleet:
    """Boards that send what they measured, as fast as recorded time passes, until the aggregator has it."""

    publisher: SpoolingPublisher
    boards: list[str]
    factor: float
    start_s: float = field(default_factory=time.monotonic)
    seconds: int = 0
    trains: int = 0
    minute: list[SampleBatch] = field(kw_only=True)
    _parts: tuple[Segment, ...] = field(default_factory=lambda: segments(LOADS, start_ns=T0 + SECOND))

    def send_until(self, condition: Callable[[], bool], limit_s: float) -> float:
        """Send until the condition holds; how long that was."""
        start_s = time.monotonic()
        while not condition():
            self.tick()
            if time.monotonic() - start_s > limit_s:
                raise SettingsError(f"waited for more than {limit_s:.0f} s")
            time.sleep(TICK_S)
        return time.monotonic() - start_s

    def tick(self) -> None:
        """Send the recorded seconds that have passed."""
        while self.seconds < (time.monotonic() - self.start_s) * self.factor:
            for board in self.boards:
                self.publisher.put(self._batch(board))
            self.publisher.step()
            self.seconds += 1
            if self.seconds % MINUTE_S == 0:
                self._put_trains()
        self.publisher.step()

    def _batch(self, board: str) -> SampleBatch:
        start_ns = T0 + self.seconds * SECOND
        template = self.minute[self.seconds % MINUTE_S]
        changed = {"dut": board, "seq": self.seconds, "start_ns": start_ns, "until_ns": start_ns + SECOND}
        return template.model_copy(update=changed)

    def _put_trains(self) -> None:
        shift_ns = (self.seconds - MINUTE_S) * SECOND
        parts = tuple(
            each.model_copy(update={"start_ns": each.start_ns + shift_ns, "end_ns": each.end_ns + shift_ns})
            for each in self._parts
        )
        for board in self.boards:
            self.trains += 1
            number = UUID(f"01890a5d-ac96-774b-bcce-{self.trains:012x}")
            self.publisher.put(event(parts, event_id=number, dut=board))


def main() -> int:
    """Exit status 2 where a program is missing."""
    args = _arguments()
    if not influxd_available():
        print("bench_outage: influxd is not installed (Debian package influxdb)", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            return _bench(Path(folder), args, stack)
    except SettingsError as error:
        print(f"bench_outage: {error}", file=sys.stderr)
        return 2


def _bench(folder: Path, args: argparse.Namespace, stack: ExitStack) -> int:
    influxd = stack.enter_context(Influxd(folder / "influxd"))
    shim = stack.enter_context(Shim(influxd))
    broker = stack.enter_context(LocalBroker(folder / "broker", "mosquitto"))
    services = stack.enter_context(Services(folder))
    influxd.create()
    settings: dict[str, object] = {"broker_url": broker.url, "state_dir": folder, "influx_url": shim.url}
    pid = services.start("aggregator", settings)
    bus = MqttBus(BrokerAddress.parse(broker.url), "fleet")
    stack.callback(bus.disconnect)
    boards = [f"pi{number:03}" for number in range(args.boards)]
    fleet = Fleet(SpoolingPublisher(bus, Spool(None, 10**9), SITE, boards), boards, args.factor, minute=_minute())
    services.wait_until_online(_connected(bus), SITE, "aggregator")
    outbox = Outbox(folder / "journal.sqlite")
    fleet.start_s = time.monotonic()

    warm_s = max(2 * MINUTE_S / args.factor, 12.0)
    fleet.send_until(_after(warm_s), 2 * warm_s)
    memory = Memory(pid)
    print(f"warm: {fleet.seconds} s of every board, {memory.mb:.1f} MB, {outbox.totals().lines} lines wait")
    outage_s = 60 * args.minutes / args.factor
    shim.down()
    start_ns = time.monotonic()
    fleet.send_until(memory.watch(_after(outage_s / 2)), outage_s)
    memory.half_mb = memory.most_mb
    broker.kill()
    fleet.send_until(memory.watch(_after(1.0)), 10)
    broker.start()
    left_s = max(0.0, outage_s - (time.monotonic() - start_ns))
    fleet.send_until(memory.watch(_after(left_s)), outage_s + 1)
    outage_s = time.monotonic() - start_ns
    waiting = outbox.totals()
    print(f"outage: {outage_s:.0f} s on the wall, {waiting.lines} lines wait, {memory.most_mb:.1f} MB at most")
    shim.up()
    few = 3 * args.boards * args.factor
    drain_s = fleet.send_until(memory.watch(lambda: outbox.totals().lines <= few), 10 * MOST_DRAIN_S)
    print(f"drained to what comes in 3 s: after {drain_s:.1f} s, with the load going on")
    fleet.send_until(lambda: fleet.seconds % MINUTE_S == 0, 2 * MINUTE_S / args.factor + 10)
    return _finish(args, fleet, folder, influxd, outbox, memory, (outage_s, waiting.lines, drain_s))


def _finish(
    args: argparse.Namespace,
    fleet: Fleet,
    folder: Path,
    influxd: Influxd,
    outbox: "Outbox",
    memory: "Memory",
    times: tuple[float, int, float],
) -> int:
    """Wait until all has arrived, compare, print."""
    if not fleet.publisher.wait_until_confirmed(120):
        raise SettingsError(f"{fleet.publisher.pending} messages were never confirmed")
    end_s = time.monotonic() + 120
    missing = double = 1
    while missing and time.monotonic() < end_s:
        time.sleep(0.5)
        if outbox.results() >= fleet.trains and outbox.totals().lines <= 1:
            missing, double = _compare(fleet, folder, influxd)
    outage_s, waiting, drain_s = times
    growth_mb = memory.most_mb - memory.mb
    held = missing == double == 0 and drain_s <= MOST_DRAIN_S and growth_mb <= MOST_GROWTH_MB
    print(
        f"bench=outage boards={args.boards} outage_recorded_s={outage_s * args.factor:.0f} factor={args.factor:g}"
        f" outage_wall_s={outage_s:.0f} broker_kills=1 lines_waiting={waiting} drain_s={drain_s:.1f}"
        f" missing={missing} double={double} results={fleet.trains} power_points={fleet.seconds * args.boards}"
        f" rss_start_mb={memory.mb:.1f} rss_half_mb={memory.half_mb:.1f} rss_most_mb={memory.most_mb:.1f}"
        f" held={'yes' if held else 'no'}"
        f" cores={os.cpu_count()} python={platform.python_version()}"
    )
    return 0 if held else 1


def _compare(fleet: Fleet, folder: Path, influxd: Influxd) -> tuple[int, int]:
    """Points of the store against the journal and against what was sent: how many are missing, and too many."""
    journal = Journal(folder / "journal.sqlite", read_only=True)
    try:
        counts = journal.counts()
        wanted = {(str(each.event_id), each.revision) for each in journal.results.find(ResultFilter())}
    finally:
        journal.close()
    sent = {"batches": fleet.seconds * len(fleet.boards), "events": fleet.trains}
    rows = influxd.rows("SELECT event_id, revision FROM operation_energy WHERE valid = 1")
    found = [(row["event_id"], int(row["revision"])) for row in rows]
    missing = sum(max(0, count - counts[table]) for table, count in sent.items()) + len(wanted - set(found))
    missing += max(0, fleet.trains - len(wanted))
    double = len(found) - len(set(found)) + len(set(found) - wanted)
    power = influxd.rows("SELECT count(samples) AS points, sum(samples) AS samples FROM power GROUP BY dut")
    points, samples = (int(sum(row[name] for row in power)) for name in ("points", "samples"))
    missing += max(0, sent["batches"] - points) + max(0, 100 * sent["batches"] - samples)
    double += max(0, points - sent["batches"]) + max(0, samples - 100 * sent["batches"])
    return missing, double


class Outbox:
    """What waits, looked at from outside."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal

    def totals(self) -> Totals:
        """Lines and bytes that wait."""
        journal = Journal(self._journal, read_only=True)
        try:
            return journal.outbox.totals()
        finally:
            journal.close()

    def results(self) -> int:
        """Results in the journal, all revisions."""
        journal = Journal(self._journal, read_only=True)
        try:
            return journal.counts()["results"]
        finally:
            journal.close()


class Memory:
    """Resident memory of a process: at the start, the most until half of the outage, and the most that was seen."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.mb = self.most_mb = self.half_mb = self._now_mb()

    def watch(self, condition: Callable[[], bool]) -> Callable[[], bool]:
        """The condition, with a look at the memory each time that it is asked."""

        def looked() -> bool:
            self.most_mb = max(self.most_mb, self._now_mb())
            return condition()

        return looked

    def _now_mb(self) -> float:
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        return 0.0


def _connected(bus: MqttBus) -> MqttBus:
    if not bus.connect(10):
        raise SettingsError(f"the broker does not answer: {bus.last_error}")
    return bus


def _after(wait_s: float) -> Callable[[], bool]:
    end_s = time.monotonic() + wait_s
    return lambda: time.monotonic() >= end_s


def _minute() -> list[SampleBatch]:
    """A minute of one board: a train of 40 loads of 3 W above 2 W, with noise, in batches of a second."""
    rng = np.random.default_rng(7)
    parts = segments(LOADS, start_ns=T0 + SECOND)
    square = steps([parts[0].model_copy(update={"start_ns": T0}), *parts[1:]], 2.0, 5.0)
    data = trace(lambda t: square(t) + rng.normal(0, 0.05, len(t)), MINUTE_S - 0.01, start_ns=T0)
    return batches(data, size=100)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_outage", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="recorded minutes without InfluxDB [default: 10]")
    parser.add_argument("--factor", type=float, default=5.0, help="recorded time against the wall's [default: 5]")
    parser.add_argument("--boards", type=int, default=100, help="[default: 100]")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
