"""The runner held against the numbers of the project: `make bench-runner`.

Three parts, each a program of its own: what the runner imports, both backends against programs that time the same
(bench_runner_speed.py), and a runner watched from outside in a network namespace (bench_runner_watch.py). The last line
has the figures of all as key=value. For Linux, with mosquitto and `unshare` of util-linux.

Exit status 1 where a limit is not kept.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from errors import SettingsError

HERE = Path(__file__).parent
OWN = {"bus", "clock", "configure", "errors", "file_lock", "runner", "schemas"}
PYDANTIC = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
"""pydantic with what it is made of."""
MAY_BE_LOADED = OWN | PYDANTIC | {"paho"}
_LIST = """
import importlib, pkgutil, sys
before = set(sys.modules)
import runner
for each in pkgutil.walk_packages(runner.__path__, "runner."):
    importlib.import_module(each.name)
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
"""


def main() -> int:
    """Exit status 2 where nothing can be measured."""
    parser = argparse.ArgumentParser(prog="bench_runner", description=__doc__)
    parser.add_argument("--openssl", help="program; else as the runner finds it")
    parser.add_argument("--rounds", help="of openssl speed, see bench_runner_speed.py")
    parser.add_argument("--batches", help="of 20 commands each, see bench_runner_speed.py")
    parser.add_argument("--train-s", help="length of a watched train in s, see bench_runner_watch.py")
    args = parser.parse_args()
    try:
        loaded = third_party()
        statuses, figures = zip(
            part([], "bench_runner_speed.py", _flags(args, "openssl", "rounds", "batches")),
            part(_namespace(), "bench_runner_watch.py", _flags(args, "openssl", "train_s")),
            strict=True,
        )
    except SettingsError as error:
        print(f"bench_runner: {error}", file=sys.stderr)
        return 2
    foreign = loaded - MAY_BE_LOADED
    held = not any(statuses) and not foreign
    print(
        f"bench=runner {' '.join(figures)} third_party={','.join(sorted(loaded - OWN))} foreign={len(foreign)}"
        f" held={'yes' if held else 'no'} cores={os.cpu_count()} python={platform.python_version()}"
    )
    return 0 if held else 1


def third_party() -> set[str]:
    """Top-level packages beside the standard library that a Python has after it imported every module of the runner."""
    answer = subprocess.run((sys.executable, "-c", _LIST), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SettingsError(f"the runner cannot be imported: {answer.stderr.strip()[-300:]}")
    return {name for name in answer.stdout.split() if not name.startswith("_sysconfigdata")}  # Python's own


def part(prefix: Sequence[str], script: str, flags: Sequence[str]) -> tuple[int, str]:
    """Run one part, show its lines as they come; its exit status and the last line. Raises SettingsError."""
    last = ""
    with subprocess.Popen(
        (*prefix, sys.executable, HERE / script, *flags), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = line.strip()
            print(last, flush=True)
    if process.returncode not in (0, 1) or "=" not in last:
        raise SettingsError(f"{script} ended with status {process.returncode}")
    return process.returncode, last


def _namespace() -> Sequence[str]:
    program = shutil.which("unshare")
    if program is None:
        raise SettingsError("no unshare here (Debian package util-linux)")
    return (program, "--user", "--map-root-user", "--net")


def _flags(args: argparse.Namespace, *names: str) -> list[str]:
    given = {name: getattr(args, name) for name in names}
    return [
        part for name, value in given.items() if value is not None for part in (f"--{name.replace('_', '-')}", value)
    ]


if __name__ == "__main__":
    sys.exit(main())
