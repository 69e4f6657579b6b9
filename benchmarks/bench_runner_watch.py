"""A real runner looked at from outside: a part of `make bench-runner`.

A broker and a runner with a plan of cli and lib trains run in a network namespace of their own, in which nobody else
sends. This process reads the kernel's counters (bench_runner_kernel.py) every 10 ms and sends nothing. Afterwards the
events in the runner's spool say when the trains were; what the counters rose inside them is what the runner did there.
That the counters see a single packet and a single byte is shown first. The last line has the figures as key=value.
"""

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_runner_kernel import Look, bytes_seen_of_one, look, packets_seen_of_one, raise_loopback
from bus import Spool
from errors import SettingsError
from opjoule.local_broker import LocalBroker
from opjoule.processes import Services
from runner.segments import PRESETS, plan_train
from schemas import OperationEvent

PLAN = "lib/encaps:ML-KEM-768,lib/sign:ML-DSA-44,keygen:ML-KEM-768,sign:ML-DSA-44,null,sham"
PRESET = "short"
LOOK_S = 0.01
MOST_RSS_KIB, MOST_CPU_S, MOST_EDGE_S = 45 * 1024, 1.0, 1e-3
"""Memory as `ps` and /proc/PID/status count it, whose kB are 1,024 bytes."""
TRIES_LIMIT_S = 240.0


@dataclass(frozen=True, slots=True)
class Inside:
    """What happened in the trains: the most of each."""

    packets: int
    written_bytes: int
    stored_bytes: int
    sockets: int
    unseen_s: float
    rss_bytes: int


def main() -> int:
    """Exit status 1 where a limit is not kept, 2 where nothing can be measured."""
    parser = argparse.ArgumentParser(prog="bench_runner_watch", description=__doc__)
    parser.add_argument("--openssl", help="program; else as the runner finds it")
    parser.add_argument("--train-s", type=float, default=8.0, help="length of a train in s [default: 8]")
    parser.add_argument("--plan", default=PLAN, help=f"as the runner's --plan [default: {PLAN}]")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="opjoule-bench-") as name:
            return _bench(Path(name), args)
    except SettingsError as error:
        print(f"bench_runner_watch: {error}", file=sys.stderr)
        return 2


def _bench(folder: Path, args: argparse.Namespace) -> int:
    raise_loopback()
    seen = packets_seen_of_one(), bytes_seen_of_one()
    settings = {"dut": "bench", "plan": args.plan, "rounds": 1, "train_s": args.train_s, "preset": PRESET}
    settings |= {"confirm_s": 0, "busy_wait_s": 0, "gap_s": 2, "state_dir": folder}
    settings |= {} if args.openssl is None else {"openssl": args.openssl}
    with LocalBroker(folder, "mosquitto") as broker, Services(folder) as services:
        pid = services.start("runner", settings | {"broker_url": broker.url})
        looks = watch(pid, services)
        log = services.log_file("runner").read_text()
    spool = Spool(folder / "runner-bench.spool", 10**9)
    events = [each for each in spool.take_due(0.0, 0.0, 1000) if isinstance(each, OperationEvent)]
    spool.close()
    if not events:
        raise SettingsError(f"the runner reported no train: {log.strip()[-300:]}")
    return _report(looks, sorted(events, key=lambda each: each.segments[0].start_ns), seen, args.train_s)


def _report(looks: Sequence[Look], events: Sequence[OperationEvent], seen: tuple[int, int], train_s: float) -> int:
    inside = [within(looks, event) for event in events]
    for event, each in zip(events, inside, strict=True):
        print(
            f"{event.backend} {event.operation} {event.parameter_set}: {event.repetitions_verified} repetitions, "
            f"{each.packets} packets, {each.written_bytes} bytes written, {each.stored_bytes} stored, "
            f"{each.sockets} sockets, VmRSS {each.rss_bytes // 1024} kB, {1e3 * each.unseen_s:.1f} ms not seen"
        )
    late_s = sorted(late for event in events for late in lateness_s(event, train_s))
    p99_s = late_s[math.ceil(0.99 * len(late_s)) - 1]
    first = next(each for each in looks if each.before_ns >= monotonic_ns(events[0], 0))
    most_kib = max(each.rss_bytes for each in inside) // 1024
    quiet = sum(each.packets + each.written_bytes + each.stored_bytes + each.sockets for each in inside) == 0
    limits = (most_kib <= MOST_RSS_KIB, first.own_cpu_s <= MOST_CPU_S, p99_s <= MOST_EDGE_S, quiet, all(seen))
    print(
        f"trains={len(events)} looks={len(looks)} rss_train_kb={most_kib}"
        f" rss_ever_kb={looks[-1].most_rss_bytes // 1024}"
        f" cpu_start_s={first.own_cpu_s:.2f} cpu_start_children_s={first.children_cpu_s:.2f}"
        f" packets={sum(each.packets for each in inside)} written_bytes={sum(each.written_bytes for each in inside)}"
        f" stored_bytes={sum(each.stored_bytes for each in inside)} sockets={sum(each.sockets for each in inside)}"
        f" packets_seen_of_one={seen[0]} bytes_seen_of_one={seen[1]}"
        f" unseen_most_ms={1e3 * max(each.unseen_s for each in inside):.1f}"
        f" edges={len(late_s)} edge_p99_ms={1e3 * p99_s:.3f} edge_most_ms={1e3 * late_s[-1]:.3f}"
        f" edges_over_1ms={sum(late > MOST_EDGE_S for late in late_s)} watch_held={'yes' if all(limits) else 'no'}"
    )
    return 0 if all(limits) else 1


def watch(pid: int, services: Services) -> list[Look]:
    """Look until the runner ends. Raises SettingsError where it does not end."""
    looks: list[Look] = []
    end_s = time.monotonic() + TRIES_LIMIT_S
    while services.status("runner") is None:
        if time.monotonic() > end_s:
            raise SettingsError(f"the runner goes on after {TRIES_LIMIT_S:.0f} s")
        try:
            looks.append(look(pid))
        except (OSError, IndexError, KeyError):  # it has just ended
            break
        time.sleep(LOOK_S)
    return looks


def within(looks: Sequence[Look], event: OperationEvent) -> Inside:
    """What rose between the first and the last look in a train; `unseen_s` is what of the train lies outside them."""
    start_ns, end_ns = monotonic_ns(event, 0), monotonic_ns(event, -1)
    seen = [each for each in looks if start_ns <= each.before_ns and each.after_ns <= end_ns]
    if len(seen) < 2:
        raise SettingsError("a train passed between two looks")
    first, last = seen[0], seen[-1]
    return Inside(
        packets=last.packets - first.packets,
        written_bytes=last.written_bytes - first.written_bytes,
        stored_bytes=last.stored_bytes - first.stored_bytes,
        sockets=max(each.sockets for each in seen),
        unseen_s=(first.before_ns - start_ns + end_ns - last.after_ns) / 1e9,
        rss_bytes=max(each.rss_bytes for each in seen),
    )


def lateness_s(event: OperationEvent, train_s: float) -> list[float]:
    """How far each idle segment's end is from where the plan has it, in s; the plan is made again from the seed."""
    stats = event.time_per_repetition
    plan = plan_train(event.seed or 0, train_s, stats.median_s if stats else 0.0, PRESETS[PRESET])
    pairs = list(zip(event.segments, plan.segments, strict=True))
    return [
        abs(segment.end_ns - segment.start_ns - planned.duration_ns) / 1e9
        for segment, planned in pairs
        if segment.kind == "idle" or event.operation == "sham"
    ]


def monotonic_ns(event: OperationEvent, index: int) -> int:
    """The start of the train (index 0) or its end (-1) on this machine's monotonic clock."""
    if event.host_clock is None:
        raise SettingsError("the runner's clock cannot be told: no boot id here")
    segment = event.segments[index]
    return (segment.end_ns if index else segment.start_ns) - event.host_clock.wall_minus_monotonic_ns


if __name__ == "__main__":
    sys.exit(main())
