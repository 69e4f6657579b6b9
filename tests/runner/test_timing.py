"""Time statistics, by hand."""

import pytest

from runner.timing import Times, time_statistics, times_of


def test_twenty_times_by_hand() -> None:
    durations_ns = [each * 1_000_000_000 for each in (*range(1, 20), 100)]
    statistics = time_statistics(times_of(durations_ns))
    assert statistics is not None
    assert statistics.count == 20
    assert statistics.mean_s == pytest.approx(14.5)
    assert statistics.median_s == pytest.approx(10.5)
    assert (statistics.min_s, statistics.p95_s, statistics.max_s) == (1.0, 19.0, 100.0)
    assert statistics.trimmed_mean_s == pytest.approx(sum(range(3, 19)) / 16)
    assert statistics.sd_s == pytest.approx(((sum(i**2 for i in range(1, 20)) + 100**2 - 20 * 14.5**2) / 19) ** 0.5)


def test_the_95th_percentile_is_the_first_time_that_so_many_do_not_exceed() -> None:
    statistics = time_statistics(times_of([each * 1_000_000_000 for each in range(1, 22)]))
    assert statistics is not None
    assert statistics.p95_s == 20.0


def test_one_time_has_no_standard_deviation() -> None:
    statistics = time_statistics(times_of([2_000_000_000]))
    assert statistics is not None
    assert (statistics.count, statistics.mean_s, statistics.sd_s, statistics.trimmed_mean_s) == (1, 2.0, None, 2.0)


def test_no_repetitions_have_no_statistics() -> None:
    assert time_statistics(times_of([])) is None


def test_count_mean_deviation_and_extremes_are_of_all_and_the_rest_is_of_those_drawn() -> None:
    durations_ns = [20_000 + each % 7 for each in range(1_500_000)]
    whole = times_of(durations_ns)
    statistics = time_statistics(Times(whole.count, whole.sum_ns, whole.squares_ns2, 20_000, 20_006, (20_001, 20_003)))
    assert statistics is not None
    assert (statistics.count, statistics.min_s, statistics.max_s) == (1_500_000, 2e-5, 2.0006e-5)
    assert statistics.mean_s == pytest.approx(2.0003e-5, rel=1e-9)
    assert statistics.sd_s == pytest.approx(2e-9, rel=1e-5)
    assert statistics.median_s == pytest.approx(2.0002e-5)
