"""The runner's two backends against programs that time the same: a part of `make bench-runner`.

`lib`: the train's own loop around libcrypto in process, less its null train, against `openssl speed -elapsed` of the
same build. `cli`: the train's own loop around the program against a shell loop of the same command, less the start of
the shell. The two take turns, and each stretch of ours is held against the mean of its two neighbours, so that what
else the machine does hits both alike; the figures are medians over these. The last line has them as key=value.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from errors import SettingsError
from runner.job import Job
from runner.nulls import LIB_NULL
from runner.openssl import OpenSsl, OpenSslCli, find_openssl, private_folder
from runner.openssl.process import ensure_process
from runner.operations import Bench, Work, prepare_work
from runner.stopping import Stop
from runner.train import Repeat, Tally, draw_every, load, quiet_memory, trial_s
from schemas import CATALOGUE, Operation

SPEED_MESSAGE_BYTES = 32
"""What `openssl speed` signs: as long as a SHA-256 (apps/speed.c)."""
SPEED: Mapping[str, tuple[Operation, ...]] = {
    "ML-KEM-768": ("keygen", "encaps", "decaps"),
    "ML-DSA-44": ("sign", "verify"),
    "SLH-DSA-SHA2-128f": ("sign",),
}
_NAMES = {"signs": "sign"}
LONG_S, MOST_RATIO, MOST_DIFFERENCE_S = 50e-6, 0.03, 2e-6
"""From 50 us on the ratio is held against 3 %, below it the difference against 2 us."""
MOST_CLI_RATIO = 0.05
BATCH = 20
TRAIN_LOAD_NS = 30_000_000_000
"""Load segments of a train of a minute."""
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Compared:
    """One operation: median time of the other program, in s, and medians of ratio and difference (ours - theirs)."""

    name: str
    other_s: float
    ratio: float
    difference_s: float

    @property
    def held(self) -> bool:
        """Whether it keeps the limit for `lib` of its length."""
        if self.other_s > LONG_S:
            return abs(self.ratio - 1) <= MOST_RATIO
        return abs(self.difference_s) <= MOST_DIFFERENCE_S


def compared(name: str, others_s: Sequence[float], ours_s: Sequence[float]) -> Compared:
    """Ours between each two of the others'; there is one more of theirs."""
    pairs = [(ours, (others_s[i] + others_s[i + 1]) / 2) for i, ours in enumerate(ours_s)]
    ratio, difference_s = median(ours / other for ours, other in pairs), median(ours - other for ours, other in pairs)
    return Compared(name, median(others_s), ratio, difference_s)


def main() -> int:
    """Exit status 1 where a limit is not kept, 2 where nothing can be measured."""
    parser = argparse.ArgumentParser(prog="bench_runner_speed", description=__doc__)
    parser.add_argument("--openssl", help="program; else as the runner finds it")
    parser.add_argument("--rounds", type=int, default=7, help="stretches of ours for each set [default: 7]")
    parser.add_argument("--batches", type=int, default=30, help="of 20 commands each [default: 30]")
    args = parser.parse_args()
    try:
        openssl = find_openssl(args.openssl).openssl
        if (reason := ensure_process(openssl)) is not None:
            raise SettingsError(reason)
        return _bench(openssl, args.rounds, args.batches)
    except SettingsError as error:
        print(f"bench_runner_speed: {error}", file=sys.stderr)
        return 2


def _bench(openssl: OpenSsl, rounds: int, batches: int) -> int:
    found = [each for name in SPEED for each in lib_against_speed(openssl, name, rounds)]
    for each in found:
        print(
            f"lib {each.name}: openssl speed {1e6 * each.other_s:.2f} us, ratio {each.ratio:.4f}, "
            f"difference {1e6 * each.difference_s:+.2f} us, {'held' if each.held else 'NOT HELD'}"
        )
    cli = cli_against_shell(openssl, batches)
    cli_held = abs(cli.ratio - 1) <= MOST_CLI_RATIO
    print(
        f"cli {cli.name}: shell {1e3 * cli.other_s:.3f} ms, ratio {cli.ratio:.4f}, {'held' if cli_held else 'NOT HELD'}"
    )
    held = cli_held and all(each.held for each in found)
    figures = [f"lib_{_key(each.name)}_us={1e6 * each.other_s:.2f}" for each in found]
    figures += [f"lib_{_key(each.name)}_ratio={each.ratio:.4f}" for each in found]
    figures += [f"lib_{_key(each.name)}_difference_us={1e6 * each.difference_s:.2f}" for each in found]
    print(f"openssl={openssl.version} rounds={rounds} batches={batches}", *figures, f"cli_ratio={cli.ratio:.4f}",
          f"cli_ms={1e3 * cli.other_s:.3f} speed_held={'yes' if held else 'no'}")  # fmt: skip
    return 0 if held else 1


def lib_against_speed(openssl: OpenSsl, parameter_set: str, rounds: int) -> list[Compared]:
    """Speed, train, speed, train, ..., speed. Raises SettingsError where libcrypto cannot do it."""
    operations = SPEED[parameter_set]
    with ExitStack() as stack:
        stop = stack.enter_context(closing(Stop()))
        works = {
            each: stack.enter_context(prepared(openssl, _lib_job(each, parameter_set), stop)) for each in operations
        }
        null = stack.enter_context(prepared(openssl, Job("null", backend="lib", null_variant=LIB_NULL), stop))
        speeds, trains = [speed_s(openssl, parameter_set)], []
        for _ in range(rounds):
            null_s = train_s(null, stop, 0.3)
            trains.append({each: train_s(works[each], stop, 1.0) - null_s for each in operations})
            speeds.append(speed_s(openssl, parameter_set))
    return [
        compared(f"{parameter_set} {each}", [speed[each] for speed in speeds], [train[each] for train in trains])
        for each in operations
    ]


def _lib_job(operation: Operation, parameter_set: str) -> Job:
    return Job(operation, parameter_set, backend="lib", message_bytes=SPEED_MESSAGE_BYTES)


def speed_s(openssl: OpenSsl, parameter_set: str) -> dict[str, float]:
    """Seconds per operation by `openssl speed`, on the wall's clock, each timed for 1 s.

    Its line of results names no operations: they come in the order in which they were begun.
    """
    argv = (*openssl.argv_prefix, "speed", "-mr", "-elapsed", "-seconds", "1", parameter_set)
    answer = subprocess.run(
        argv, env=dict(openssl.environment), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    lines = answer.stdout.splitlines() + answer.stderr.splitlines()
    begun = [line.split(":") for line in lines if line.startswith("+DTP:")]
    done = [line.split(":") for line in lines if line.startswith("+R")]
    if answer.returncode or not begun or len(begun) != len(done):
        raise SettingsError(f"openssl speed {parameter_set}: exit {answer.returncode}, {len(done)} results")
    return {_NAMES.get(start[2], start[2]): float(end[3]) / int(end[1]) for start, end in zip(begun, done, strict=True)}


def train_s(work: Work, stop: Stop, load_s: float) -> float:
    """Mean time per repetition in a load segment, of which as many are kept one by one as in a train of a minute."""
    assert work.begin is not None
    repeat = work.begin(LIMIT_S)
    every = draw_every(TRAIN_LOAD_NS, trial_s(repeat, time.monotonic_ns)[1])
    return loop_s(repeat, stop, Tally(every), round(load_s * 1e9))


def loop_s(repeat: Repeat, stop: Stop, tally: Tally, load_ns: int, most: int = -1) -> float:
    """Mean time per repetition in the loop of a load segment; all must succeed."""
    with quiet_memory():
        load(repeat, time.monotonic_ns() + load_ns, tally, stop.wait_until, time.monotonic_ns, most)
    if tally.failed:
        raise SettingsError(f"{tally.failed} repetitions failed, the first: {tally.first_error}")
    return tally.sum_ns / tally.count / 1e9


def cli_against_shell(openssl: OpenSsl, batches: int) -> Compared:
    """Shell, ours, shell, ours, ..., shell: batches of 20 private keys of ML-KEM-768, less the start of the shell."""
    with closing(Stop()) as stop, prepared(openssl, Job("keygen", "ML-KEM-768", form="private"), stop) as work:
        command = shlex.join((*openssl.argv_prefix, *work.commands[0]))
        begin = work.begin
        assert begin is not None
        shell: list[float] = []
        ours: list[float] = []

        def turn() -> None:
            shell.append(shell_s(openssl, command) - shell_s(openssl, ":"))

        turn()
        for _ in range(batches):
            ours.append(loop_s(begin(LIMIT_S), stop, Tally(1), round(LIMIT_S * 1e9), BATCH))
            turn()
    return compared("ML-KEM-768 keygen private", shell, ours)


def shell_s(openssl: OpenSsl, command: str) -> float:
    """Seconds per round of a shell loop, with the start of the shell. (A timeout would make Python poll.)"""
    script = f"i=0; while [ $i -lt {BATCH} ]; do {command} || exit 1; i=$((i+1)); done"
    start_ns = time.monotonic_ns()
    subprocess.run(
        ("/bin/sh", "-c", script), env=dict(openssl.environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return (time.monotonic_ns() - start_ns) / 1e9 / BATCH


@contextmanager
def prepared(openssl: OpenSsl, job: Job, stop: Stop) -> Iterator[Work]:
    """A job as the runner prepares it."""
    with private_folder() as folder, closing(OpenSslCli(openssl, folder, stop)) as cli:
        work = prepare_work(Bench(cli, Path(folder), job, CATALOGUE.get(job.parameter_set), 1))
        try:
            yield work
        finally:
            work.close()


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace(" ", "_")


if __name__ == "__main__":
    sys.exit(main())
