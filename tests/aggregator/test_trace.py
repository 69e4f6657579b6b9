"""The integral of a trace against forms that are solved by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.trace import STUCK_S, PowerTrace, concatenate, without_stuck
from tests.aggregator.trains import PERIOD_NS, SECOND, T0, trace

times_s = st.floats(0.0, 10.0)


def _ns(t_s: float) -> int:
    return T0 + round(t_s * 1e9)


@given(times_s, times_s, st.floats(0.1, 20.0))
def test_constant_power_integrates_to_power_times_time(a_s: float, b_s: float, power_w: float) -> None:
    a_s, b_s = min(a_s, b_s), max(a_s, b_s)
    stretch = trace(lambda t: np.full(len(t), power_w), 10.0).stretch(_ns(a_s), _ns(b_s))
    assert stretch.covered_s == pytest.approx(b_s - a_s, abs=3e-9)
    assert stretch.energy_j == pytest.approx(power_w * (b_s - a_s), abs=1e-7)


@given(times_s, times_s, st.floats(-1.0, 1.0))
def test_a_ramp_integrates_exactly_at_any_edges(a_s: float, b_s: float, slope: float) -> None:
    a_s, b_s = min(a_s, b_s), max(a_s, b_s)
    stretch = trace(lambda t: 3.0 + slope * t, 10.0).stretch(_ns(a_s), _ns(b_s))
    expected_j = 3.0 * (b_s - a_s) + slope * (b_s**2 - a_s**2) / 2
    assert stretch.energy_j == pytest.approx(expected_j, abs=1e-7)


@given(st.lists(st.floats(0.0, 20.0), min_size=1, max_size=200))
def test_the_mean_over_a_whole_recording_is_the_mean_of_its_samples(powers: list[float]) -> None:
    t_ns = T0 + PERIOD_NS * np.arange(len(powers), dtype=np.int64)
    whole = PowerTrace(t_ns, np.array(powers), PERIOD_NS).stretch(T0 - PERIOD_NS // 2, int(t_ns[-1]) + PERIOD_NS // 2)
    assert whole.covered_s == pytest.approx(len(powers) * PERIOD_NS / 1e9)
    assert whole.mean_w == pytest.approx(np.mean(powers), abs=1e-9)


def test_a_gap_is_not_covered_and_gives_no_energy() -> None:
    full = trace(lambda t: np.full(len(t), 2.0), 10.0)
    kept = (full.t_ns < _ns(4.0)) | (full.t_ns >= _ns(5.0))
    holed = PowerTrace(full.t_ns[kept], full.power_w[kept], PERIOD_NS)
    stretch = holed.stretch(_ns(3.0), _ns(6.0))
    assert stretch.missing_s == pytest.approx(1.0)
    assert stretch.energy_j == pytest.approx(4.0)
    assert stretch.mean_w == pytest.approx(2.0)
    assert holed.stretch(_ns(4.2), _ns(4.8)).covered_s == 0.0


def test_one_lost_report_of_four_samples_is_bridged_and_two_are_not() -> None:
    full = trace(lambda t: np.full(len(t), 2.0), 1.0)
    one = np.ones(len(full.t_ns), dtype=bool)
    one[50:54] = False
    two = np.ones(len(full.t_ns), dtype=bool)
    two[50:58] = False
    assert PowerTrace(full.t_ns[one], full.power_w[one], PERIOD_NS).stretch(T0, T0 + SECOND).missing_s < 1e-12
    assert PowerTrace(full.t_ns[two], full.power_w[two], PERIOD_NS).stretch(T0, T0 + SECOND).missing_s > 0.05


@given(times_s, times_s)
def test_a_stretch_longer_than_the_data_covers_the_data_only(before_s: float, after_s: float) -> None:
    data = trace(lambda t: np.full(len(t), 1.0), 10.0)
    stretch = data.stretch(_ns(-1.0 - before_s), _ns(11.0 + after_s))
    assert stretch.covered_s == pytest.approx(10.0 + PERIOD_NS / 1e9)


def test_no_data_covers_nothing() -> None:
    empty = concatenate([], PERIOD_NS)
    stretch = empty.stretch(T0, T0 + SECOND)
    assert (stretch.energy_j, stretch.covered_s, stretch.length_s) == (0.0, 0.0, 1.0)
    assert math.isnan(stretch.mean_w)


def test_batches_that_overlap_count_every_sample_once() -> None:
    full = trace(lambda t: 1.0 + t, 1.0)
    parts = [(full.t_ns[40:], full.power_w[40:]), (full.t_ns[:60], full.power_w[:60])]
    assert np.array_equal(concatenate(parts, PERIOD_NS).t_ns, full.t_ns)


def test_samples_that_run_backwards_are_refused() -> None:
    with pytest.raises(ValueError, match="order of time"):
        PowerTrace(np.array([2, 1], dtype=np.int64), np.array([1.0, 1.0]), PERIOD_NS)


def test_a_period_that_a_sender_exaggerates_hides_no_gap() -> None:
    full = trace(lambda t: np.full(len(t), 2.0), 10.0)
    kept = (full.t_ns < _ns(4.0)) | (full.t_ns >= _ns(5.0))
    holed = PowerTrace(full.t_ns[kept], full.power_w[kept], 3000 * SECOND)
    assert holed.stretch(_ns(4.2), _ns(4.8)).covered_s < 0.6


def test_a_meter_that_repeats_one_value_for_seconds_says_nothing_in_that_time() -> None:
    full = trace(lambda t: np.where((t > 3.0) & (t < 3.5 + STUCK_S), 2.0, 1.0 + t), 10.0)
    moving = without_stuck(full)
    assert moving.stretch(_ns(3.2), _ns(5.2)).covered_s == 0.0
    assert moving.stretch(_ns(6.0), _ns(9.0)).covered_s == pytest.approx(3.0)


def test_values_held_for_a_while_are_normal() -> None:
    held = trace(lambda t: np.floor(t / 0.4), 10.0)
    assert without_stuck(held) is held
