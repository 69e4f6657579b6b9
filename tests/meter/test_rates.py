"""Rates: what is only held is no measurement."""

import pytest

from meter.rates import Rates

REPORT_NS = 40_000_000


def rates_of(values: list[int], reports_kept: int | None = None) -> Rates:
    rates = Rates()
    for report in range(len(values) // 4):
        if reports_kept is None or report < reports_kept:
            rates.add(report * REPORT_NS, values[4 * report : 4 * report + 4])
    return rates


def test_values_that_all_differ_are_as_many_as_the_samples() -> None:
    rates = rates_of(list(range(2000)))
    assert rates.samples_hz == pytest.approx(100)
    assert rates.new_values_hz == pytest.approx(100)


def test_values_held_on_a_grid_of_100_ms_are_ten_new_ones_a_second() -> None:
    rates = rates_of([sample // 10 for sample in range(4000)])
    assert rates.samples_hz == pytest.approx(100)
    assert rates.new_values_hz == pytest.approx(10, rel=0.02)


def test_a_single_value_that_leaves_the_grid_and_returns_counts_twice() -> None:
    held = [0] * 2000
    held[::100] = [1] * 20  # once a second
    assert rates_of(held).new_values_hz == pytest.approx(2, rel=0.1)


def test_a_meter_that_always_says_the_same_has_no_new_values() -> None:
    assert rates_of([7] * 2000).new_values_hz == 0


def test_a_rate_is_unknown_before_a_second_has_passed() -> None:
    assert Rates().samples_hz is None
    assert Rates().new_values_hz is None
    assert rates_of(list(range(96))).samples_hz is None
    assert rates_of(list(range(104))).samples_hz == pytest.approx(100)


def test_the_rate_is_of_the_last_ten_seconds_only() -> None:
    rates = rates_of(list(range(4000)))
    for report in range(1000, 1250):
        rates.add(report * REPORT_NS, [5] * 4)
    assert rates.new_values_hz == pytest.approx(0, abs=0.5)


def test_lost_reports_lower_the_rate_of_samples() -> None:
    rates = Rates()
    for report in range(0, 500, 2):
        rates.add(report * REPORT_NS, [report] * 4)
    assert rates.samples_hz == pytest.approx(50)
