"""Pooled means: random effects, and an interval that covers what it says."""

from collections.abc import Sequence

import numpy as np
import pytest

from aggregator.pooling import (
    MOST_TRAINS,
    PooledTrain,
    pool_key,
    pooled_energy,
    pooled_results,
    pooled_train,
    random_effects,
)
from aggregator.uncertainty import Standard, quantity
from schemas import EnergyResult
from tests.aggregator.pools import key, result, trains

SIMULATIONS = 4000
"""A covered fraction of 0.95 has a standard deviation of 0.0034 then."""


def _exactly(u: Sequence[float]) -> list[Standard]:
    return [Standard(each) for each in u]


def _covered(count: int, between: float, dof: int | None = None, spread: float = 4.0) -> float:
    """How often the interval of `count` trains of different u holds the true mean; u estimated where it has dof."""
    rng = np.random.default_rng(count)
    covered = 0
    for _ in range(SIMULATIONS):
        true_u = np.exp(rng.uniform(0.0, np.log(spread), count))
        values = 10.0 + rng.normal(0, between, count) + rng.normal(0, true_u)
        seen_u = true_u if dof is None else true_u * np.sqrt(rng.chisquare(dof, count) / dof)
        found = random_effects(values.tolist(), [Standard(float(each), dof) for each in seen_u])
        covered += abs(found.mean - 10.0) <= quantity(found.mean, found.standard).u95
    return covered / SIMULATIONS


@pytest.mark.parametrize("dof", [4, 9, 40, None])
@pytest.mark.parametrize("between", [0.0, 1.0, 6.0])
def test_the_interval_of_ten_trains_covers_95_percent_however_much_they_differ(between: float, dof: int | None) -> None:
    assert 0.93 <= _covered(10, between, dof) <= 0.97


@pytest.mark.parametrize("count", [2, 3, 5, 30])
def test_the_interval_of_fewer_and_of_more_trains_covers_as_much(count: int) -> None:
    assert 0.93 <= _covered(count, 1.0, 20) <= 0.97


def test_the_interval_of_trains_that_are_all_alike_covers_as_much() -> None:
    assert 0.93 <= _covered(10, 0.0, 4, spread=1.0) <= 0.97


def test_trains_that_agree_have_no_variance_between_them_and_weigh_by_their_u() -> None:
    found = random_effects([10.0, 10.1], _exactly([0.1, 0.3]))
    assert found.between == 0.0
    assert found.mean == pytest.approx((10.0 * 9 + 10.1) / 10)
    assert found.standard.dof == 1


def test_trains_that_differ_far_beyond_their_u_weigh_nearly_the_same() -> None:
    values = [9.0, 10.0, 12.0]
    found = random_effects(values, _exactly([0.01, 0.011, 0.01]))
    assert found.mean == pytest.approx(np.mean(values), rel=1e-4)
    assert found.between == pytest.approx(np.std(values, ddof=1), rel=0.05)
    assert found.standard.u == pytest.approx(np.std(values, ddof=1) / np.sqrt(3), rel=1e-3)


def test_a_train_that_found_its_u_small_by_chance_does_not_decide_the_mean() -> None:
    values, chance = [10.0, 10.1], [0.001, 0.1]
    assert random_effects(values, _exactly(chance)).mean == pytest.approx(10.0, abs=1e-4)
    drawn = random_effects(values, [Standard(u, 4) for u in chance])  # 0.0025 and 0.0075, half way to their mean
    assert drawn.mean == pytest.approx((10.0 * 3 + 10.1) / 4, abs=1e-4)


@pytest.mark.parametrize("u", [[0.0, 0.0, 0.0], [0.0, 0.1, 0.2]])
def test_a_train_that_says_that_it_knows_its_figure_exactly_outweighs_no_other(u: list[float]) -> None:
    found = random_effects([1.0, 2.0, 3.0], _exactly(u))
    assert found.mean == 2.0
    assert found.standard.u == pytest.approx(1.0 / np.sqrt(3))


@pytest.mark.parametrize("scale", [1e-100, 1e-9, 1e100])
def test_the_mean_does_not_depend_on_the_size_of_the_unit(scale: float) -> None:
    plain = random_effects([1.0, 1.2, 1.5], _exactly([0.1, 0.2, 0.1]))
    scaled = random_effects([scale, 1.2 * scale, 1.5 * scale], _exactly([0.1 * scale, 0.2 * scale, 0.1 * scale]))
    assert scaled.mean / scale == pytest.approx(plain.mean)
    assert scaled.standard.u / scale == pytest.approx(plain.standard.u)
    assert scaled.between / scale == pytest.approx(plain.between)


def test_more_trains_do_not_average_the_gain_error_of_the_meter_away() -> None:
    many = pooled_energy(key(), trains([1.0] * 400, gain_u=0.01))
    assert many is not None
    assert many.net_j_per_op.value == 1.0
    assert many.net_j_per_op.u == pytest.approx(0.01)
    scattered = pooled_energy(key(), trains([0.9, 1.1, 1.0], gain_u=0.1))
    assert scattered is not None
    assert scattered.net_j_per_op.u == pytest.approx(np.hypot(0.1 / np.sqrt(3), 0.1), rel=1e-3)


def test_one_train_is_no_mean() -> None:
    assert pooled_energy(key(), trains([1.0])) is None
    assert pooled_energy(key(), []) is None


def test_the_message_is_the_same_in_whatever_order_trains_come() -> None:
    given = trains([1.0, 1.3, 0.8, 1.1])
    whole = pooled_energy(key(), given)
    assert whole is not None
    assert pooled_energy(key(), given[::-1]) == whole
    assert (whole.trains, whole.last_ns) == (4, given[-1].start_ns)
    assert whole.last_time.startswith("20")


def test_only_the_last_thousand_trains_count() -> None:
    old, new = trains([5.0] * 200), trains([1.0] * MOST_TRAINS, first=200)
    pooled = pooled_energy(key(), [*new, *old])
    assert pooled is not None
    assert (pooled.trains, pooled.net_j_per_op.value) == (MOST_TRAINS, 1.0)


@pytest.mark.parametrize(
    ("changes", "pooled"),
    [
        ({}, True),
        ({"flags": ("simulated",), "simulated": True}, True),
        ({"flags": ("size_unknown",)}, True),
        ({"flags": ("few_segments", "gain_unknown"), "quality": "degraded"}, True),
        ({"flags": ("failed_repetitions",), "quality": "degraded"}, False),
        ({"flags": ("busy",), "quality": "degraded"}, False),
        ({"flags": ("throttled", "few_segments"), "quality": "degraded"}, False),
        ({"flags": ("as_published",), "quality": "degraded", "procedure": "as_published"}, False),
        ({"flags": ("gap",), "quality": "invalid", "net_j_per_op": None, "budget": ()}, False),
        ({"meter": None}, False),
    ],
)
def test_trains_that_are_good_and_those_that_only_their_own_scatter_makes_doubtful_are_pooled(
    changes: dict[str, object], pooled: bool
) -> None:
    assert (pool_key(result(1).model_copy(update=changes)) is not None) is pooled


@pytest.mark.parametrize(
    "changes",
    [
        {"site": "barn"},
        {"dut": "pi5"},
        {"backend": "lib"},
        {"operation": "verify"},
        {"parameter_set": "ML-DSA-87"},
        {"variant": "message_bytes=32"},
        {"board": result(1).board.model_copy(update={"openssl": "3.5.9"})},
        {"board": result(1).board.model_copy(update={"bits": 32})},
        {"meter": "m2"},
        {"meter_model": "another"},
        {"simulated": True},
    ],
)
def test_trains_of_another_kind_board_build_or_meter_are_another_pool(changes: dict[str, object]) -> None:
    others = [result(number).model_copy(update=changes) for number in (3, 4)]
    pools = pooled_results([result(1), result(2), *others])
    assert [pooled.trains for pooled in pools] == [2, 2]
    assert len(pooled_results([result(1), others[0]])) == 0


def test_two_meters_that_saw_one_train_are_not_two_trains() -> None:
    both = [result(number).model_copy(update={"meter": meter}) for number in (1, 2) for meter in ("m1", "m2")]
    assert [(pooled.meter, pooled.trains) for pooled in pooled_results(both)] == [("m1", 2), ("m2", 2)]


def test_a_pooled_train_keeps_scatter_and_clock_apart_from_gain() -> None:
    single: EnergyResult = result(1, net_j=0.5, u_j=0.03, clock_u_j=0.04, gain_u=0.01)
    kept: PooledTrain = pooled_train(single)
    assert [kept.net_j, kept.own_j.u, kept.gain_u] == pytest.approx([0.5, 0.05, 0.01])
    assert kept.own_j.dof == pytest.approx(0.05**4 / (0.03**4 / 9))


def test_a_mean_repeats_the_flags_of_its_trains() -> None:
    marked = result(2).model_copy(update={"flags": ("few_segments",), "quality": "degraded"})
    (pooled,) = pooled_results([result(1), marked])
    assert pooled.flags == ("few_segments",)
