"""What the meter service costs with one FNB58 and with eight, and that it loses nothing: a part of `make bench-meter`.

The meters are simulated by a process of their own, on fake hidraw nodes (umockdev); the service runs as a user runs it,
bound to one core, with a real broker and something that sends receipts. The kernel says what the service used (look()
in bench_runner_kernel.py), the numbers that samples carry say what is missing. The last line has the figures.
"""

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_meter_numbers import Tally
from benchmarks.bench_runner_kernel import look
from errors import SettingsError
from opjoule.local_broker import LocalBroker
from tests.meter.fake_hidraw import LIBRARY
from tests.meter.process_rig import Listener, end_of, start

SETTLE_S = 12.0
"""Before it is measured: what is kept for rates has then grown to its ten seconds."""
MOST_SHARE = {1: 0.02, 8: 0.15}
MOST_RSS_BYTES = 45 * 2**20


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one core, and resident; then samples by all meters: received, missing by their numbers, lost as counted."""

    cpu_share: float
    rss_bytes: int
    received: int
    missing: int
    lost_counted: int

    def held(self, meters: int) -> bool:
        """Whether the limits are kept; memory has one for a single meter."""
        is_small = meters > 1 or self.rss_bytes <= MOST_RSS_BYTES
        return self.cpu_share < MOST_SHARE[meters] and is_small and self.missing == self.lost_counted == 0


def main() -> int:
    """Exit status 1 where a limit is not kept, 2 where nothing can be measured."""
    parser = argparse.ArgumentParser(prog="bench_meter_service", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="measured with one and with eight [default: 60]")
    args = parser.parse_args()
    try:
        costs = {meters: measure(meters, args.seconds) for meters in MOST_SHARE}
    except SettingsError as error:
        print(f"bench_meter_service: {error}", file=sys.stderr)
        return 2
    figures = [
        f"cpu_{meters}_pc={100 * cost.cpu_share:.2f} rss_{meters}_mib={cost.rss_bytes / 2**20:.1f}"
        f" samples_{meters}={cost.received} missing_{meters}={cost.missing} lost_counted_{meters}={cost.lost_counted}"
        for meters, cost in costs.items()
    ]
    held = all(cost.held(meters) for meters, cost in costs.items())
    print(f"{' '.join(figures)} service_s={args.seconds:.0f} service_held={'yes' if held else 'no'}")
    return 0 if held else 1


def measure(meters: int, seconds: float) -> Cost:
    """So many meters on a service that is started for them. Raises SettingsError."""
    with tempfile.TemporaryDirectory(prefix="opjoule-bench-") as name, _devices(Path(name), meters) as before:
        folder = Path(name)
        with LocalBroker(folder) as broker:
            listener = Listener(broker.url, "bench", confirm=True)
            process = start(folder, broker.url, "bench", *_arguments(folder, meters), before=(*_one_core(), *before))
            try:
                listener.listen_until(lambda: bool(listener.statuses) and len(listener.statuses[-1].duts) == meters)
                share, rss_bytes = _used(process.pid, listener, seconds)
            finally:
                process.terminate()
                code, errors = end_of(process)
            listener.close()
    if code:
        raise SettingsError(f"the meter service ended with {code}: {errors.strip()[-300:]}")
    return _cost(listener, share, rss_bytes)


def _used(pid: int, listener: Listener, seconds: float) -> tuple[float, int]:
    """The share of a core, and bytes resident at the end."""
    _listen(listener, SETTLE_S)
    first = look(pid)
    _listen(listener, seconds)
    last = look(pid)
    duration_s = (last.after_ns - first.after_ns) / 1e9
    return (last.own_cpu_s - first.own_cpu_s) / duration_s, last.rss_bytes


def _listen(listener: Listener, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        listener.listen()


def _cost(listener: Listener, share: float, rss_bytes: int) -> Cost:
    tallies, lost = defaultdict[str, Tally](Tally), dict[str, int]()
    for batch in sorted(listener.batches, key=lambda each: each.seq):
        tallies[batch.dut].add(batch.current_a or ())
        lost[batch.dut] = batch.lost_samples
    return Cost(
        share,
        rss_bytes,
        sum(tally.received for tally in tallies.values()),
        sum(tally.missing + tally.wrong for tally in tallies.values()),
        sum(lost.values()),
    )


def _arguments(folder: Path, meters: int) -> list[str]:
    if meters == 1:
        return ["--source", "fnirsi", "--dut", "board0", "--meter", "m"]
    file = folder / "meters.toml"
    entries = (f'[[meter]]\nsource = "fnirsi"\nmeter = "m"\ndut = "board{n}"\nserial = "S{n}"\n' for n in range(meters))
    file.write_text("\n".join(entries), "utf-8")
    return ["--source", "auto", "--meters", str(file)]


def _one_core() -> tuple[str, ...]:
    program = shutil.which("taskset")
    if program is None:
        raise SettingsError("no taskset here (Debian package util-linux)")
    return (program, "--cpu-list", str(max(os.sched_getaffinity(0))))


@contextmanager
def _devices(folder: Path, meters: int) -> Iterator[tuple[str, ...]]:
    """What to put before a command line whose process shall see the meters."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        raise SettingsError("no umockdev library here (Debian packages umockdev and libumockdev0)") from None
    script = Path(__file__).with_name("bench_meter_devices.py")
    command = (sys.executable, str(script), str(folder), str(meters))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SettingsError("the simulated meters did not begin")
        yield tuple(json.loads(line))


if __name__ == "__main__":
    sys.exit(main())
