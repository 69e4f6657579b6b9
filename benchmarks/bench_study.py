"""How fast a study is replayed, from its files to its table: `make bench-study`.

The study is run three times as a user runs it, as a process of its own: recordings, broker, aggregator, journal, table.
The last line has the figures as key=value; seconds is the median, from start to end of the process.
"""

import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

from errors import ContractError
from opjoule.study.folder import read_folder

RUNS = 3
VARIABLE = "OPJOULE_RECORDINGS"


def main() -> int:
    """Exit status 2 where the recordings are not there, 1 where the study fails."""
    folder = Path(os.environ.get(VARIABLE, ""))
    published = folder / "published_results.csv"
    if not os.environ.get(VARIABLE) or not published.is_file():
        print(
            f"bench_study: {VARIABLE} must name a folder of recordings with its published_results.csv", file=sys.stderr
        )
        return 2
    try:
        recordings, _ = read_folder(folder, [published])
    except ContractError as error:
        print(f"bench_study: {error}", file=sys.stderr)
        return 2
    samples = sum(recording.samples for recording in recordings.values())
    runs_s = []
    for number in range(1, RUNS + 1):
        start_s = time.monotonic()
        study = subprocess.run(
            [sys.executable, "-m", "opjoule", "study", folder, "--published", published],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        runs_s.append(time.monotonic() - start_s)
        if study.returncode:
            print(f"bench_study: opjoule study ended with {study.returncode}: {study.stderr.strip()}", file=sys.stderr)
            return 1
        print(f"run {number}: {runs_s[-1]:.2f} s")
    seconds = statistics.median(runs_s)
    print(
        f"bench=study recordings={len(recordings)} samples={samples} seconds={seconds:.2f}"
        f" samples_per_s={samples / seconds:.0f} runs={RUNS} cores={os.cpu_count()} python={platform.python_version()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
