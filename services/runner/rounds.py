"""The order of trains, round by round, drawn from one recorded seed: the same seed gives the same run again. Pure."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from runner.campaign_file import Campaign
from runner.expansion import Plan
from runner.job import Job


@dataclass(frozen=True, slots=True)
class PlannedTrain:
    """One train. From `seed` come the lengths of its segments and its message."""

    job: Job
    seed: int


@dataclass(frozen=True, slots=True)
class Round:
    """One pass over the plan, numbered from 1."""

    number: int
    trains: tuple[PlannedTrain, ...]


def rounds(plan: Plan, campaign: Campaign, seed: int) -> Iterator[Round]:
    """The rounds of a campaign; without end where `rounds` is 0 or `until` is given, which the caller then judges.

    A round depends on plan, order, seed and its number alone, so that each can be repeated without those before it.
    """
    endless = campaign.rounds == 0 or campaign.until is not None
    null_every = campaign.null_every if campaign.study is not None else None
    for number in count(1) if endless else range(1, campaign.rounds + 1):
        draw = random.Random(f"{seed}/{number}")
        order = _random_order(plan, draw) if campaign.order == "random" else _as_written(plan, null_every)
        yield Round(number, tuple(PlannedTrain(job, draw.getrandbits(48)) for job in order))


def _random_order(plan: Plan, draw: random.Random) -> tuple[Job, ...]:
    """Operations shuffled; null trains, and then sham trains, in equal parts of them, anywhere in its part."""
    jobs = draw.sample(plan.operations, len(plan.operations))
    for extras in (plan.nulls, plan.shams):
        jobs = _spread(jobs, draw.sample(extras, len(extras)), [draw.random() for _ in extras])
    return tuple(jobs)


def _as_written(plan: Plan, null_every: int | None) -> tuple[Job, ...]:
    """Operations as written; null trains at the end of equal parts of them, then sham trains in the middle of parts.

    As published a null run comes after every `null_every` operations instead.
    """
    if null_every is None:
        with_nulls = _spread(plan.operations, plan.nulls, [1.0] * len(plan.nulls))
    else:
        with_nulls = _placed(plan.operations, plan.nulls, [null_every * each for each in range(1, len(plan.nulls) + 1)])
    return tuple(_spread(with_nulls, plan.shams, [0.5] * len(plan.shams)))


def _spread(jobs: Sequence[Job], extras: Sequence[Job], shares: Sequence[float]) -> list[Job]:
    """The jobs with one extra in each of as many equal parts, at that share of the part's length."""
    return _placed(
        jobs, extras, [int((number + share) * len(jobs) / len(extras)) for number, share in enumerate(shares)]
    )


def _placed(jobs: Sequence[Job], extras: Sequence[Job], places: Sequence[int]) -> list[Job]:
    """The jobs with each extra before the one at its place."""
    spread: list[Job] = []
    done = 0
    for extra, place in zip(extras, places, strict=True):
        spread += [*jobs[done:place], extra]
        done = place
    return [*spread, *jobs[done:]]
