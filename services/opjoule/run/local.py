"""Times of operations on this machine: no broker, no meter, no trains; the same operations, verified the same way."""

import argparse
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from errors import SettingsError
from opjoule.places import board_name
from opjoule.printing import print_table
from opjoule.run.asked import Asked, expand_asked, named
from opjoule.run.here import Here, look_here, prepared
from opjoule.run.out import CsvFile
from opjoule.run.progress import Progress
from opjoule.run.rows import Row
from opjoule.run.timing import Between, Timed, repetitions_here, time_work
from opjoule.run.view import LeftOut, failures, job_name, left_out_lines, left_out_of, timing_table
from runner.events import backend_of
from runner.job import Job
from runner.operations import Work
from runner.procedures import Study
from runner.stopping import Stop, Stopped
from schemas import Skipped

INTERRUPTED = 130
BUSY = 0.5
"""Load per processor from which times are called too long."""


@dataclass
class Measuring:
    """What is measured where, and what came of it."""

    here: Here
    machine: str
    repetitions: int | None
    study: Study | None
    stop: Stop
    rows: list[Row] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def measure(self, job: Job, between: Between) -> None:
        """Time one job. One that cannot be done is left out. Raises Stopped."""
        try:
            with prepared(self.here, job, self.stop) as work:
                timed = time_work(work, lambda median_s: self._count(job, median_s), between)
        except SettingsError as error:
            self.left_out.append((job_name(job), str(error)))
        else:
            self.rows.append(self._row(job, work, timed))

    def _count(self, job: Job, median_s: float) -> int:
        return self.repetitions or repetitions_here(self.study, job, median_s)

    def _row(self, job: Job, work: Work, timed: Timed) -> Row:
        return Row(
            machine=self.machine,
            operation=job.operation,
            parameter_set=job.parameter_set,
            variant=work.variant,
            backend=backend_of(job),
            start_ns=timed.start_ns,
            stop_ns=timed.stop_ns,
            times=timed.times,
            failed=timed.failed,
            first_error=timed.first_error,
            openssl=self.here.openssl.version,
            null_variant=work.null_variant,
        )


def measure_here(args: argparse.Namespace, asked: Asked, console: Console, out: CsvFile) -> int:
    """Time each operation once; exit status 0, 1 where one failed or is not to be had, 130 after Ctrl-C."""
    here = look_here(args, console, asked.campaign)
    plan = expand_asked(asked, here.offer)
    jobs = tuple(dict.fromkeys((*plan.nulls, *plan.operations)))
    if not jobs:
        reasons = dict.fromkeys(reason for _, reason in left_out_of(plan.skipped))
        raise SettingsError("; ".join(reasons) or f"{asked.title}: there is nothing to time in it")
    stop = Stop()
    stop.on_signals(signal.SIGINT, signal.SIGTERM)
    measuring = Measuring(here, args.machine or board_name(), args.repetitions, asked.campaign.study, stop)
    _say(console, here, len(jobs))
    try:
        _measure_all(measuring, jobs, Progress(Console(stderr=True, highlight=False), len(jobs)), out)
    except Stopped:
        console.print("stopped; what was timed until then:")
    _show(console, measuring, plan.skipped)
    if out.problem:
        console.print(out.problem, markup=False, soft_wrap=True)
    if stop.requested:
        return INTERRUPTED
    wrong = measuring.left_out or named(asked.campaign, plan.skipped) or any(not row.verified for row in measuring.rows)
    return int(bool(wrong or out.problem))


def _say(console: Console, here: Here, count: int) -> None:
    for remark in here.remarks:
        console.print(remark, markup=False, soft_wrap=True)
    console.print(f"OpenSSL {here.openssl.version} ({here.openssl.origin})", markup=False, soft_wrap=True)
    console.print(f"{count} loops to time on this machine; no broker is named, so no energy is measured")
    load, cores = _load_average(), os.cpu_count() or 1
    if load > BUSY * cores:
        console.print(f"this machine is busy (load {load:.1f} on {cores} processors): times come out too long")


def _load_average() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def _measure_all(measuring: Measuring, jobs: Sequence[Job], progress: Progress, out: CsvFile) -> None:
    """Every job in its order; the CSV is written after each. Raises Stopped."""

    def between(done: int, count: int) -> None:
        measuring.stop.check()
        progress.between(done, count)

    with progress:
        for job in jobs:
            before = len(measuring.rows)
            progress.begin(job_name(job))
            measuring.measure(job, between)
            progress.finish(measuring.rows[-1] if len(measuring.rows) > before else None)
            out.write(measuring.rows)


def _show(console: Console, measuring: Measuring, skipped: Sequence[Skipped]) -> None:
    if measuring.rows:
        print_table(console, timing_table(measuring.rows))
    for line in left_out_lines((*left_out_of(skipped), *measuring.left_out)):
        console.print(line, markup=False, soft_wrap=True)
    for line in failures(measuring.rows):
        console.print(line, markup=False, soft_wrap=True, style="bold red")
