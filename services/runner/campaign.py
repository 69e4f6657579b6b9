"""Runs a campaign: round by round, train by train, until its plan, its target or an operator says that it is done."""

import logging
import math
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from errors import SettingsError
from runner.campaign_file import Campaign
from runner.events import Identity, Measured, operation_event
from runner.expansion import Plan
from runner.identifiers import uuid7
from runner.job import Job
from runner.one_train import Bay
from runner.quiet import OthersLoad
from runner.rounds import PlannedTrain, Round, rounds
from runner.settings import RunnerSettings
from runner.stopping import Stopped
from runner.target import PooledBook, Target
from schemas import Board, OperationEvent
from schemas.status import CampaignState

log = logging.getLogger(__name__)

Ending = Literal["finished", "stopped"]
STEP_S = 1.0
"""How long the runner speaks before it looks whether it is to stop; the last step tells how busy the machine is."""
ANSWER_S = 60.0
"""How long the aggregator may take to pool a job's last train."""


def _never() -> bool:
    return False


@dataclass(slots=True)
class Executor:
    """Runs campaigns on one board, one after the other. `halted` says whether the one at hand is to end now."""

    settings: RunnerSettings
    board: Board
    bay: Bay
    halted: Callable[[], bool] = _never
    book: PooledBook | None = None
    trains: int = 0
    left_out: int = 0
    _busy: bool | None = field(default=None, init=False)
    _patient: bool = field(default=True, init=False)
    _state: CampaignState = field(init=False)

    def __post_init__(self) -> None:
        self._count()

    def run(self, campaign: Campaign, plan: Plan) -> CampaignState:
        """Run a campaign to its end; how that was. Raises Stopped, and SettingsError where a rival has our name."""
        seed = campaign.seed if campaign.seed is not None else secrets.randbits(48)
        run_id = f"{self._uuid7()}-seed-{seed}"
        log.info("campaign %s: %d trains a round, seed %d", campaign.name or "of items", len(plan.jobs), seed)
        target = self._target(campaign, plan)
        self._begin(campaign, plan, run_id)
        try:
            self.pause("starting", self.settings.start_delay_s)
            return self._end(self._rounds(campaign, plan, seed, run_id, target), target)
        except Stopped:
            self._tell(state="stopped")
            raise
        finally:
            if self._state.state == "running":
                self._tell(state="failed", detail="an error ended it, see the log of the runner")

    def pause(self, detail: str, duration_s: float) -> None:
        """Speak for this long, less when halted, and find out how busy the machine is; wait while it is too busy."""
        cores = self._speak(detail, duration_s)
        end_s = time.monotonic() + self.settings.busy_wait_s
        if self._too_busy(cores) and self.settings.busy_wait_s:
            log.info("other programs keep %.2f processors busy: the next train waits", cores)
        while self._too_busy(cores) and time.monotonic() < end_s and not self.halted():
            cores = self._speak(f"{detail}; waits, other programs keep the machine busy", STEP_S)
        self._busy = self._too_busy(cores)

    def _rounds(self, campaign: Campaign, plan: Plan, seed: int, run_id: str, target: Target | None) -> Ending:
        end_s = math.inf if campaign.most_s is None else time.monotonic() + campaign.most_s
        for each in rounds(plan, campaign, seed) if plan.jobs else ():
            identity = Identity(self.settings.site, self.settings.dut, f"{run_id}-round-{each.number}", self.board)
            ending = self._round(campaign, each, identity, target, end_s)
            if ending is not None:
                return ending
        return "finished"

    def _round(
        self, campaign: Campaign, each: Round, identity: Identity, target: Target | None, end_s: float
    ) -> Ending | None:
        """How the campaign ended in this round; None where it goes on."""
        for position, train in enumerate(each.trains, 1):
            if target is not None and not target.wants(train.job):
                continue
            if self.halted():
                return "stopped"
            if time.monotonic() > end_s:
                return "finished"
            start_s = time.monotonic()
            title = f"{train.job}, train {position} of {len(each.trains)} in round {each.number}"
            event = self._train(campaign, train, identity, title)
            if target is not None:
                target.tried(train.job, event)
            self.pause(f"after {title}", _gap_s(campaign, time.monotonic() - start_s))
        if target is not None:
            self._await_answers(target)
        return "finished" if target is not None and target.is_done else None

    def _train(self, campaign: Campaign, train: PlannedTrain, identity: Identity, title: str) -> OperationEvent | None:
        """One train; a job that cannot be done is left out, and the rest goes on."""
        event: OperationEvent | None = None
        try:
            measured = self.bay.measure(campaign, train, title, self._busy)
        except SettingsError as error:
            self.left_out += 1
            self._tell(left_out_reason=f"{train.job}: {error}"[:500])
            log.warning("left out (%d so far): %s: %s", self.left_out, train.job, error)
        else:
            self.trains += 1
            event = operation_event(self._uuid7(), identity, measured, self.bay.clock)
            self.bay.speaker.put(event)
            _log(train.job, measured)
        self.bay.under_way.end()
        done, left_out = (0, 1) if event is None else (1, 0)
        self._tell(trains_done=self._state.trains_done + done, left_out=self._state.left_out + left_out)
        return event

    def _target(self, campaign: Campaign, plan: Plan) -> Target | None:
        if campaign.target is None:
            return None
        self._patient = self.book is not None
        if self.book is None:
            log.warning("no aggregator tells here what is known: the campaign goes on to its maximum")
        return Target(
            campaign.target,
            campaign.least_trains,
            campaign.most_trains,
            self.book or PooledBook("", ""),
            plan.operations,
        )

    def _await_answers(self, target: Target) -> None:
        """The last trains of a round take seconds to be pooled; an aggregator that is silent is waited for once."""
        if not self._patient:
            return
        end_s = time.monotonic() + ANSWER_S
        while target.unanswered and time.monotonic() < end_s and not self.halted():
            self._speak("waits for what the aggregator makes of the last trains", STEP_S)
        if target.unanswered and not self.halted():
            self._patient = False
            log.warning("no pooled figure within %g s: the campaign goes on to its maximum", ANSWER_S)

    def _begin(self, campaign: Campaign, plan: Plan, run_id: str) -> None:
        endless = campaign.rounds == 0 or campaign.until is not None
        self._state = CampaignState(
            name=campaign.name or "of items",
            run_id=run_id,
            state="running",
            trains_done=0,
            trains_planned=None if endless else campaign.rounds * len(plan.jobs),
            left_out=len(plan.skipped),
        )
        self._tell()

    def _end(self, ending: Ending, target: Target | None) -> CampaignState:
        detail = "" if target is None else target.summary()
        log.info("campaign %s %s%s", self._state.name, ending, f": {detail}" if detail else "")
        self._tell(state=ending, detail=detail[:500])
        return self._state

    def _tell(self, **changes: object) -> None:
        """With the next word of the speaker."""
        self._state = self._state.model_copy(update=changes)
        self.bay.speaker.campaign = self._state
        self._count()

    def _count(self) -> None:
        counts = {"trains": self.trains, "left_out": self.left_out, "aborted": self.bay.under_way.count}
        self.bay.speaker.health = {name: float(count) for name, count in counts.items()}

    def _speak(self, detail: str, duration_s: float) -> float | None:
        """The number of processors that others kept busy in its last second or so; None where that is unknown."""
        end_s = time.monotonic() + duration_s
        load: OthersLoad | None = None
        while True:
            left_s = end_s - time.monotonic()
            step_s = max(left_s, 0.0) if left_s < 2 * STEP_S else STEP_S
            load = OthersLoad() if step_s >= left_s else None
            self.bay.speaker.speak(detail, step_s)
            if step_s >= left_s or self.halted():
                return load.cores() if load is not None else None

    def _too_busy(self, cores: float | None) -> bool | None:
        return None if cores is None else cores > self.settings.busy_cores

    def _uuid7(self) -> UUID:
        return uuid7(self.bay.clock.now_ns(), os.urandom(10))


def _gap_s(campaign: Campaign, spent_s: float) -> float:
    """Until the next train: at least the campaign's gap, and until `every_s` after the start of the last one."""
    return max(campaign.gap_s, (campaign.every_s or 0.0) - spent_s)


def _log(job: Job, measured: Measured) -> None:
    record = measured.record
    error = record.first_error or measured.check_error
    if error is not None:
        failed = record.failed if measured.check_error is None else record.failed + sum(record.verified)
        log.warning("%s: %d repetitions failed, the first: %s", job, failed, error)
    if measured.usage.error is not None:
        log.warning("%s: memory and CPU time are not known: %s", job, measured.usage.error)
    verified = sum(record.verified) if measured.check_error is None else 0
    loads = sum(segment.kind == "load" for segment in record.plan.segments)
    log.info("%s: %d repetitions in %d load segments", job, verified, loads)
