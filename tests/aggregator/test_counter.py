"""A meter's own energy counter beside the integral of its samples."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aggregator.clocks import Timeline
from aggregator.counter import CounterReading, compare, disagrees
from aggregator.result import MeterView, of_train
from aggregator.trace import PowerTrace
from aggregator.uncertainty import Standard, quantity
from schemas import CounterCheck, EnergyResult, Segment
from tests.aggregator.trains import SECOND, T0, event, segments, steps

STEP_J = 3.6
POLL_NS = SECOND // 10
FINE_NS = SECOND // 1000
PARTS = segments(20, load_s=1.5, idle_s=1.5)
END_NS = PARTS[-1].end_ns
Floats = NDArray[np.float64]


def _fine_power(seed: int, parts: Sequence[Segment] = PARTS, noise_w: float = 0.2) -> Floats:
    """The true power, one value per ms: load and idle in turn, with noise that stays for 5 ms."""
    rng = np.random.default_rng(seed)
    count = (parts[-1].end_ns - T0) // FINE_NS + 1
    square = steps(parts, 2.3, 3.7)(np.arange(count) / 1e3)
    return square + np.repeat(rng.normal(0, noise_w, count // 5 + 1), 5)[:count]


def _tc66c(power_w: Floats, counted: float = 1.0, start_j: float = 3600.0) -> tuple[PowerTrace, list[CounterReading]]:
    """What a TC66C says of it: ten samples a second, and a counter in whole mWh that counts `counted` of the energy."""
    every = POLL_NS // FINE_NS
    t_ns = T0 + np.arange(0, len(power_w), every, dtype=np.int64) * FINE_NS
    energy_j = start_j + counted * np.concatenate(([0.0], np.cumsum((power_w[1:] + power_w[:-1]) / 2 * FINE_NS / 1e9)))
    readings = [
        CounterReading(int(t), STEP_J * math.floor(j / STEP_J), STEP_J)
        for t, j in zip(t_ns[::10], energy_j[::every][::10], strict=True)
    ]
    return PowerTrace(t_ns, power_w[::every], POLL_NS), readings


def _compare(trace: PowerTrace, readings: Sequence[CounterReading], **changes: Any) -> CounterCheck | None:
    return compare(trace, readings, **({"start_ns": T0, "end_ns": END_NS, "counter_u": 0.0} | changes))


def test_counter_and_integral_of_one_meter_agree_but_for_chance() -> None:
    checks = [_compare(*_tc66c(_fine_power(seed), start_j=3600 + 0.77 * seed)) for seed in range(100)]
    differences = [
        (check.counter_j.value - check.integral_j.value) / math.hypot(check.counter_j.u, check.integral_j.u)
        for check in checks
        if check is not None and check.integral_j is not None
    ]
    assert len(differences) == 100
    assert sum(map(disagrees, checks)) <= 1
    assert abs(float(np.mean(differences))) < 0.3
    assert 0.3 < float(np.std(differences)) < 1.1, "the uncertainty is neither too small nor a blank cheque"


def test_a_counter_that_misses_a_tenth_of_the_energy_disagrees() -> None:
    checks = [_compare(*_tc66c(_fine_power(seed), counted=0.9)) for seed in range(20)]
    assert all(map(disagrees, checks))


@pytest.mark.parametrize(("off_by_u", "disagree"), [(2.5, False), (-2.5, False), (4.0, True), (-4.0, True)])
def test_counter_and_integral_disagree_beyond_three_standard_uncertainties(off_by_u: float, disagree: bool) -> None:
    check = CounterCheck(
        span_s=30.0,
        counter_j=quantity(100.0 + off_by_u * 0.5, Standard(0.3)),
        integral_j=quantity(100.0, Standard(0.4)),
    )
    assert disagrees(check) is disagree


def test_values_that_the_meter_holds_make_the_integral_less_certain() -> None:
    power_w = _fine_power(1)[::10]
    t_ns = T0 + np.arange(len(power_w), dtype=np.int64) * SECOND // 100
    held_w = np.repeat(power_w[::10], 10)[: len(power_w)]
    readings = [CounterReading(T0, 0.0, 0.01), CounterReading(END_NS - SECOND, 180.0, 0.01)]
    fresh, held = (_compare(PowerTrace(t_ns, each, SECOND // 100), readings) for each in (power_w, held_w))
    assert fresh is not None and fresh.integral_j is not None and held is not None and held.integral_j is not None
    assert held.integral_j.u > 2 * fresh.integral_j.u


def test_a_counter_that_was_cleared_in_the_train_is_not_compared() -> None:
    trace, readings = _tc66c(_fine_power(1))
    cleared = [*readings[:9], *(CounterReading(r.t_ns, r.energy_j - 3600, STEP_J) for r in readings[9:])]
    assert _compare(trace, readings) is not None
    assert _compare(trace, cleared) is None
    assert not disagrees(None)


def test_only_readings_inside_the_train_count() -> None:
    trace, readings = _tc66c(_fine_power(1))
    inner = _compare(trace, readings, start_ns=T0 + 5 * SECOND + 1, end_ns=T0 + 20 * SECOND)
    assert inner is not None
    assert inner.span_s == pytest.approx(14.0)
    assert inner.counter_j.value == pytest.approx(readings[20].energy_j - readings[6].energy_j)
    assert _compare(trace, readings, start_ns=T0, end_ns=T0 + SECOND // 2) is None


def test_where_samples_are_missing_the_counter_stands_alone() -> None:
    trace, readings = _tc66c(_fine_power(1))
    kept = np.ones(len(trace.t_ns), dtype=bool)
    kept[100:110] = False
    check = _compare(PowerTrace(trace.t_ns[kept], trace.power_w[kept], POLL_NS), readings)
    assert check is not None
    assert check.counter_j.value == readings[-1].energy_j - readings[0].energy_j
    assert check.integral_j is None
    assert not disagrees(check)


def test_readings_whose_samples_were_left_out_have_nothing_to_be_compared_with() -> None:
    readings = [CounterReading(T0 + second * SECOND, 3.6 * second, STEP_J) for second in range(5)]
    for t_ns in ([], [T0 + SECOND]):
        trace = PowerTrace(np.array(t_ns, dtype=np.int64), np.full(len(t_ns), 2.0), 3000 * SECOND)
        check = _compare(trace, readings)
        assert check is not None and check.integral_j is None


def test_the_uncertainty_of_the_counter_is_that_of_two_cut_readings_and_of_its_own_power() -> None:
    trace, readings = _tc66c(_fine_power(1))
    plain, doubtful = _compare(trace, readings), _compare(trace, readings, counter_u=0.01)
    assert plain is not None and doubtful is not None
    assert plain.counter_j.u == pytest.approx(STEP_J / math.sqrt(6))
    assert doubtful.counter_j.u == pytest.approx(math.hypot(plain.counter_j.u, 0.01 * plain.counter_j.value))


def test_the_difference_of_two_cut_readings_scatters_as_stated() -> None:
    rng = np.random.default_rng(3)
    start_j, used_j = rng.uniform(0, 1000, 20_000), rng.uniform(10, 30, 20_000)
    counted_j = STEP_J * (np.floor((start_j + used_j) / STEP_J) - np.floor(start_j / STEP_J))
    assert float((counted_j - used_j).mean()) == pytest.approx(0.0, abs=0.05)
    assert float((counted_j - used_j).std()) == pytest.approx(STEP_J / math.sqrt(6), rel=0.02)


def _result(counted: float, **changes: Any) -> EnergyResult:
    trace, readings = _tc66c(_fine_power(1), counted)
    view = MeterView("m1", "TC66C", "measured", Timeline("shared", None), trace, tuple(readings), gain_u=0.001)
    return of_train(event(PARTS, **changes), view, 1, "test")


def test_a_result_carries_the_counter_beside_its_gross_energy() -> None:
    result = _result(1.0)
    assert (result.quality, result.flags) == ("good", ())
    assert result.counter is not None and result.counter.integral_j is not None
    assert abs(result.counter.counter_j.value - result.counter.integral_j.value) < 3 * 3.6
    assert result.counter.span_s == pytest.approx(61.0)


def test_a_counter_that_disagrees_degrades_the_result_and_says_so() -> None:
    result = _result(0.8)
    assert (result.quality, result.flags) == ("degraded", ("counter_disagrees",))
    assert "energy counter" in result.reason
    assert result.counter is not None and result.net_j is not None


def test_an_invalid_result_carries_no_counter_either() -> None:
    result = _result(1.0, repetitions_failed=1000)
    assert result.quality == "invalid" and result.counter is None


def test_recordings_of_two_moments_have_no_common_counter() -> None:
    assert _result(0.8, separate_timing_s=0.01).counter is None


def test_the_truth_of_these_tests_has_the_energy_that_it_claims() -> None:
    power_w = _fine_power(1, noise_w=0.0)
    loads = sum(part.duration_s for part in PARTS if part.kind == "load")
    total_s = (END_NS - T0) / 1e9
    assert float(power_w.mean()) * total_s == pytest.approx(2.3 * total_s + 1.4 * loads, rel=1e-3)
    assert all(after.start_ns == before.end_ns for before, after in pairwise(PARTS))
