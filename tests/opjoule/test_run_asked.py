"""The words of `opjoule run` become campaigns that a runner reads too, or one line that says what was meant."""

import pytest

from errors import SettingsError
from opjoule.run.asked import Details, campaign_of, expand_asked, is_in_process, named
from opjoule.run.command import load_named
from runner.campaign_file import parse_campaign
from runner.expansion import Plan, expand
from runner.openssl import Offer
from schemas import CATALOGUE

OFFER = Offer("3.5.9", CATALOGUE, {"cli": {}, "lib": {}})
NO_DETAILS = Details()
OLD = Offer("3.0.2", {name: CATALOGUE[name] for name in ("ECDSA-P-256", "RSA-2048")}, {"cli": {}})


def _plan(words: str, details: Details = NO_DETAILS, offer: Offer = OFFER) -> Plan:
    """As a runner would expand the text that it is sent."""
    asked = campaign_of(words.split(), details, load_named)
    plan = expand_asked(asked, offer)
    assert plan == expand(parse_campaign(asked.text, "sent"), offer)
    return plan


def test_an_operation_with_parameter_sets_is_a_campaign_of_these() -> None:
    plan = _plan("SIGN ml-dsa-65 ECDSA-P-256")
    assert sorted(map(str, plan.operations)) == ["sign ECDSA-P-256", "sign ML-DSA-65"]
    assert len(plan.nulls) == 1 and len(plan.shams) == 1


def test_a_pattern_and_an_operation_without_sets_mean_all_that_have_it() -> None:
    assert {job.parameter_set for job in _plan("encaps ML-*").operations} == {"ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"}
    assert len(_plan("encaps").operations) == 3


def test_flags_say_how_the_operation_is_done() -> None:
    plan = _plan("keygen ML-KEM-768", Details(backends=("cli", "lib"), forms=("pair", "private")))
    assert sorted(map(str, plan.operations)) == [
        "keygen ML-KEM-768 by lib",
        "keygen ML-KEM-768 pair",
        "keygen ML-KEM-768 private",
    ]
    signing = _plan("sign ML-DSA-65", Details(message_bytes=32)).operations
    assert [job.message_bytes for job in signing] == [32]
    handshake = _plan("handshake X25519MLKEM768", Details(certificates=("ML-DSA-65",))).operations
    assert [(job.backend, job.certificate) for job in handshake] == [("lib", "ML-DSA-65")]
    handshake = _plan("handshake X25519", Details(certificates=("ml-dsa-65", "ED25519"))).operations
    assert [job.certificate for job in handshake] == ["ML-DSA-65", "Ed25519"]


def test_times_of_trains_go_into_the_text_that_a_runner_is_sent() -> None:
    campaign = campaign_of(["sign", "ML-DSA-65"], Details(train_s=5.0, rounds=3), load_named).campaign
    assert (campaign.train_s, campaign.rounds, campaign.name) == (5.0, 3, "sign ML-DSA-65")


def test_a_shipped_campaign_a_list_of_items_and_all_are_taken_as_they_are() -> None:
    assert _plan("demo").operations
    assert [str(job) for job in _plan("sign:ML-DSA-65,null,sham").operations] == ["sign ML-DSA-65"]
    assert [str(job) for job in _plan("sign:ML-DSA-65,lib/encaps:ML-KEM-768").jobs] == [
        "sign ML-DSA-65",
        "encaps ML-KEM-768 by lib",
        "sham",
    ]
    assert {job.backend for job in _plan("all").operations} == {"cli", "lib"}
    assert {job.backend for job in _plan("all", Details(backends=("cli",))).operations} == {"cli"}


@pytest.mark.parametrize(
    ("words", "details", "line"),
    [
        ("sing ML-DSA-65", Details(), "'sing' is no operation: did you mean sign?"),
        ("sign ML-DSA-66", Details(), "ML-DSA-66: no such parameter set: did you mean ML-DSA-65?"),
        ("sign ML-KEM-768", Details(), "ML-KEM-768: no sign (it has keygen, encaps, decaps, handshake)"),
        ("dmeo", Details(), "nothing is called 'dmeo': did you mean demo?"),
        ("sham,sign:ML-DSA-66", Details(), "'sign:ML-DSA-66': did you mean ML-DSA-65?"),
        ("demo", Details(backends=("lib",)), "--backend goes with operations or `all`: a campaign's own text decides"),
        ("sign ML-DSA-65", Details(backends=("libb",)), "backends is 'libb': did you mean lib?"),
        (
            "handshake X25519",
            Details(certificates=("ml-dsa-65", "ECDSA-P256")),
            "ECDSA-P256: no such parameter set: did you mean ECDSA-P-256?",
        ),
        ("handshake", Details(), "handshake needs a group, e.g. handshake X25519MLKEM768 --certificate ML-DSA-65"),
    ],
)
def test_what_is_not_understood_is_said_in_one_line_without_a_line_number(
    words: str, details: Details, line: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        _plan(words, details)
    assert str(refused.value).startswith(line)


def test_only_what_was_asked_for_by_name_is_missed() -> None:
    asked = campaign_of(["sign", "ML-DSA-65", "RSA-*", "ECDSA-P-256"], Details(), load_named).campaign
    skipped = expand(asked, OLD).skipped
    assert {each.parameter_set for each in skipped} == {"ML-DSA-65", "RSA-1024", "RSA-3072", "RSA-4096"}
    assert [each.parameter_set for each in named(asked, skipped)] == ["ML-DSA-65"]


@pytest.mark.parametrize(
    ("words", "in_process"),
    [
        ("demo", True),
        ("study-1", False),
        ("sign:ML-DSA-65", False),
        ("lib/sign:ML-DSA-65", True),
        ("handshake:X25519+ML-DSA-65", True),
    ],
)
def test_what_needs_the_libraries_in_this_process_is_known(words: str, in_process: bool) -> None:
    assert is_in_process(campaign_of([words], Details(), load_named).campaign) is in_process
