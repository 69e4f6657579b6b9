"""One train from job to measurement: prepared, tried, measured in silence, checked."""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from clock import ServiceClock
from errors import SettingsError
from runner.around import check_error, limit_s, usage_of
from runner.as_published import run_as_published
from runner.campaign_file import Campaign
from runner.events import Measured
from runner.governor import Governor
from runner.job import Job
from runner.link import Speaker
from runner.machine import Conditions, disturbance, read_conditions
from runner.openssl import OpenSsl, OpenSslCli, private_folder
from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.operations import Bench, Work, prepare_work
from runner.procedures import Procedure, procedure_of
from runner.rounds import PlannedTrain
from runner.segments import PRESETS, TrainPlan, plan_train
from runner.stopping import Stop
from runner.timing import Times
from runner.train import TrainRecord, draw_every, run_train, trial_s
from runner.trains_under_way import TrainsUnderWay
from schemas import ParameterSet
from schemas.status import AbortedTrain

CHECK_REPETITIONS = 10
"""After the train: the check, and memory and CPU time of single repetitions."""
END_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Trial:
    """Time of one repetition before the train; both 0 where nothing runs."""

    median_s: float
    least_s: float


@dataclass(frozen=True, slots=True)
class _Run:
    """What a silent stretch gave."""

    before: Conditions
    record: TrainRecord
    timing: Times | None
    after: Conditions
    governor: str | None


@dataclass(frozen=True, slots=True)
class Bay:
    """All that trains of one board share. `sets` are its parameter sets by name, those of providers among them."""

    openssl: OpenSsl
    sets: Mapping[str, ParameterSet]
    clock: ServiceClock
    stop: Stop
    speaker: Speaker
    governor: Governor
    under_way: TrainsUnderWay
    message_file: Path | None = None

    def measure(self, campaign: Campaign, train: PlannedTrain, title: str, busy: bool | None) -> Measured:
        """Measure one train. Raises Stopped, and SettingsError for a job that cannot be done here.

        It stays noted as under way until `under_way.end()`, which is for the caller, when its event is safe.
        """
        job = train.job
        with private_folder() as folder, closing(self._cli(folder, job)) as cli:
            bench = Bench(cli, folder, job, self.sets.get(job.parameter_set), train.seed, self.message_file)
            work = self._prepared(bench)
            try:
                return self._measured(campaign, train, work, title, busy)
            finally:
                work.close()

    def _cli(self, folder: Path, job: Job) -> OpenSslCli:
        return OpenSslCli(self.openssl, folder, self.stop, job.capability_mask if job.backend == "cli" else "")

    def _prepared(self, bench: Bench) -> Work:
        try:
            return prepare_work(bench)
        except OSError as error:
            raise SettingsError(f"cannot work in {bench.folder}: {error.strerror}") from None

    def _measured(self, campaign: Campaign, train: PlannedTrain, work: Work, title: str, busy: bool | None) -> Measured:
        with self.governor.performance():
            trial = self._trial(work)
            study = campaign.study
            procedure = procedure_of(study, train.job, trial.median_s) if study is not None else None
            run = self._silent(campaign, train, work, trial, procedure, title)
        return Measured(
            job=train.job,
            record=run.record,
            seed=train.seed,
            variant=work.variant,
            processes=work.processes,
            output_bytes=work.output_bytes,
            check_error=check_error(work),
            usage=usage_of(work),
            disturbance=disturbance(run.before, run.after, busy=busy, governor=run.governor),
            null_variant=work.null_variant,
            size_unknown=work.size_unknown,
            handshake=work.handshake() if work.handshake else None,
            procedure="train" if procedure is None else "as_published",
            timing=run.timing,
        )

    def _trial(self, work: Work) -> Trial:
        if work.begin is None:
            return Trial(0.0, 0.0)
        return Trial(*trial_s(work.begin(PREPARATION_LIMIT_S), time.monotonic_ns))

    def _silent(
        self,
        campaign: Campaign,
        train: PlannedTrain,
        work: Work,
        trial: Trial,
        procedure: Procedure | None,
        title: str,
    ) -> _Run:
        """Note what begins, leave the broker, run."""
        plan = plan_train(train.seed, campaign.train_s, trial.median_s, PRESETS[campaign.preset])
        expected_s = plan.expected_s if procedure is None else procedure.expected_s(trial.median_s)
        self._note(train.job, work)
        self.speaker.fall_silent(self._end_ns(expected_s, len(plan.segments), trial), title)
        governor, before = self.governor.name(), read_conditions()
        if procedure is None:
            record, timing = self._run_train(work, plan, trial), None
        else:
            record, timing = self._run_as_published(work, procedure, trial)
        return _Run(before, record, timing, read_conditions(), governor)

    def _run_train(self, work: Work, plan: TrainPlan, trial: Trial) -> TrainRecord:
        every = draw_every(plan.load_ns, trial.least_s)
        if work.run_train is not None:
            return work.run_train(plan, every, limit_s(trial.median_s))
        repeat = work.begin(limit_s(trial.median_s)) if work.begin else None
        return run_train(plan, repeat, every, self.stop.wait_until, time.monotonic_ns)

    def _run_as_published(self, work: Work, procedure: Procedure, trial: Trial) -> tuple[TrainRecord, Times | None]:
        if work.begin is None:
            raise SettingsError("a sham train has no published procedure")
        load_s = sum(step.expected_s(trial.median_s) for step in procedure.steps if step.kind == "load")
        every = draw_every(round(load_s * 1e9), trial.least_s)
        repeat = work.begin(limit_s(trial.median_s))
        return run_as_published(procedure, repeat, every, self.stop.wait_until, time.monotonic_ns)

    def _note(self, job: Job, work: Work) -> None:
        self.under_way.begin(
            AbortedTrain(
                operation=job.operation,
                parameter_set=job.parameter_set,
                variant=work.variant,
                started_ns=self.clock.now_ns(),
            )
        )

    def _end_ns(self, expected_s: float, segments: int, trial: Trial) -> int:
        """When the runner will speak again at the latest, if all goes as in the trial."""
        silent_s = expected_s + (segments + CHECK_REPETITIONS) * trial.median_s + END_MARGIN_S
        return self.clock.now_ns() + round(silent_s * 1e9)
