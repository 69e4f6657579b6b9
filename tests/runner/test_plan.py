"""The plan: names become jobs, and what the OpenSSL lacks is left out with a reason."""

import pytest

from errors import SettingsError
from runner.operations import OPERATIONS
from runner.plan import DEMO, KEY_OPERATIONS, Job, parse_plan, skipped_of_catalogue, split_offered
from schemas import CATALOGUE


def test_items_name_operation_and_parameter_set_in_any_case() -> None:
    assert parse_plan(" keygen:ml-kem-768, sign:ECDSA-P-256 ,null:2,null,sham") == (
        Job("keygen", "ML-KEM-768"),
        Job("sign", "ECDSA-P-256"),
        Job("null", processes=2),
        Job("null", processes=1),
        Job("sham"),
    )


def test_the_demo_has_sham_and_null_trains_and_operations_of_every_post_quantum_family() -> None:
    jobs = parse_plan("demo")
    assert len(jobs) == len(DEMO)
    assert {Job("sham"), Job("null", processes=1), Job("null", processes=2)} < set(jobs)
    assert {CATALOGUE[job.parameter_set].family for job in jobs if job.parameter_set in CATALOGUE} >= {
        "ML-KEM",
        "ML-DSA",
        "SLH-DSA",
    }


def test_all_means_every_operation_of_every_parameter_set() -> None:
    jobs = parse_plan("all")
    assert len(jobs) == len(set(jobs))
    assert {job.parameter_set for job in jobs} == {"none", *CATALOGUE}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keygen:MLKEM768", "did you mean ML-KEM-768?"),
        ("sing:ML-DSA-65", "did you mean sign?"),
        ("sign:ML-KEM-768", "ML-KEM-768 has no sign (it has keygen)"),
        ("null:0", "1 to 9 processes"),
        ("null:many", "1 to 9 processes"),
        ("sham:1", "did you mean sham?"),
        ("zzz", "known are keygen, sign, verify, null, sham, demo, all"),
        (" , ", "is empty"),
    ],
)
def test_an_item_that_is_not_known_is_answered_with_what_is(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_plan(text)
    assert said in str(caught.value)


def test_what_the_openssl_lacks_is_left_out_with_the_reason_and_the_rest_stays() -> None:
    jobs, skipped = split_offered(parse_plan("demo"), ("X25519", "ECDSA-P-256"), "3.0.19")
    assert [job.parameter_set for job in jobs if job.parameter_set != "none"] == ["X25519", "ECDSA-P-256"]
    assert {each.parameter_set for each in skipped} == {"ML-KEM-768", "ML-DSA-65", "SLH-DSA-SHA2-128f"}
    assert skipped[0].reason == "OpenSSL 3.0.19 lacks ML-KEM-768"


def test_the_device_lists_every_operation_that_a_newer_openssl_would_add() -> None:
    everything_but_one = [name for name in CATALOGUE if name != "ML-DSA-65"]
    skipped = skipped_of_catalogue(everything_but_one, "3.4.0")
    assert [(each.operation, each.parameter_set) for each in skipped] == [
        ("keygen", "ML-DSA-65"),
        ("sign", "ML-DSA-65"),
        ("verify", "ML-DSA-65"),
    ]


def test_every_operation_that_a_plan_can_name_is_one_that_the_runner_has() -> None:
    assert set(OPERATIONS) == {*KEY_OPERATIONS, "null", "sham"}
