"""The meters held against the numbers of the project: `make bench-meter`.

Four parts, each a program of its own: recordings through the byte protocol (bench_meter_replay.py, with the folder in
OPJOULE_RECORDINGS), sample times against the truth (bench_meter_timeline.py), one and eight FNB58 on the service
(bench_meter_service.py), a day with unplugs in compressed time (bench_meter_day.py). All meters are SIMULATED: they
speak the real bytes; what a real meter does beside is not shown. The last line has the figures of all as key=value.
For Linux, with mosquitto or iotcore, `taskset` of util-linux and umockdev.

Exit status 1 where a limit is not kept.
"""

import argparse
import sys

from benchmarks.bench_meter_numbers import machine
from benchmarks.bench_runner import part
from errors import SettingsError

PARTS = ("replay", "timeline", "service", "day")


def main() -> int:
    """Exit status 2 where nothing can be measured."""
    parser = argparse.ArgumentParser(prog="bench_meter", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a look in a minute: fewer files, runs, seconds and hours")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again [default: all]")
    args = parser.parse_args()
    statuses, figures = [], []
    for name in args.only or PARTS:
        try:
            status, line = part([], f"bench_meter_{name}.py", SHORT[name] if args.short else [])
        except SettingsError as error:
            print(f"bench_meter: {error}", file=sys.stderr)
            return 2
        statuses.append(status)
        figures.append(line)
    held = not any(statuses)
    print(f"bench=meter {' '.join(figures)} held={'yes' if held else 'no'} {machine()}")
    return 0 if held else 1


SHORT = {
    "replay": ["--files", "10"],
    "timeline": ["--runs", "6", "--seconds", "40"],
    "service": ["--seconds", "10"],
    "day": ["--hours", "1"],
}

if __name__ == "__main__":
    sys.exit(main())
