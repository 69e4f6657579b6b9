"""`opjoule run plan`: what would run, how long it takes here, and what is left out."""

import argparse
import signal
import time
from collections import Counter
from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from errors import SettingsError
from opjoule.printing import print_table
from opjoule.run.asked import Asked, expand_asked
from opjoule.run.here import Here, look_here, prepared
from opjoule.run.progress import Progress
from opjoule.run.timing import repetitions_here
from opjoule.run.view import DASH, LeftOut, duration, job_name, left_out_lines, left_out_of, short_time
from runner.campaign_file import Campaign
from runner.estimate import Estimate, estimate
from runner.expansion import Plan
from runner.job import Job
from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.stopping import Stop, Stopped

INTERRUPTED = 130


def plan_here(args: argparse.Namespace, asked: Asked, console: Console) -> int:
    """One repetition of each operation is tried, unless `--no-trial`; exit status 0, 130 after Ctrl-C."""
    here = look_here(args, console, asked.campaign)
    plan = expand_asked(asked, here.offer)
    stop = Stop()
    stop.on_signals(signal.SIGINT, signal.SIGTERM)
    failed: list[LeftOut] = []
    times_s: dict[Job, float] = {}
    if not args.no_trial:
        try:
            _try_all(here, plan, stop, times_s, failed)
        except Stopped:
            return INTERRUPTED
    for remark in here.remarks:
        console.print(remark, markup=False, soft_wrap=True)
    show_plan(console, asked, plan, times_s)
    for line in left_out_lines((*left_out_of(plan.skipped), *failed)):
        console.print(line, markup=False, soft_wrap=True)
    return 0


def _try_all(here: Here, plan: Plan, stop: Stop, times_s: dict[Job, float], failed: list[LeftOut]) -> None:
    jobs = tuple(dict.fromkeys(job for job in plan.jobs if job.operation != "sham"))
    with Progress(Console(stderr=True, highlight=False), len(jobs)) as progress:
        for job in jobs:
            progress.begin(f"trying {job_name(job)}")
            try:
                times_s[job] = _one_repetition_s(here, job, stop)
            except SettingsError as error:
                failed.append((job_name(job), str(error)))


def _one_repetition_s(here: Here, job: Job, stop: Stop) -> float:
    """Raises SettingsError where it cannot be prepared."""
    with prepared(here, job, stop) as work:
        if work.begin is None:
            return 0.0
        repeat = work.begin(PREPARATION_LIMIT_S)
        start_ns = time.monotonic_ns()
        repeat()
        return (time.monotonic_ns() - start_ns) / 1e9


def show_plan(console: Console, asked: Asked, plan: Plan, times_s: Mapping[Job, float]) -> None:
    """Job by job, then in all. Without times of repetitions trains have the campaign's length."""
    found = estimate(plan, asked.campaign, times_s)
    print_table(console, _table(plan, found, times_s))
    for line in summary(asked.campaign, plan, found, times_s):
        console.print(line, markup=False, soft_wrap=True)


def _table(plan: Plan, found: Estimate, times_s: Mapping[Job, float]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    made.add_column("one round", overflow="fold")
    for name in ("trains", "repetition", "a train"):
        made.add_column(name, justify="right")
    often, train_s = Counter(plan.jobs), dict(found.trains_s)
    for job in dict.fromkeys(plan.jobs):
        repetition = short_time(times_s[job]) if job in times_s else DASH
        made.add_row(escape(job_name(job)), str(often[job]), repetition, duration(train_s[job]))
    return made


def summary(campaign: Campaign, plan: Plan, found: Estimate, times_s: Mapping[Job, float]) -> list[str]:
    """How long it takes in all on boards, and to time it here."""
    said = [f"{len(plan.jobs)} trains a round, about {duration(found.round_s)} with the pauses between them"]
    if campaign.until is not None:
        said.append(f"until {campaign.until}: {_between(found)}")
    elif found.most_s is None:
        said.append("repeated without end")
    elif campaign.rounds > 1:
        said.append(f"{campaign.rounds} rounds: about {duration(found.most_s)}")
    here_s = sum(each_s * repetitions_here(campaign.study, job, each_s) for job, each_s in times_s.items())
    if times_s:
        said.append(f"timing it here, without energy and without --dut: about {duration(here_s)}")
    return said


def _between(found: Estimate) -> str:
    if found.least_s is None or found.most_s is None:
        return "without end"
    return f"{duration(found.least_s)} to {duration(found.most_s)}"
