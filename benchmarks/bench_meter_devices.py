"""Simulated FNB58 on fake hidraw nodes, in a process of their own: `make bench-meter` starts it, nobody else.

It prints one line of JSON, what to put before the command line of a meter service, and goes on until its input ends.
"""

import json
import sys
from pathlib import Path

from benchmarks.bench_meter_numbers import numbered
from meter.devices.fnb58 import Fnb58
from tests.meter.fake_hidraw import FakeHidraw


def main() -> None:
    """A folder, and how many."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    with FakeHidraw(folder) as usb:
        for number in range(count):
            usb.plug_in(Fnb58(numbered()), number, serial=f"S{number}")
        print(json.dumps(usb.before), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
