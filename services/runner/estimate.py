"""How long a plan takes on a board, from the time of one repetition of each job. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from runner.campaign_file import Campaign
from runner.expansion import Plan
from runner.job import Job
from runner.procedures import NULL_SLEEP_S, NULL_SLEEP_VARIANT, procedure_of
from runner.segments import PRESETS, plan_train


@dataclass(frozen=True, slots=True)
class Estimate:
    """In s: each train without the pause after it, by the plan's jobs in their order; one round and the whole campaign.

    Preparation, trial and check are not in it. `least_s` is `most_s` but for campaigns with `until`; both are None for
    a campaign without end.
    """

    trains_s: tuple[tuple[Job, float], ...]
    round_s: float
    least_s: float | None
    most_s: float | None


def estimate(plan: Plan, campaign: Campaign, repetition_s: Mapping[Job, float]) -> Estimate:
    """The times of a campaign; a job without a time counts as one whose repetitions take none.

    Raises SettingsError for a job of which the least number of repetitions fits no day.
    """
    trains_s = tuple((job, train_s(campaign, job, repetition_s.get(job, _known_s(job)))) for job in plan.jobs)
    round_s = sum(max(each_s + campaign.gap_s, campaign.every_s or 0.0) for _, each_s in trains_s)
    least_s, most_s = _whole(campaign, round_s)
    return Estimate(trains_s, round_s, least_s, most_s)


def train_s(campaign: Campaign, job: Job, repetition_s: float) -> float:
    """Length of one train, or of one measurement as published, in s. Raises SettingsError where it fits no day."""
    procedure = procedure_of(campaign.study, job, repetition_s) if campaign.study is not None else None
    if procedure is not None:
        return procedure.expected_s(repetition_s)
    return plan_train(campaign.seed or 0, campaign.train_s, repetition_s, PRESETS[campaign.preset]).expected_s


def _known_s(job: Job) -> float:
    return NULL_SLEEP_S if job.null_variant == NULL_SLEEP_VARIANT else 0.0


def _whole(campaign: Campaign, round_s: float) -> tuple[float | None, float | None]:
    if campaign.until is not None:
        least_s = campaign.least_trains * round_s
        ends_s = [campaign.most_trains * round_s] if campaign.most_trains is not None else []
        ends_s += [campaign.most_s] if campaign.most_s is not None else []
        return min(least_s, *ends_s), min(ends_s)
    return (campaign.rounds * round_s,) * 2 if campaign.rounds else (None, None)
