"""Until it is known: which jobs of a campaign still miss their target, by the aggregator's own pooled figures."""

import logging
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field

from pydantic import ValidationError

from bus import Received
from runner.job import Job
from schemas import OperationEvent, PooledEnergy, parse_topic

log = logging.getLogger(__name__)

Key = tuple[str, str, str, str]
"""Backend, operation, parameter set, variant."""


class PooledBook:
    """The pooled figures of one DUT, as the aggregator last told them."""

    def __init__(self, site: str, dut: str) -> None:
        self._owner = (site, dut)
        self._latest: dict[Key, PooledEnergy] = {}

    def hear(self, received: Received) -> None:
        """A message that came; what is no pooled figure of our DUT is no matter."""
        address = parse_topic(received.topic)
        if address is None or address.kind != "pooled" or (address.site, address.dut) != self._owner:
            return
        try:
            pooled = PooledEnergy.model_validate_json(received.payload)
        except ValidationError as error:
            log.warning("pooled figure on %s cannot be read: %d errors in it", received.topic, error.error_count())
            return
        self._latest[pooled.backend, pooled.operation, pooled.parameter_set, pooled.variant] = pooled

    def get(self, key: Key) -> PooledEnergy | None:
        """The latest figure, or None."""
        return self._latest.get(key)


@dataclass(slots=True)
class _Progress:
    """One job in this campaign. `before` is what was known of it when its first train was done."""

    trains: int = 0
    tries: int = 0
    key: Key | None = None
    before: PooledEnergy | None = None


@dataclass(slots=True)
class Target:
    """A job is done with `least_trains` in this campaign and a U95 of at most `share` of its pooled net energy.

    Null and sham trains have no target: they go on as long as an operation needs them. A figure that was there before
    the campaign and did not change in it proves nothing: the aggregator may have forgotten us.
    """

    share: float
    least_trains: int
    most_trains: int | None
    book: PooledBook
    operations: InitVar[Iterable[Job]]
    _jobs: dict[Job, _Progress] = field(default_factory=dict, init=False)

    def __post_init__(self, operations: Iterable[Job]) -> None:
        self._jobs = {job: _Progress() for job in operations}

    def tried(self, job: Job, event: OperationEvent | None) -> None:
        """A train of the job was done, or (without an event) left out."""
        progress = self._jobs.get(job)
        if progress is None:
            return
        progress.tries += 1
        if event is None:
            return
        progress.trains += 1
        if progress.key is None:
            progress.key = (event.backend, event.operation, event.parameter_set, event.variant)
            progress.before = self.book.get(progress.key)

    def wants(self, job: Job) -> bool:
        """Whether the job needs another train; null and sham trains do as long as any other does."""
        progress = self._jobs.get(job)
        return not self.is_done if progress is None else self._is_open(progress)

    @property
    def is_done(self) -> bool:
        """Whether every operation has met its target or spent its trains."""
        return not any(self._is_open(progress) for progress in self._jobs.values())

    @property
    def unanswered(self) -> bool:
        """Whether the aggregator has said nothing new of a job that has its least number of trains."""
        return any(
            self._is_open(progress) and progress.trains >= self.least_trains and self._answer(progress) is None
            for progress in self._jobs.values()
        )

    def summary(self) -> str:
        """How many jobs met the target, and what is known of those that did not."""
        missed = [job for job, progress in self._jobs.items() if not self._is_met(progress)]
        met = f"{len(self._jobs) - len(missed)} of {len(self._jobs)} met u95 <= {100 * self.share:g} %"
        if not missed:
            return met
        return f"{met}; not: " + ", ".join(f"{job} ({self._known(self._jobs[job])})" for job in missed)

    def _is_open(self, progress: _Progress) -> bool:
        spent = self.most_trains is not None and progress.tries >= self.most_trains
        return not spent and not self._is_met(progress)

    def _is_met(self, progress: _Progress) -> bool:
        share = _share(self._answer(progress))
        return progress.trains >= self.least_trains and share is not None and share <= self.share

    def _answer(self, progress: _Progress) -> PooledEnergy | None:
        pooled = self.book.get(progress.key) if progress.key is not None else None
        return None if pooled == progress.before else pooled

    def _known(self, progress: _Progress) -> str:
        share = _share(self._answer(progress))
        known = "no pooled figure" if share is None else f"{100 * share:.2g} %"
        return f"{known} after {progress.trains} trains"


def _share(pooled: PooledEnergy | None) -> float | None:
    """U95 as a share of the value; None where there is none, or nothing to take a share of."""
    if pooled is None or not pooled.net_j_per_op.value:
        return None
    return pooled.net_j_per_op.u95 / abs(pooled.net_j_per_op.value)
