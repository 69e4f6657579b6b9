"""Recordings of real meters through the byte protocol of a simulated FNB58: a part of `make bench-meter`.

Each recorded power is measured by the device as whole steps of voltage and current, sent in sealed reports through a
descriptor, and read by the source of the service. Time is simulated. The last line has the figures as key=value.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from errors import ContractError
from meter.devices.playback import play_back
from meter.devices.power import STEPS_PER_W
from meter.sources.recording import read_recording

VARIABLE = "OPJOULE_RECORDINGS"
RATES_HZ = (100.0, 1000.0)
"""Reports a second. A real FNB58 sends 25."""


def main() -> int:
    """Exit status 1 where a sample is not given back; without recordings nothing is played, with the reason."""
    parser = argparse.ArgumentParser(prog="bench_meter_replay", description=__doc__)
    parser.add_argument("--files", type=int, help="play only so many, spread over all")
    args = parser.parse_args()
    folder = Path(os.environ.get(VARIABLE, ""))
    files = sorted(folder.glob("*/*.cfn")) if os.environ.get(VARIABLE) else []
    if not files:
        print(f"no recordings are played: {VARIABLE} names no folder with recordings (*/*.cfn)")
        print("recordings=0 replay_held=skipped")
        return 0
    files = files[:: max(1, len(files) // args.files)][: args.files] if args.files else files
    try:
        return _report(files)
    except ContractError as error:
        print(f"bench_meter_replay: {error}", file=sys.stderr)
        return 2


def _report(files: Sequence[Path]) -> int:
    recordings = [read_recording(file).power_w for file in files]
    total = sum(len(values_w) for values_w in recordings)
    figures, held = [f"recordings={len(files)} samples={total}"], True
    for rate_hz in RATES_HZ:
        start_s = time.monotonic()
        exact = [exact_of(values_w, rate_hz) for values_w in recordings]
        whole = sum(count == len(values_w) for count, values_w in zip(exact, recordings, strict=True))
        print(
            f"{rate_hz:.0f} reports/s: {sum(exact)} of {total} samples exact, {whole} of {len(files)} recordings whole,"
            f" {time.monotonic() - start_s:.1f} s",
            flush=True,
        )
        figures.append(f"exact_at_{rate_hz:.0f}={sum(exact)}/{total} whole_at_{rate_hz:.0f}={whole}/{len(files)}")
        held = held and sum(exact) == total
    print(f"{' '.join(figures)} replay_held={'yes' if held else 'no'}")
    return 0 if held else 1


def exact_of(values_w: Sequence[float], reports_per_s: float) -> int:
    """How many samples come back in place, equal at the protocol's resolution of 1e-10 W; none if time runs back."""
    readings = play_back(values_w, reports_per_s)
    if len(readings) != len(values_w) or any(before.t_ns >= after.t_ns for before, after in pairwise(readings)):
        return 0
    pairs = zip(readings, values_w, strict=True)
    return sum(round(reading.power_w * STEPS_PER_W) == round(value_w * STEPS_PER_W) for reading, value_w in pairs)


if __name__ == "__main__":
    sys.exit(main())
