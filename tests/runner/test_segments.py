"""Plans of trains."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import SettingsError
from runner.segments import PRESETS, PresetName, plan_train

seeds = st.integers(min_value=0, max_value=2**48)
presets = st.sampled_from(sorted(PRESETS))
repetitions_s = st.one_of(st.just(0.0), st.floats(min_value=1e-6, max_value=100.0))
short_repetitions_s = st.one_of(st.just(0.0), st.floats(min_value=1e-6, max_value=0.05))


@given(seed=seeds, total_s=st.floats(min_value=1, max_value=120), repetition_s=repetitions_s, name=presets)
def test_every_train_alternates_begins_and_ends_with_idle_and_leaves_room_for_guards(
    seed: int, total_s: float, repetition_s: float, name: PresetName
) -> None:
    plan = plan_train(seed, total_s, repetition_s, PRESETS[name])
    kinds = [segment.kind for segment in plan.segments]
    assert kinds == ["idle", "load"] * (len(kinds) // 2) + ["idle"]
    assert kinds.count("load") >= (3 if repetition_s > 2 else 5)
    assert all(segment.duration_ns > 2e9 * plan.guard_s for segment in plan.segments if segment.kind == "idle")
    assert plan_train(seed, total_s, repetition_s, PRESETS[name]) == plan


@given(seed=seeds, total_s=st.floats(min_value=10, max_value=600), repetition_s=short_repetitions_s)
def test_a_train_of_short_repetitions_is_as_long_as_asked_to_one_pair_of_segments(
    seed: int, total_s: float, repetition_s: float
) -> None:
    plan = plan_train(seed, total_s, repetition_s, PRESETS["short"])
    planned_s = sum(segment.duration_ns for segment in plan.segments) / 1e9
    assert planned_s == pytest.approx(plan.expected_s, abs=0.05 * len(plan.segments))
    assert abs(plan.expected_s - total_s) <= 2.1
    assert all(0.4e9 <= segment.duration_ns <= 1e9 for segment in plan.segments)


def test_a_repetition_of_95_s_gets_three_load_segments_and_idle_of_15_to_45_s() -> None:
    plan = plan_train(1, 60.0, 95.0, PRESETS["short"])
    idle_s = [segment.duration_ns / 1e9 for segment in plan.segments if segment.kind == "idle"]
    assert len(idle_s) == 4
    assert all(15 <= each <= 45 for each in idle_s)
    assert len(set(idle_s)) == 4
    assert plan.expected_s == pytest.approx(3 * 95 + sum(idle_s))


def test_a_repetition_longer_than_a_segment_is_counted_whole() -> None:
    plan = plan_train(1, 5.0, 1.5, PRESETS["short"])
    idle_s = sum(segment.duration_ns for segment in plan.segments if segment.kind == "idle") / 1e9
    assert plan.expected_s == pytest.approx(5 * 1.5 + idle_s)


def test_planning_leaves_the_global_random_numbers_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    plan_train(9, 10.0, 0.01, PRESETS["short"])
    assert random.random() == expected


@given(seed=seeds, repetition_s=st.floats(min_value=0, max_value=0.05), name=presets)
def test_the_time_of_short_repetitions_does_not_change_the_plan(
    seed: int, repetition_s: float, name: PresetName
) -> None:
    assert plan_train(seed, 30.0, repetition_s, PRESETS[name]) == plan_train(seed, 30.0, 0.0, PRESETS[name])


@pytest.mark.parametrize("repetition_s", [0.0, 0.01, 1.0, 95.0, 5000.0, 25_000.0])
def test_a_train_fits_the_day_and_the_segments_of_the_contract(repetition_s: float) -> None:
    plan = plan_train(3, 86_400.0, repetition_s, PRESETS["short"])
    assert plan.expected_s <= 86_000
    assert len(plan.segments) <= 100_000


def test_repetitions_of_which_three_do_not_fit_a_day_are_refused() -> None:
    with pytest.raises(SettingsError, match="one repetition takes 30000 s: 3 of them fit no train of a day"):
        plan_train(3, 60.0, 30_000.0, PRESETS["short"])


@pytest.mark.parametrize("name", sorted(PRESETS))
@given(seed=seeds, repetition_s=st.floats(min_value=2.01, max_value=200.0))
def test_long_repetitions_get_idle_segments_of_half_to_one_and_a_half_times_the_load_up_to_30_s(
    name: PresetName, seed: int, repetition_s: float
) -> None:
    plan = plan_train(seed, 60.0, repetition_s, PRESETS[name])
    low_s = PRESETS[name].low_s
    reference_s = min(max(repetition_s, low_s), 30.0)
    idle_s = [segment.duration_ns / 1e9 for segment in plan.segments if segment.kind == "idle"]
    assert all(max(0.5 * reference_s, low_s) - 1e-6 <= each for each in idle_s)
    assert all(each <= 1.5 * min(reference_s + repetition_s, 30.0) + 1e-6 for each in idle_s)
