"""How long a campaign takes, from the time of one repetition of each job."""

import pytest

from errors import SettingsError
from runner.campaign_file import Campaign, parse_campaign
from runner.estimate import Estimate, estimate
from runner.expansion import expand
from runner.job import Job
from runner.plan import WholeCatalogue, campaign_of

SLOW = Job("sign", "SLH-DSA-SHAKE-192s")


def _estimate(campaign: Campaign, repetition_s: dict[Job, float]) -> Estimate:
    return estimate(expand(campaign, WholeCatalogue()), campaign, repetition_s)


def _campaign(above: str) -> Campaign:
    return parse_campaign(f'{above}\nitems = ["sign:ML-DSA-65", "sign:SLH-DSA-SHAKE-192s"]', "c")


def test_a_round_is_its_trains_and_the_pauses_after_them() -> None:
    each = _estimate(_campaign("gap_s = 5\nrounds = 3"), {Job("sign", "ML-DSA-65"): 0.01, SLOW: 0.02})
    assert len(each.trains_s) == 4
    assert all(train_s == pytest.approx(60, abs=2.1) for _, train_s in each.trains_s)
    assert each.round_s == pytest.approx(sum(train_s for _, train_s in each.trains_s) + 4 * 5)
    assert each.least_s == each.most_s == pytest.approx(3 * each.round_s)


def test_a_repetition_of_95_s_makes_a_train_of_minutes_that_fits_a_day() -> None:
    each = _estimate(_campaign(""), {SLOW: 95.0})
    assert 3 * 95 + 4 * 15 <= dict(each.trains_s)[SLOW] <= 3 * 95 + 4 * 45


def test_trains_that_start_every_five_minutes_take_five_minutes_each_or_longer() -> None:
    assert _estimate(_campaign("every_s = 300"), {}).round_s == pytest.approx(4 * 300)
    longer = _estimate(_campaign("every_s = 300"), {SLOW: 200.0})
    assert longer.round_s == pytest.approx(3 * 300 + dict(longer.trains_s)[SLOW] + 2)


def test_a_campaign_without_end_has_a_round_and_no_end() -> None:
    each = _estimate(_campaign("rounds = 0"), {})
    assert each.round_s > 0
    assert each.least_s is each.most_s is None


@pytest.mark.parametrize(
    ("limits", "least", "most"),
    [("most_trains = 20", 10, 20), ("least_trains = 15\nmost_trains = 15", 15, 15)],
)
def test_until_a_target_it_takes_between_the_least_and_the_most_trains(limits: str, least: int, most: int) -> None:
    each = _estimate(_campaign(f'until = "u95 <= 2 %"\n{limits}'), {})
    assert each.least_s == pytest.approx(least * each.round_s)
    assert each.most_s == pytest.approx(most * each.round_s)


def test_a_limit_in_s_ends_it_before_the_least_trains_are_done() -> None:
    each = _estimate(_campaign('until = "u95 <= 2 %"\nmost_s = 60'), {})
    assert (each.least_s, each.most_s) == (60, 60)


def test_as_published_takes_as_long_as_the_steps_of_the_study() -> None:
    campaign = campaign_of("study-1-as-published")
    times_s = {job: 0.1 for job in expand(campaign, WholeCatalogue()).operations}
    each = _estimate(campaign, times_s)
    assert sum(train_s for job, train_s in each.trains_s if job.operation != "sham") == pytest.approx(47 * 370)


def test_a_null_run_that_sleeps_needs_no_trial_to_be_estimated() -> None:
    each = _estimate(campaign_of("study-2-as-published"), {})
    assert {train_s for job, train_s in each.trains_s if job.operation == "null"} == {15 + 50.0}


def test_a_repetition_of_a_day_fits_no_train() -> None:
    with pytest.raises(SettingsError, match="one repetition takes 40000 s: 3 of them fit no train of a day"):
        _estimate(_campaign(""), {SLOW: 40_000.0})
