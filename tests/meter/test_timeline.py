"""Sample times from arrivals: near the truth, strictly increasing, with every lost report counted."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meter.timeline import FIRST_REPORTS, HIDRAW_QUEUE_REPORTS, Placed, SampleTimeline

MS = 1_000_000
REPORT_NS = 40 * MS
ORIGIN_NS = 7 * 10**18
"""Late enough for float arithmetic on whole times to be 1000 ns coarse."""
Delay = Callable[[random.Random], float]


def uniform(most_ms: float) -> Delay:
    return lambda chance: chance.uniform(0, most_ms * MS)


def bell(chance: random.Random) -> float:
    return min(max(chance.gauss(15 * MS, 5 * MS), 0), 34 * MS)


@dataclass(frozen=True)
class Run:
    """Reports that arrived, and when the newest sample of each was really taken."""

    true_ns: list[int]
    arrivals_ns: list[int]
    lost: int

    def placed(self, timeline: SampleTimeline | None = None) -> list[Placed]:
        timeline = timeline or SampleTimeline(REPORT_NS, 4)
        placed = [each for arrival_ns in self.arrivals_ns for each in timeline.place(arrival_ns)]
        return placed + timeline.restart()

    def errors_ms(self, after_s: float = 0.0) -> list[float]:
        pairs = zip(self.placed(), self.true_ns, strict=True)
        start_ns = self.true_ns[0] + after_s * 1e9
        return [(each.times_ns[-1] - true_ns) / MS for each, true_ns in pairs if true_ns >= start_ns]


def run_of(
    seconds: float, delay: Delay, seed: int = 1, period_ms: float = 40.0, loss: float = 0.0, slow_ppm: float = 0.0
) -> Run:
    chance = random.Random(seed)
    true_ns: list[int] = []
    arrivals_ns: list[int] = []
    reports = round(seconds * 1000 / period_ms)
    for index in range(reports):
        taken_ns = ORIGIN_NS + round(index * period_ms * MS * (1 + slow_ppm / 1e6))
        arrival_ns = max([taken_ns + round(delay(chance)), *arrivals_ns[-1:]])
        if index in (0, reports - 1) or chance.random() >= loss:  # a loss at either end nobody can know
            true_ns.append(taken_ns)
            arrivals_ns.append(arrival_ns)
    return Run(true_ns, arrivals_ns, reports - len(true_ns))


def percentile(values: Sequence[float], percent: float) -> float:
    return sorted(map(abs, values))[round((len(values) - 1) * percent / 100)]


def lost(placed: Sequence[Placed]) -> int:
    return sum(each.lost_reports for each in placed)


def spaced_ms(placed: Sequence[Placed]) -> list[float]:
    times = [t_ns for each in placed for t_ns in each.times_ns]
    return [(later - earlier) / MS for earlier, later in pairwise(times)]


def test_without_jitter_the_newest_sample_has_the_time_of_arrival_and_the_others_lie_before_it() -> None:
    run = run_of(60, uniform(0))
    placed = run.placed()
    for each, arrival_ns in zip(placed, run.arrivals_ns, strict=True):
        assert [(t_ns - arrival_ns) / MS for t_ns in each.times_ns] == pytest.approx([-30, -20, -10, 0], abs=0.01)


@pytest.mark.parametrize("slow_ppm", [-200, 200])
def test_with_jitter_of_30_ms_and_a_clock_200_ppm_off_times_are_true_to_2_ms_after_10_s(slow_ppm: int) -> None:
    errors = [
        error
        for seed in range(20)
        for error in run_of(40, uniform(30), seed, loss=0.01, slow_ppm=slow_ppm).errors_ms(after_s=10)
    ]
    assert percentile(errors, 99) < 2.0


def test_a_block_whose_least_delayed_report_was_late_says_little() -> None:
    errors = [
        error
        for seed in range(40)
        for error in run_of(20, uniform(30), seed, loss=0.01, slow_ppm=200 * (-1) ** seed).errors_ms(after_s=10)
    ]
    assert percentile(errors, 50) < 0.24


@pytest.mark.parametrize("seed", range(20))
def test_one_percent_of_lost_reports_are_counted_exactly(seed: int) -> None:
    run = run_of(120, uniform(30), seed, loss=0.01, slow_ppm=200)
    placed = run.placed()
    assert run.lost > 5
    assert lost(placed) == run.lost
    for each, (earlier_ns, true_ns) in zip(placed[1:], pairwise(run.true_ns), strict=True):
        assert each.lost_reports == round((true_ns - earlier_ns) / REPORT_NS) - 1


def test_after_five_minutes_the_rate_is_known_to_3_ppm_and_times_to_half_a_ms() -> None:
    timeline = SampleTimeline(REPORT_NS, 4)
    run = run_of(330, uniform(30), slow_ppm=-150, loss=0.01)
    placed = [each for arrival_ns in run.arrivals_ns for each in timeline.place(arrival_ns)]
    assert timeline.report_period_ns / REPORT_NS == pytest.approx(1 - 150e-6, abs=3e-6)
    errors = [(each.times_ns[-1] - true_ns) / MS for each, true_ns in zip(placed, run.true_ns, strict=False)]
    assert percentile(errors[-25 * 30 :], 99) < 0.5


def test_bell_shaped_jitter_leaves_a_constant_and_little_wander_after_a_minute() -> None:
    errors = [error for seed in range(8) for error in run_of(180, bell, seed, slow_ppm=200).errors_ms(after_s=60)]
    constant = sum(errors) / len(errors)
    assert 0 < constant < 3
    assert percentile([error - constant for error in errors], 99) < 2.5


def test_reports_are_held_back_for_a_second_until_the_envelope_is_known() -> None:
    timeline = SampleTimeline(REPORT_NS, 4)
    run = run_of(4, uniform(30))
    assert [timeline.place(arrival_ns) for arrival_ns in run.arrivals_ns[: FIRST_REPORTS - 1]] == [[]] * 24
    assert timeline.held == FIRST_REPORTS - 1
    assert len(timeline.place(run.arrivals_ns[FIRST_REPORTS - 1])) == FIRST_REPORTS
    assert len(timeline.place(run.arrivals_ns[FIRST_REPORTS])) == 1


@pytest.mark.parametrize("missing", [[1], [1, 2], [3, 7], [12], [12, 13, 14], [23], [24]])
def test_reports_lost_in_the_first_second_are_counted(missing: list[int]) -> None:
    for seed in range(5):
        run = run_of(20, uniform(10), seed)
        kept = [index for index in range(len(run.true_ns)) if index not in missing]
        cut = Run([run.true_ns[index] for index in kept], [run.arrivals_ns[index] for index in kept], len(missing))
        assert lost(cut.placed()) == len(missing)
        assert percentile(cut.errors_ms(), 100) < 5


def test_a_burst_at_the_very_beginning_lies_before_what_follows_it() -> None:
    run = run_of(10, uniform(1))
    waiting = [run.arrivals_ns[5] + (12 + row) * MS for row in range(6)]
    burst = Run(run.true_ns, waiting + run.arrivals_ns[6:], 0)
    assert lost(burst.placed()) == 0
    assert percentile(burst.errors_ms(), 100) < 1


@pytest.mark.parametrize("stall_ms", [60, 400, 1000, 2400])
def test_a_burst_after_a_host_stall_is_placed_where_its_samples_were_taken(stall_ms: int) -> None:
    run = run_of(40, uniform(5))
    begin_ns = ORIGIN_NS + 20_013 * MS
    end_ns = begin_ns + stall_ms * MS
    woken = [
        max(each, end_ns + number * MS // 5) if begin_ns < each < end_ns + 50 * MS else each
        for number, each in enumerate(run.arrivals_ns, start=-500)
    ]
    burst = Run(run.true_ns, sorted(woken), 0)
    placed = burst.placed()
    assert lost(placed) == 0
    assert percentile(burst.errors_ms(), 100) < 1
    assert max(spaced_ms(placed)) < 11


def test_a_burst_that_crosses_a_slot_in_mid_delivery_loses_nothing() -> None:
    for start_ms in range(40):
        run = run_of(20, uniform(1))
        begin_ns = ORIGIN_NS + (10_000 + start_ms) * MS
        late = [begin_ns + 400 * MS + number * MS for number in range(10)]
        first = next(index for index, each in enumerate(run.arrivals_ns) if each > begin_ns)
        arrivals = [*run.arrivals_ns[:first], *late, *run.arrivals_ns[first + 10 :]]
        burst = Run(run.true_ns, sorted(arrivals), 0)
        assert lost(burst.placed()) == 0
        assert percentile(burst.errors_ms(), 100) < 1


def test_reports_that_the_bus_delivers_together_are_not_taken_for_lost_ones() -> None:
    run = run_of(20, uniform(1))
    arrivals = list(run.arrivals_ns)
    arrivals[300] = arrivals[301] - 500_000  # held up for a whole period by a hub
    bunched = Run(run.true_ns, arrivals, 0)
    assert lost(bunched.placed()) == 0
    assert percentile(bunched.errors_ms(), 100) < 1


def test_a_backlog_that_overflowed_lies_before_its_gap_because_hidraw_drops_the_newest() -> None:
    run = run_of(60, uniform(5))
    begin, end = 500, 750
    keep = begin + HIDRAW_QUEUE_REPORTS
    woken = [run.arrivals_ns[end] - (keep - index) * MS // 20 for index in range(begin, keep)]
    cut = Run(
        run.true_ns[:keep] + run.true_ns[end:],
        [*run.arrivals_ns[:begin], *woken, *run.arrivals_ns[end:]],
        end - keep,
    )
    assert lost(cut.placed()) == pytest.approx(end - keep, abs=1)
    assert percentile(cut.errors_ms()[begin : keep - 1], 100) < 1


@pytest.mark.parametrize("step_ms", [-17, -7, 8, 17])
def test_the_envelope_is_anchored_anew_when_the_meter_shifts_its_phase(step_ms: int) -> None:
    run = run_of(60, uniform(2))
    shifted = [each + (step_ms * MS if index >= 750 else 0) for index, each in enumerate(run.arrivals_ns)]
    true_ns = [each + (step_ms * MS if index >= 750 else 0) for index, each in enumerate(run.true_ns)]
    errors = Run(true_ns, shifted, 0).errors_ms(after_s=36)
    assert percentile(errors, 100) < 1.5


@pytest.mark.parametrize("period_ms", [20, 39, 39.6, 40.4, 42, 50, 80, 100])
def test_a_meter_that_sends_at_another_rate_is_noticed(period_ms: float) -> None:
    run = run_of(60, uniform(2), period_ms=period_ms)
    timeline = SampleTimeline(REPORT_NS, 4)
    placed = run.placed(timeline)
    assert timeline.report_period_ns == pytest.approx(period_ms * MS, rel=1e-4)
    assert lost(placed[round(10_000 / period_ms) :]) == 0
    assert percentile(run.errors_ms(after_s=20), 99) < 1


def test_a_rate_that_changes_while_the_meter_runs_is_known_within_100_reports() -> None:
    before, after = run_of(40, uniform(2)), run_of(60, uniform(2), period_ms=80)
    shift_ns = before.true_ns[-1] + 80 * MS - ORIGIN_NS
    run = Run(
        before.true_ns + [each + shift_ns for each in after.true_ns],
        before.arrivals_ns + [each + shift_ns for each in after.arrivals_ns],
        0,
    )
    placed = run.placed()
    assert lost(placed[:1001]) <= 1
    assert lost(placed[1000:1100]) <= 100
    assert lost(placed[1101:]) == 0
    assert percentile(run.errors_ms(after_s=60), 99) < 1


def test_a_restart_counts_what_an_absence_cost_and_keeps_the_rate() -> None:
    timeline = SampleTimeline(REPORT_NS, 4)
    run = run_of(30, uniform(1), slow_ppm=-200)
    placed = [each for arrival_ns in run.arrivals_ns for each in timeline.place(arrival_ns)] + timeline.restart()
    assert timeline.report_period_ns / REPORT_NS == pytest.approx(1 - 200e-6, abs=2e-5)
    again = [each for arrival_ns in run.arrivals_ns for each in timeline.place(arrival_ns + 130_000 * MS)]
    assert again[0].lost_reports == pytest.approx(100_000 / 40, abs=2)
    assert lost(again[1:]) == 0
    assert min(spaced_ms(placed + again)) > 0


def test_a_restart_gives_back_what_was_held() -> None:
    timeline = SampleTimeline(REPORT_NS, 4)
    for arrival_ns in run_of(0.4, uniform(1)).arrivals_ns:
        assert timeline.place(arrival_ns) == []
    placed = timeline.restart()
    assert len(placed) == 10
    assert spaced_ms(placed) == pytest.approx([10] * 39, abs=0.5)
    assert timeline.restart() == []


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 200 * MS), min_size=1, max_size=400), st.sets(st.integers(0, 400), max_size=4))
def test_whatever_arrives_whenever_times_increase_strictly_and_no_report_is_forgotten(
    steps_ns: list[int], restarts: set[int]
) -> None:
    timeline = SampleTimeline(REPORT_NS, 4)
    placed: list[Placed] = []
    arrival_ns = ORIGIN_NS
    for number, step_ns in enumerate(steps_ns):
        arrival_ns += step_ns
        placed += timeline.place(arrival_ns)
        if number in restarts:
            placed += timeline.restart()
    placed += timeline.restart()
    assert len(placed) == len(steps_ns)
    assert all(each.lost_reports >= 0 and len(each.times_ns) == 4 for each in placed)
    assert min(spaced_ms(placed)) > 0.1  # a tenth of the sample period, at the highest rate that is believed


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 0.03), st.floats(0, 20), st.floats(-200, 200))
def test_losses_of_up_to_3_percent_are_counted_exactly(seed: int, loss: float, jitter_ms: float, ppm: float) -> None:
    run = run_of(30, uniform(jitter_ms), seed, loss=loss, slow_ppm=ppm)
    assert lost(run.placed()) == run.lost
