"""Energy of trains whose joules are known beforehand, and what is left out when samples are missing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aggregator.energy import measure, scatter, transient, unsettled
from aggregator.trace import PowerTrace
from tests.aggregator.trains import PERIOD_NS, SECOND, T0, segments, steps, trace

GUARD_NS = 120_000_000
IDLE_W, LOAD_W = 2.0, 5.0


@given(
    loads=st.integers(1, 12),
    idle_w=st.floats(0.1, 10.0),
    step_w=st.floats(0.0, 10.0),
    load_s=st.floats(0.4, 1.0),
)
def test_constant_idle_and_load_power_give_step_times_load_time(
    loads: int, idle_w: float, step_w: float, load_s: float
) -> None:
    parts = segments(loads, load_s=round(load_s, 2))
    data = trace(steps(parts, idle_w, idle_w + step_w), (parts[-1].end_ns - T0) / 1e9)
    energy = measure(data, parts, GUARD_NS)
    assert energy.net_j == pytest.approx(step_w * energy.load_s, abs=1e-6)
    assert energy.baseline_w == pytest.approx(idle_w)
    assert (len(energy.loads), energy.dropped) == (loads, 0)


@given(slope_w=st.floats(-0.5, 0.5))
def test_a_baseline_that_drifts_linearly_cancels(slope_w: float) -> None:
    parts = segments(6)
    square = steps(parts, IDLE_W, LOAD_W)
    data = trace(lambda t: square(t) + slope_w * t, (parts[-1].end_ns - T0) / 1e9)
    assert measure(data, parts, GUARD_NS).net_j == pytest.approx((LOAD_W - IDLE_W) * 6 * 0.7, abs=1e-6)


@given(delay_s=st.floats(0.0, 0.1))
def test_a_delay_within_the_guard_loses_no_energy(delay_s: float) -> None:
    parts = segments(5)
    square = steps(parts, IDLE_W, LOAD_W)
    data = trace(lambda t: square(t - round(delay_s, 2)), (parts[-1].end_ns - T0) / 1e9)
    assert measure(data, parts, GUARD_NS).net_j == pytest.approx((LOAD_W - IDLE_W) * 5 * 0.7, abs=1e-6)


def test_energy_of_starting_and_stopping_counts_and_is_told_apart_from_the_plateau() -> None:
    parts = segments(6)
    square = steps(parts, IDLE_W, LOAD_W)
    extra_j = 0.05

    def power_w(t_s: NDArray[np.float64]) -> NDArray[np.float64]:
        power = square(t_s)
        for part in parts:
            if part.kind == "load":
                start = np.searchsorted(t_s, (part.start_ns - T0) / 1e9 - 1e-9)
                power[start : start + 5] += extra_j / (5 * PERIOD_NS / 1e9)
        return power

    energy = measure(trace(power_w, (parts[-1].end_ns - T0) / 1e9), parts, GUARD_NS)
    check = transient(energy)
    assert check is not None
    assert energy.net_j == pytest.approx(6 * (3.0 * 0.7 + extra_j))
    assert check[0] == pytest.approx(6 * 3.0 * 0.7)
    assert check[1] == pytest.approx(6 * extra_j)
    assert check[2].u == pytest.approx(0.0, abs=1e-9)


def test_with_no_guard_and_one_segment_it_is_equation_1_of_the_study() -> None:
    parts = segments(1, load_s=30.0, idle_s=300.0)[:2]
    rng = np.random.default_rng(1)
    data = trace(lambda t: steps(parts, IDLE_W, LOAD_W)(t) + rng.normal(0, 0.1, len(t)), 329.99)
    first, last = T0 - PERIOD_NS // 2, T0 + 330 * SECOND - PERIOD_NS // 2
    idle = parts[0].model_copy(update={"start_ns": first, "end_ns": T0 + 300 * SECOND - PERIOD_NS // 2})
    load = parts[1].model_copy(update={"start_ns": T0 + 300 * SECOND - PERIOD_NS // 2, "end_ns": last})
    energy = measure(data, (idle, load), 0)
    p_idle, p_load = data.power_w[:30_000].mean(), data.power_w[30_000:].mean()
    assert energy.single_baseline
    assert energy.net_j == pytest.approx((p_load - p_idle) * 30.0, rel=1e-4)


@pytest.mark.parametrize(("hole_start_s", "hole_s", "left"), [(0.9, 0.2, 3), (1.5, 0.55, 2), (1.7, 0.04, 4)])
def test_load_segments_that_touch_a_gap_are_left_out_with_their_repetitions(
    hole_start_s: float, hole_s: float, left: int
) -> None:
    parts = segments(4)
    full = trace(steps(parts, IDLE_W, LOAD_W), (parts[-1].end_ns - T0) / 1e9)
    t_s = (full.t_ns - T0) / 1e9
    kept = (t_s < hole_start_s) | (t_s >= hole_start_s + hole_s)
    energy = measure(PowerTrace(full.t_ns[kept], full.power_w[kept], PERIOD_NS), parts, GUARD_NS)
    assert (len(energy.loads), energy.dropped, energy.repetitions) == (left, 4 - left, 100 * left)
    assert energy.net_j == pytest.approx(3.0 * 0.7 * left, abs=1e-6)


def test_a_train_longer_than_the_data_keeps_only_what_was_measured() -> None:
    parts = segments(5)
    data = trace(steps(parts, IDLE_W, LOAD_W), 4.0)
    energy = measure(data, parts, GUARD_NS)
    assert (len(energy.loads), energy.dropped) == (2, 3)
    assert energy.net_j == pytest.approx(2 * 3.0 * 0.7)


def test_a_load_segment_without_any_idle_segment_has_no_baseline() -> None:
    parts = segments(1)[1:2]
    energy = measure(trace(lambda t: np.full(len(t), 5.0), 3.0), parts, 0)
    assert energy.no_baseline
    assert not energy.loads


def test_energy_below_idle_is_not_clipped() -> None:
    parts = segments(6)
    data = trace(steps(parts, 3.0, 2.9), (parts[-1].end_ns - T0) / 1e9)
    assert measure(data, parts, GUARD_NS).net_j == pytest.approx(-0.1 * 6 * 0.7)


@pytest.mark.parametrize("settling_s", [0.06, 0.1, 0.3])
def test_power_that_settles_slower_than_the_guard_is_noticed(settling_s: float) -> None:
    parts = segments(8, idle_s=0.9)
    rng = np.random.default_rng(2)
    slow = trace(lambda t: _settling(parts, t, settling_s) + rng.normal(0, 0.01, len(t)), (parts[-1].end_ns - T0) / 1e9)
    quick = trace(lambda t: _settling(parts, t, 0.005) + rng.normal(0, 0.01, len(t)), (parts[-1].end_ns - T0) / 1e9)
    assert unsettled(slow, parts, GUARD_NS)
    assert not unsettled(quick, parts, GUARD_NS)


def _settling(parts: object, t_s: NDArray[np.float64], tau_s: float) -> NDArray[np.float64]:
    """A first-order lag behind the steps."""
    square = steps(parts, IDLE_W, LOAD_W)(t_s)  # type: ignore[arg-type]
    out = np.empty(len(square))
    level, keep = IDLE_W, np.exp(-PERIOD_NS / 1e9 / tau_s)
    for i, target in enumerate(square):
        level = target + (level - target) * keep
        out[i] = level
    return out


def test_the_interval_covers_the_truth_about_95_times_in_100_in_white_noise() -> None:
    parts = segments(7)
    square, duration_s = steps(parts, IDLE_W, LOAD_W), (parts[-1].end_ns - T0) / 1e9
    rng = np.random.default_rng(3)
    truth_j, covered, trains = 3.0 * 0.7 * 7, 0, 400
    for _ in range(trains):
        data = trace(lambda t: square(t) + rng.normal(0, 0.3, len(t)), duration_s)
        energy = measure(data, parts, GUARD_NS)
        standard = scatter(data, parts, GUARD_NS, energy)
        assert standard is not None
        covered += abs(energy.net_j - truth_j) <= 2.4469 * standard.u
    assert 0.91 <= covered / trains <= 0.99


def test_three_long_segments_are_judged_by_the_samples_inside_them_too() -> None:
    parts = segments(3, load_s=10.0, idle_s=10.0, repetitions=1)
    rng = np.random.default_rng(4)
    data = trace(lambda t: steps(parts, IDLE_W, LOAD_W)(t) + rng.normal(0, 0.3, len(t)), 70.0)
    energy = measure(data, parts, GUARD_NS)
    standard = scatter(data, parts, GUARD_NS, energy)
    assert standard is not None
    white_j = 0.3 * np.sqrt(PERIOD_NS / 1e9) * np.sqrt(3 * 10.0 + 4 * 10.0)
    assert 0.5 * white_j < standard.u < 4 * white_j


@pytest.mark.parametrize(("load_s", "idle_s"), [(0.01, 0.5), (0.5, 0.01), (0.01, 0.01)])
def test_segments_with_fewer_than_two_samples_are_left_out(load_s: float, idle_s: float) -> None:
    parts = segments(3, load_s=load_s, idle_s=idle_s)
    data = trace(steps(parts, IDLE_W, LOAD_W), (parts[-1].end_ns - T0) / 1e9)
    energy = measure(data, parts, 0)
    assert (energy.loads, energy.dropped) == ((), 3)


def test_a_meter_that_says_one_value_a_second_gives_no_energy_of_short_segments() -> None:
    parts = segments(8)
    data = trace(steps(parts, IDLE_W, LOAD_W), (parts[-1].end_ns - T0) / 1e9, period_ns=SECOND)
    assert measure(data, parts, GUARD_NS).loads == ()


def test_too_few_samples_for_batch_means_give_no_uncertainty() -> None:
    parts = segments(1, load_s=0.05, idle_s=0.05)
    data = trace(steps(parts, IDLE_W, LOAD_W), 0.15)
    energy = measure(data, parts, 0)
    assert len(energy.loads) == 1
    assert scatter(data, parts, 0, energy) is None
