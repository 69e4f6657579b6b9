"""The campaigns that come with opjoule."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from errors import SettingsError
from runner.expansion import Plan, expand
from runner.operations import OPERATIONS
from runner.plan import WholeCatalogue
from runner.procedures import procedure_of
from runner.shipped import load_campaign, shipped_campaigns

PUBLISHED_OPERATIONS = {"": "keygen", "signing": "sign", "verification": "verify"}


def _plan(name: str) -> Plan:
    return expand(load_campaign(name), WholeCatalogue())


def test_demo_all_continuous_and_both_studies_twice_are_shipped() -> None:
    assert shipped_campaigns() == (
        "all",
        "continuous",
        "demo",
        "study-1",
        "study-1-as-published",
        "study-2",
        "study-2-as-published",
    )


@pytest.mark.parametrize("name", shipped_campaigns())
def test_a_shipped_campaign_is_described_and_has_shams_and_skips_nothing_that_the_catalogue_has(name: str) -> None:
    campaign = load_campaign(name.upper())
    assert campaign.name == name
    assert campaign.description
    plan = _plan(name)
    assert plan.shams
    assert plan.skipped == ()


@pytest.mark.parametrize("name", shipped_campaigns())
def test_every_train_of_a_shipped_campaign_is_one_that_the_runner_can_prepare(name: str) -> None:
    assert [str(job) for job in _plan(name).jobs if job.operation not in OPERATIONS[job.backend]] == []


def test_the_continuous_loop_starts_a_train_every_five_minutes_for_ever() -> None:
    campaign = load_campaign("continuous")
    assert (campaign.every_s, campaign.rounds) == (300, 0)
    assert len(_plan("continuous").jobs) * 300 < 6 * 3600


@pytest.mark.parametrize("name", ["study-1", "study-1-as-published"])
def test_the_first_study_has_19_key_generations_14_signings_and_14_verifications(name: str) -> None:
    operations = _plan(name).operations
    assert Counter(job.operation for job in operations) == {"keygen": 19, "sign": 14, "verify": 14}
    assert {job.message_bytes for job in operations} == {19_600}
    assert {job.form for job in operations if job.operation == "keygen"} == {"pair"}


def test_the_first_study_is_run_with_the_command_lines_that_failed_only_as_published() -> None:
    forms = {job.form for job in _plan("study-1-as-published").operations if job.operation != "keygen"}
    assert forms == {"as-published"}
    assert {job.form for job in _plan("study-1").operations if job.operation != "keygen"} == {""}


@pytest.mark.recordings
def test_the_first_study_is_its_published_rows_in_their_order(recordings: Path) -> None:
    with (recordings / "published_results.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["machine"] == "pizero"]
    published = [(PUBLISHED_OPERATIONS[row["submethod"]], row["algorithm"].replace(" ", "-")) for row in rows]
    operations = _plan("study-1-as-published").operations
    assert [(job.operation, job.parameter_set) for job in operations] == published


@pytest.mark.recordings
def test_slow_signatures_are_timed_as_often_as_the_study_did_or_more(recordings: Path) -> None:
    jobs = {(job.operation, job.parameter_set): job for job in _plan("study-1-as-published").operations}
    more = 0
    with (recordings / "published_results.csv").open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            job = jobs[PUBLISHED_OPERATIONS[row["submethod"]], row["algorithm"].replace(" ", "-")]  # type: ignore[index]
            procedure = procedure_of(1, job, float(row["time per iteration"]))
            assert procedure is not None
            assert procedure.steps[-1].repetitions >= int(row["iterations"])
            more += procedure.steps[-1].repetitions > int(row["iterations"])
    assert more == 5


@pytest.mark.parametrize("name", ["study-2", "study-2-as-published"])
def test_the_second_study_generates_private_keys_only(name: str) -> None:
    operations = _plan(name).operations
    assert {(job.operation, job.form, job.backend) for job in operations} == {("keygen", "private", "cli")}
    assert [job.parameter_set for job in operations[:2]] == ["ECDSA-secp160r1", "ECDSA-P-224"]
    assert len(operations) == 15


def test_the_null_runs_of_the_second_study_sleep_and_those_of_its_trains_start_a_process() -> None:
    assert {(null.backend, null.null_variant) for null in _plan("study-2-as-published").nulls} == {
        ("none", "sleep_s=0.005")
    }
    assert {(null.backend, null.null_variant) for null in _plan("study-2").nulls} == {("cli", "processes=1")}


def test_a_name_that_no_campaign_has_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"no campaign is called 'dmeo': did you mean demo\?"):
        load_campaign("dmeo")
