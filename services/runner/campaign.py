"""Runs a plan: each job is prepared, tried, measured in silence, checked and reported."""

import logging
import os
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from uuid import UUID

from clock import ServiceClock
from errors import SettingsError
from runner.events import Identity, Measured, operation_event
from runner.identifiers import uuid7
from runner.link import Link
from runner.machine import Conditions, Machine, disturbance, read_conditions
from runner.openssl import OpenSsl, OpenSslCli, private_folder
from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.openssl.commands import Command
from runner.operations import OPERATIONS, Bench, Work, repeat
from runner.plan import Job
from runner.segments import PRESETS, TrainPlan, plan_train
from runner.settings import RunnerSettings
from runner.stopping import Stop
from runner.train import TRIAL_REPETITIONS, TRIAL_S, Repeat, TrainRecord, run_train, trial_s

log = logging.getLogger(__name__)

LEAST_LIMIT_S = 10.0
LIMIT_MEDIANS = 20.0
"""A repetition is killed after this many times what the trial took, and `LEAST_LIMIT_S` at least."""
CAPACITY_MARGIN = 4.0
"""Room for repetitions this much faster than the fastest of the trial."""
CHECK_REPETITIONS = 4
END_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Trial:
    """Time of one repetition before the train; both 0 where nothing runs."""

    median_s: float
    least_s: float


@dataclass(slots=True)
class Campaign:
    """Everything that the trains of one service have in common, and what became of them."""

    settings: RunnerSettings
    openssl: OpenSsl
    machine: Machine
    clock: ServiceClock
    stop: Stop
    link: Link
    trains: int = 0
    left_out: int = 0

    def run(self, jobs: tuple[Job, ...]) -> None:
        """Run the plan as often as asked, each round in another order. Raises Stopped."""
        seed = self.settings.seed if self.settings.seed is not None else secrets.randbits(48)
        log.info("seed %d", seed)
        draw = random.Random(seed)
        for number in self._rounds():
            order = draw.sample(jobs, len(jobs))
            run_id = f"{self._uuid7()}-seed-{seed}-round-{number}"
            identity = Identity(self.settings.site, self.settings.dut, run_id, self.machine.board(self.openssl.version))
            for position, job in enumerate(order, 1):
                self._train(job, draw.getrandbits(48), identity, f"{job}, train {position} of {len(order)}")

    def _rounds(self) -> Iterator[int]:
        number = 1
        while self.settings.rounds == 0 or number <= self.settings.rounds:
            yield number
            number += 1

    def _train(self, job: Job, seed: int, identity: Identity, title: str) -> None:
        """One train and the gap after it; a job that cannot be done is left out, and the rest goes on."""
        try:
            measured = self._measure(job, seed, title)
        except SettingsError as error:
            self.left_out += 1
            log.warning("left out (%d so far): %s: %s", self.left_out, job, error)
        else:
            self.trains += 1
            self.link.put(operation_event(self._uuid7(), identity, measured, self.clock))
            self._log(job, measured)
        self.link.health = {"trains": float(self.trains), "left_out": float(self.left_out)}
        self.link.speak(f"after {title}", self.settings.gap_s)

    def _measure(self, job: Job, seed: int, title: str) -> Measured:
        with private_folder() as folder, closing(OpenSslCli(self.openssl, folder, self.stop)) as cli:
            bench = Bench(cli, folder, job.parameter_set, job.processes, self.settings.message_bytes, seed)
            work = _prepared(bench, job)
            trial = self._trial(cli, work)
            peak_bytes = max((self._peak_memory_bytes(cli, command) for command in work.commands), default=0)
            plan = plan_train(seed, self.settings.train_s, trial.median_s, PRESETS[self.settings.preset])
            self.link.fall_silent(self._end_ns(plan, trial), title)
            before, record, after = self._silent_train(cli, work, plan, trial)
            return Measured(
                job=job,
                record=record,
                seed=seed,
                variant=work.variant,
                processes=len(work.commands),
                output_bytes=work.output_bytes,
                check_error=_check_error(work),
                peak_memory_bytes=peak_bytes or None,
                disturbance=disturbance(before, after),
            )

    def _trial(self, cli: OpenSslCli, work: Work) -> Trial:
        if not work.commands:
            return Trial(0.0, 0.0)
        return Trial(*trial_s(self._repeat(cli, work, PREPARATION_LIMIT_S), time.monotonic_ns))

    @staticmethod
    def _peak_memory_bytes(cli: OpenSslCli, command: Command) -> int:
        """The highest of a few runs: one that is read while it lives may end between two looks."""
        end_s = time.monotonic() + TRIAL_S
        peak_bytes = cli.peak_memory_bytes(command) or 0
        for _ in range(TRIAL_REPETITIONS - 1):
            if time.monotonic() < end_s:
                peak_bytes = max(peak_bytes, cli.peak_memory_bytes(command) or 0)
        return peak_bytes

    def _silent_train(
        self, cli: OpenSslCli, work: Work, plan: TrainPlan, trial: Trial
    ) -> tuple[Conditions, TrainRecord, Conditions]:
        limit_s = max(LEAST_LIMIT_S, LIMIT_MEDIANS * trial.median_s)
        repeat_once = self._repeat(cli, work, limit_s) if work.commands else None
        before = read_conditions()
        record = run_train(plan, repeat_once, _capacity(plan, trial), self.stop.wait_until, time.monotonic_ns)
        return before, record, read_conditions()

    @staticmethod
    def _repeat(cli: OpenSslCli, work: Work, limit_s: float) -> Repeat:
        commands, outputs = work.commands, work.outputs
        return lambda: repeat(cli, commands, outputs, limit_s)

    def _end_ns(self, plan: TrainPlan, trial: Trial) -> int:
        """When the runner will speak again at the latest, if all goes as in the trial."""
        silent_s = plan.expected_s + (len(plan.segments) + CHECK_REPETITIONS) * trial.median_s + END_MARGIN_S
        return self.clock.now_ns() + round(silent_s * 1e9)

    def _uuid7(self) -> UUID:
        return uuid7(self.clock.now_ns(), os.urandom(10))

    def _log(self, job: Job, measured: Measured) -> None:
        record = measured.record
        error = record.first_error or measured.check_error
        if error is not None:
            log.warning("%s: %d repetitions failed, the first: %s", job, record.failed, error)
        log.info("%s: %d repetitions in %d load segments", job, sum(record.verified), len(record.verified) // 2)


def _prepared(bench: Bench, job: Job) -> Work:
    try:
        return OPERATIONS[job.operation](bench)
    except OSError as error:
        raise SettingsError(f"cannot work in {bench.folder}: {error.strerror}") from None


def _check_error(work: Work) -> str | None:
    try:
        return work.check()
    except OSError as error:
        return f"the check could not be done: {error.strerror}"


def _capacity(plan: TrainPlan, trial: Trial) -> int:
    if trial.least_s <= 0:
        return 0
    return round(CAPACITY_MARGIN * plan.load_ns / 1e9 / trial.least_s) + len(plan.segments)
