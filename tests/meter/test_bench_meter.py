"""What `make bench-meter` measures with: numbered samples, gaps, sample times; in seconds instead of minutes."""

import random
from pathlib import Path

import pytest

from benchmarks.bench_meter_day import Gap, Gaps, run
from benchmarks.bench_meter_numbers import TURN, Tally, numbered, percentile
from benchmarks.bench_meter_replay import exact_of
from benchmarks.bench_meter_timeline import one_run
from meter.readings import Reading

MS = 1_000_000


def currents(*numbers: int) -> list[float]:
    return [number / 100_000 for number in numbers]


def reading(t_ms: int, number: int) -> Reading:
    return Reading(t_ms * MS, 1.0, 5.1, number / 100_000)


def test_numbers_left_out_are_missing_also_where_they_begin_anew() -> None:
    tally = Tally()
    assert tally.add(currents(TURN - 2, TURN - 1, 0, 3)) == 2
    assert (tally.received, tally.missing, tally.wrong) == (4, 2, 0)


def test_samples_that_come_twice_or_too_late_are_wrong() -> None:
    tally = Tally()
    tally.add(currents(5, 5, 4, 5))
    assert (tally.received, tally.missing, tally.wrong) == (4, 0, 2)


def test_the_device_numbers_its_samples_and_says_when_they_were_taken() -> None:
    true_ns: list[int] = []
    power = numbered(true_ns)
    assert [power(t_ns).current_steps for t_ns in (10, 20, 30)] == [0, 1, 2]
    assert true_ns == [10, 20, 30]


@pytest.mark.parametrize(("share", "value"), [(0.5, 2.0), (0.99, 4.0), (0.25, 1.0)])
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == value


def test_a_gap_is_held_against_the_samples_that_would_fit_in() -> None:
    gap = Gap(0, 1_000 * MS, counted=98)
    assert gap.off == pytest.approx(-1)
    assert gap.longer_s(0.75) == pytest.approx(0.25)


def test_what_is_missing_without_a_gap_in_time_is_not_accounted_for() -> None:
    gaps = Gaps()
    gaps.look([reading(10, 0), reading(20, 3), reading(520, 50)], counted=47)
    assert [gap.counted for gap in gaps.found] == [47]
    assert (gaps.missing_elsewhere, gaps.counted_elsewhere) == (2, 0)


def test_every_unplug_is_one_gap_as_long_as_the_meter_was_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.bench_meter_day.HOUR_S", 200.0)
    monkeypatch.setattr("benchmarks.bench_meter_day.AWAY_S", (2.0, 20.0))
    day = run(tmp_path, 2, random.Random(4))
    assert len(day.gaps.found) == 2
    assert day.is_accounted_for
    day.aways_s[0] += 10.0
    assert not day.is_accounted_for


def test_a_short_run_of_the_timeline_is_exact_in_its_losses() -> None:
    result = one_run(7, 30.0, 200.0)
    assert result.counted == result.missing > 0
    assert max(result.errors_ms) < 10.0


def test_a_value_that_does_not_come_back_is_not_counted_as_exact() -> None:
    assert exact_of([2.5, 1.25, 3.0], 100.0) == 3
    assert exact_of([2.5, 1e3, 3.0], 100.0) == 2
