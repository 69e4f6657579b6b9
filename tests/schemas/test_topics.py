"""Topics: the table of DESIGN.md section 2, written out here a second time."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import (
    CATALOGUE,
    ROOT,
    TOPICS,
    latest_has_variant,
    latest_slug,
    parse_topic,
    slug,
    slugs,
    topic,
    topic_filter,
)
from schemas.base import RESERVED_DUTS
from schemas.operations import Operation
from schemas.topics import Kind

CONTRACT = {
    "samples": ("{dut}/samples", "meter", 1, False, "SampleBatch"),
    "operations": ("{dut}/operations", "runner", 1, False, "OperationEvent"),
    "device": ("{dut}/device", "runner", 1, True, "DeviceDescription"),
    "results": ("{dut}/results", "aggregator", 1, False, "EnergyResult"),
    "latest": ("{dut}/results/latest/{backend}/{operation}/{slug}", "aggregator", 1, True, "EnergyResult"),
    "pooled": ("{dut}/pooled/{backend}/{operation}/{slug}/{variant}", "aggregator", 1, True, "PooledEnergy"),
    "comparisons": ("comparisons/{slug}", "aggregator", 1, True, "Comparison"),
    "journaled": ("{dut}/journaled", "aggregator", 1, False, "Journaled"),
    "command": ("{dut}/command", "operator", 1, False, "Command"),
    "status": ("services/{service}/{instance}/status", "each", 1, True, "ServiceStatus"),
    "ping": ("services/{service}/{instance}/clock/ping", "aggregator", 0, False, "ClockPing"),
    "pong": ("services/{service}/{instance}/clock/pong", "each", 0, False, "ClockPong"),
    "rejected": ("rejected", "aggregator", 1, False, "Rejected"),
}
PROMISED = {"results", "latest", "pooled", "comparisons", "device", "status"}

identifiers = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,62}", fullmatch=True)
duts = identifiers.filter(lambda name: name not in RESERVED_DUTS)
kinds = st.sampled_from(sorted(TOPICS))


def matches(subscription: str, name: str) -> bool:
    """Whether an MQTT subscription with single-level wildcards matches a topic (MQTT 5, section 4.7)."""
    wanted, levels = subscription.split("/"), name.split("/")
    return len(wanted) == len(levels) and all(w in ("+", level) for w, level in zip(wanted, levels, strict=True))


def levels_of(kind: Kind, data: st.DataObject) -> dict[str, str]:
    """Names for the variable levels of a kind."""
    names = re.findall(r"\{(\w+)\}", TOPICS[kind].pattern)
    return {name: data.draw(duts if name == "dut" else identifiers) for name in names}


def test_the_topics_are_those_of_the_contract() -> None:
    written = {
        kind: (spec.pattern, spec.sender, spec.qos, spec.retain, spec.message.__name__) for kind, spec in TOPICS.items()
    }
    assert written == CONTRACT
    assert ROOT == "opjoule/v1"
    assert {kind for kind, spec in TOPICS.items() if spec.promised} == PROMISED
    assert all(kind == spec.kind for kind, spec in TOPICS.items())


def test_a_topic_reads_as_in_the_documents() -> None:
    assert topic("samples", "lab", dut="pi4") == "opjoule/v1/lab/pi4/samples"
    latest = topic("latest", "lab", dut="pi4", backend="cli", operation="sign", slug=slug("ML-DSA-65"))
    assert latest == "opjoule/v1/lab/pi4/results/latest/cli/sign/ml-dsa-65"


@given(kind=kinds, site=identifiers, data=st.data())
def test_a_topic_that_was_built_is_read_back_as_it_was(kind: Kind, site: str, data: st.DataObject) -> None:
    levels = levels_of(kind, data)
    address = parse_topic(topic(kind, site, **levels))
    assert address is not None
    assert (address.kind, address.site, address.levels) == (kind, site, levels)
    assert address.dut == levels.get("dut", "")


@given(kind=kinds, site=identifiers, data=st.data())
def test_the_filter_of_a_kind_matches_its_topics_and_no_others(kind: Kind, site: str, data: st.DataObject) -> None:
    name = topic(kind, site, **levels_of(kind, data))
    assert matches(topic_filter(kind), name)
    assert matches(topic_filter(kind, site), name)
    others = {other for other in TOPICS if other != kind and matches(topic_filter(other), name)}
    assert not others or kind == "comparisons", "only a comparison's slug may be a word of the contract"


def test_a_filter_names_the_levels_that_it_is_given() -> None:
    assert topic_filter("samples", "lab", dut="pi4") == "opjoule/v1/lab/pi4/samples"
    assert topic_filter("samples", dut="pi4") == "opjoule/v1/+/pi4/samples"
    assert topic_filter("pong", "lab", service="meter") == "opjoule/v1/lab/services/meter/+/clock/pong"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "opjoule/v1/lab",
        "opjoule/v2/lab/pi4/samples",
        "opjoule/v1/lab/pi4/samples/",
        "opjoule/v1/lab/pi4/samples/more",
        "opjoule/v1/lab//samples",
        "opjoule/v1//pi4/samples",
        "x/opjoule/v1/lab/pi4/samples",
        "opjoule/v1/lab/pi4/Samples",
        "opjoule/v1/lab/pi4/samples\n",
        "opjoule/v1/+/pi4/samples",
        "opjoule/v1/lab/services/results",
        "opjoule/v1/lab/rejected/samples",
        "$SYS/broker/uptime",
    ],
)
def test_a_foreign_topic_addresses_nothing(name: str) -> None:
    assert parse_topic(name) is None


def test_a_word_reserved_for_a_dut_keeps_its_own_topics() -> None:
    address = parse_topic("opjoule/v1/lab/comparisons/samples")
    assert address is not None
    assert address.kind == "comparisons"


def test_a_slug_is_lower_case_with_hyphens() -> None:
    assert slug("SLH-DSA-SHA2-128s") == "slh-dsa-sha2-128s"
    assert slug("X25519:ML-DSA 65") == "x25519-ml-dsa-65"


def test_parameter_sets_that_would_share_a_topic_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'ML-DSA-65' and 'ML\.DSA\.65' would share the topic level 'ml-dsa-65'"):
        slugs(["ML-KEM-512", "ML-DSA-65", "ML.DSA.65"])


def test_no_two_parameter_sets_of_the_catalogue_share_a_topic() -> None:
    assert slugs(list(CATALOGUE)) == {name: slug(name) for name in CATALOGUE}


@pytest.mark.parametrize(
    ("operation", "parameter_set", "variant", "expected"),
    [
        ("sign", "ML-DSA-65", "message_bytes=19600", "ml-dsa-65"),
        ("keygen", "ML-KEM-768", "form=private", "ml-kem-768"),
        ("sham", "none", "", "none"),
        ("null", "none", "processes=2,reads=key", "processes-2-reads-key"),
        ("null", "none", "", "none"),
        ("handshake", "X25519MLKEM768", "certificate=ML-DSA-65", "x25519mlkem768-certificate-ml-dsa-65"),
        ("handshake", "X25519", "", "x25519"),
    ],
)
def test_latest_results_are_apart_by_parameter_set_null_variant_and_certificate(
    operation: str, parameter_set: str, variant: str, expected: str
) -> None:
    assert latest_slug(operation, parameter_set, variant) == expected


def test_variants_of_an_operation_share_a_topic_unless_the_variant_is_what_was_measured() -> None:
    apart = [name for name in get_args(Operation) if latest_slug(name, "A", "one") != latest_slug(name, "A", "two")]
    assert apart == ["handshake", "null"]
    assert apart == [name for name in get_args(Operation) if latest_has_variant(name)]
