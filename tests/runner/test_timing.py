"""Time statistics, by hand."""

import pytest

from runner.timing import time_statistics


def test_twenty_times_by_hand() -> None:
    durations_ns = [each * 1_000_000_000 for each in (*range(1, 20), 100)]
    statistics = time_statistics(durations_ns)
    assert statistics is not None
    assert statistics.count == 20
    assert statistics.mean_s == pytest.approx(14.5)
    assert statistics.median_s == pytest.approx(10.5)
    assert (statistics.min_s, statistics.p95_s, statistics.max_s) == (1.0, 19.0, 100.0)
    assert statistics.trimmed_mean_s == pytest.approx(sum(range(3, 19)) / 16)
    assert statistics.sd_s == pytest.approx(((sum(i**2 for i in range(1, 20)) + 100**2 - 20 * 14.5**2) / 19) ** 0.5)


def test_one_time_has_no_standard_deviation() -> None:
    statistics = time_statistics([2_000_000_000])
    assert statistics is not None
    assert (statistics.count, statistics.mean_s, statistics.sd_s, statistics.trimmed_mean_s) == (1, 2.0, None, 2.0)


def test_no_repetitions_have_no_statistics() -> None:
    assert time_statistics([]) is None
