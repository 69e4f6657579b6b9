"""Verdicts follow from numbers: idle 0.5 W, load 1.5 W and 0.2 s per operation make 0.2 J."""

import pytest

from opjoule.study.names import Subject
from opjoule.study.published import PublishedRow
from opjoule.study.verdicts import AGREES, NOT_PUBLISHED, NOT_RECORDED, TIMING_ONLY, Recorded, is_failure, verdict

RECORDED = Recorded(idle_w=0.5, load_w=1.5, j_per_op=0.2)


def published(idle: str, load: str, j_per_op: float | None, s_per_op: float = 0.2) -> PublishedRow:
    return PublishedRow(
        line=2,
        machine="pi4",
        subject=Subject("pi4", "sign", "ML-DSA-44"),
        iterations=100,
        s_per_op=s_per_op,
        start_s=None,
        idle_w=float(idle) if idle else None,
        load_w=float(load) if load else None,
        j_per_op=j_per_op,
        idle_text=idle,
        load_text=load,
    )


@pytest.mark.parametrize("j_per_op", [0.2, 0.20019, 0.19981])
def test_within_a_thousandth_it_agrees(j_per_op: float) -> None:
    assert verdict(published("0.5", "1.5", j_per_op), RECORDED) == AGREES


@pytest.mark.parametrize("j_per_op", [0.20021, 0.19979, -0.2, 0.0])
def test_beyond_a_thousandth_it_does_not(j_per_op: float) -> None:
    assert verdict(published("0.5", "1.5", j_per_op), RECORDED).startswith("published energy follows neither")


def test_a_typed_power_that_is_only_rounded_is_no_cause() -> None:
    recorded = Recorded(idle_w=0.56376, load_w=0.90132, j_per_op=(0.90132 - 0.56376) * 0.14556)
    typed = published("0.56378", "0.901316", (0.901316 - 0.56378) * 0.14556, 0.14556)
    assert verdict(typed, recorded) == AGREES


def test_a_typed_idle_power_that_the_energy_follows_from_is_named() -> None:
    recorded = Recorded(idle_w=0.56376, load_w=0.9, j_per_op=(0.9 - 0.56376) * 2)
    typed = published("0.53676", "0.9", (0.9 - 0.53676) * 2, 2)
    assert verdict(typed, recorded) == "published idle power differs from the recording: 0.53676 W against 0.56376 W"


def test_a_typed_load_power_that_the_energy_follows_from_is_named() -> None:
    assert (
        verdict(published("0.5", "1.75", 0.25), RECORDED)
        == "published load power differs from the recording: 1.75 W against 1.50 W"
    )


def test_both_are_named_where_only_both_give_the_energy() -> None:
    assert verdict(published("0.25", "1.75", 0.3), RECORDED) == (
        "published idle power differs from the recording: 0.25 W against 0.50 W;"
        " published load power differs from the recording: 1.75 W against 1.50 W"
    )


def test_a_wrong_power_beside_an_energy_that_agrees_is_no_cause() -> None:
    assert verdict(published("0.4", "1.5", 0.2), RECORDED) == AGREES


def test_an_energy_that_follows_from_nothing_is_said_so() -> None:
    assert verdict(published("0.5", "1.5", 0.4), RECORDED) == (
        "published energy follows neither from the recordings (ratio 0.5000) nor from its own powers and time"
    )
    assert "(0.2 J)" in verdict(published("0.5", "1.5", 0.0), RECORDED)


def test_a_difference_is_never_hidden_by_the_decimals_that_were_typed() -> None:
    recorded = Recorded(idle_w=0.5636, load_w=0.5836, j_per_op=0.02 * 10)
    typed = published("0.56", "0.5836", 0.0236 * 10, 10)
    assert verdict(typed, recorded) == "published idle power differs from the recording: 0.560 W against 0.564 W"


def test_without_an_energy_there_are_times_only() -> None:
    assert verdict(published("", "", None), RECORDED) == TIMING_ONLY


def test_an_energy_without_powers_is_compared_all_the_same() -> None:
    assert verdict(published("", "", 0.2), RECORDED) == AGREES
    assert verdict(published("", "1.5", 0.3), RECORDED).startswith("published energy follows neither")


def test_only_what_was_left_out_is_a_failure() -> None:
    assert is_failure(NOT_RECORDED) and is_failure("unreadable: empty")
    others = (AGREES, TIMING_ONLY, NOT_PUBLISHED, verdict(published("0.5", "1.75", 0.25), RECORDED))
    assert not any(map(is_failure, others))
