"""Order and seeds of trains: one recorded seed gives the same run again."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign_file import Campaign, parse_campaign
from runner.expansion import Plan, expand
from runner.job import Job
from runner.plan import WholeCatalogue, campaign_of
from runner.rounds import Round, rounds
from runner.segments import PRESETS, plan_train

seeds = st.integers(min_value=0, max_value=2**53 - 1)
STUDY = campaign_of("study-1")
PLAN = expand(STUDY, WholeCatalogue())


def _rounds(campaign: Campaign, seed: int, most: int = 3) -> list[Round]:
    return list(islice(rounds(expand(campaign, WholeCatalogue()), campaign, seed), most))


@given(seed=seeds)
def test_the_same_seed_gives_the_same_order_seeds_and_segments(seed: int) -> None:
    first, again = next(rounds(PLAN, STUDY, seed)), next(rounds(PLAN, STUDY, seed))
    assert first == again
    train = first.trains[0]
    assert plan_train(train.seed, 60.0, 0.004, PRESETS["short"]).segments == (
        plan_train(train.seed, 60.0, 0.005, PRESETS["short"]).segments
    )


@given(seed=seeds)
def test_every_round_has_every_train_of_the_plan_and_no_two_the_same_seed(seed: int) -> None:
    trains = next(rounds(PLAN, STUDY, seed)).trains
    assert sorted(str(train.job) for train in trains) == sorted(str(job) for job in PLAN.jobs)
    assert len({train.seed for train in trains}) == len(trains)


@given(seed=seeds)
def test_null_and_sham_trains_are_among_the_operations(seed: int) -> None:
    jobs = [train.job for train in next(rounds(PLAN, STUDY, seed)).trains]
    for kind in ("sham", "null"):
        places = [number for number, job in enumerate(jobs) if job.operation == kind]
        assert len(places) == 3
        assert max(places) - min(places) > len(jobs) // 4


def test_each_round_has_another_order_and_can_be_had_alone() -> None:
    campaign = STUDY.model_copy(update={"rounds": 3})
    three = _rounds(campaign, 7, 9)
    assert [each.number for each in three] == [1, 2, 3]
    assert three[0].trains != three[1].trains != three[2].trains
    assert _rounds(STUDY.model_copy(update={"rounds": 0}), 7, 2)[1] == three[1]


def test_a_campaign_until_a_target_goes_on_for_ever() -> None:
    text = 'until = "u95 <= 2 %"\nmost_trains = 20\nitems = ["sign:ML-DSA-65"]'
    assert len(_rounds(parse_campaign(text, "c"), 1, 5)) == 5


def test_as_written_keeps_the_order_with_null_trains_between() -> None:
    campaign = campaign_of("study-2-as-published")
    kinds = [train.job.operation for train in _rounds(campaign, 1)[0].trains if train.job.operation != "sham"]
    assert kinds == [*["keygen", "keygen", "null"] * 7, "keygen"]
    operations = [train.job for train in _rounds(campaign, 1)[0].trains if train.job.operation == "keygen"]
    assert tuple(operations) == expand(campaign, WholeCatalogue()).operations


@pytest.mark.parametrize("order", ["random", "as-written"])
def test_a_plan_of_shams_alone_can_be_ordered(order: str) -> None:
    campaign = Campaign.model_validate({"order": order})
    plan = Plan(operations=(), nulls=(), shams=(Job("sham"),))
    assert [train.job for train in next(rounds(plan, campaign, 1)).trains] == [Job("sham")]
