"""Arrivals modulo a period: the right one is found, and what is no other rate is not taken for one."""

import random

import pytest

from meter.folding import better_period, closest_period, spread

MS = 1_000_000
PERIOD_NS = 40 * MS


def arrivals(period_ms: float, jitter_ms: float, loss: float = 0.0, shift_ms: float = 0.0) -> list[int]:
    draw = random.Random(4)
    return [
        round((index * period_ms + draw.uniform(0, jitter_ms) + (shift_ms if index >= 75 else 0.0)) * MS)
        for index in range(150)
        if draw.random() >= loss
    ]


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("period_ms", [39.2, 39.8, 40.2, 40.8])
def test_a_period_that_is_off_is_found_under_jitter_whatever_is_missing(period_ms: float, loss: float) -> None:
    better_ns = better_period(arrivals(period_ms, 30, loss), PERIOD_NS)
    assert better_ns == pytest.approx(period_ms * MS, rel=1e-3)


@pytest.mark.parametrize("jitter_ms", [0, 20, 30, 39])
def test_the_right_period_is_not_improved(jitter_ms: float) -> None:
    assert better_period(arrivals(40, jitter_ms), PERIOD_NS) is None


@pytest.mark.parametrize("shift_ms", [-19, -17, 17, 19])
def test_a_shift_of_phase_is_no_other_rate(shift_ms: float) -> None:
    assert better_period(arrivals(40, 18, shift_ms=shift_ms), PERIOD_NS) is None


def test_the_closest_period_lays_arrivals_closer_than_a_multiple_of_it_by_chance() -> None:
    given = arrivals(40, 30, loss=0.2)
    assert spread(given, closest_period(given, PERIOD_NS)) < spread(given, closest_period(given, 1.25 * PERIOD_NS))
