"""The clock exchange: the true offset lies inside the bound, whatever the network does."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.clocks import by_exchange, shifted
from aggregator.exchange import CRYSTALS, Exchange, fit
from schemas import Segment
from tests.aggregator.exchanges import Pair, burst
from tests.aggregator.trains import SECOND, T0

HOUR_S = 3600
delays_ms = st.floats(0.05, 80.0)
drifts_ppm = st.floats(-100.0, 100.0)
aheads_s = st.floats(-5 * HOUR_S, 5 * HOUR_S)


def _error_s(pair: Pair, exchanges: list[Exchange], asker_s: float) -> tuple[float, float]:
    """How far the offset is off at a time of the asker's, and the bound."""
    t_ns = pair.publisher_ns(round(asker_s * SECOND))
    found = fit(exchanges).offset_at(t_ns)
    assert found is not None
    return abs(found[0] - pair.offset_ns(t_ns)) / 1e9, found[1]


def test_one_exchange_knows_the_offset_to_half_its_delay() -> None:
    exchange = Pair(5 * SECOND).exchange(100 * SECOND, 3_000_000, 3_000_000, busy_ns=0)
    assert exchange.delay_ns == 6_000_000
    found = fit([exchange]).offset_at(exchange.t2_ns)
    assert found is not None
    assert (found[0], round(found[1], 6)) == (5 * SECOND, 0.003)


def test_away_from_its_exchange_the_bound_grows_with_the_drift_of_two_crystals() -> None:
    exchange = Pair(0).exchange(0, 0, 0, busy_ns=0)
    found = fit([exchange]).offset_at(60 * SECOND)
    assert found is not None
    assert found[1] == pytest.approx(60 * CRYSTALS, abs=1e-8)


@given(st.lists(st.tuples(delays_ms, delays_ms), min_size=1, max_size=12), drifts_ppm, aheads_s, st.floats(-60, 120))
def test_the_true_offset_is_inside_the_bound_whatever_the_delays_each_way(
    delays: list[tuple[float, float]], drift_ppm: float, ahead_s: float, at_s: float
) -> None:
    pair = Pair(round(ahead_s * SECOND), drift_ppm)
    exchanges = [
        pair.exchange(round(3 * i * SECOND), round(there * 1e6), round(back * 1e6))
        for i, (there, back) in enumerate(delays)
    ]
    error_s, bound_s = _error_s(pair, exchanges, at_s)
    assert error_s <= bound_s + 2e-9


@given(drifts_ppm, st.integers(0, 2**32), st.floats(1, 2000))
def test_a_burst_of_delay_on_one_way_moves_the_offset_within_its_bound_and_costs_nothing(
    drift_ppm: float, seed: int, late_ms: float
) -> None:
    pair = Pair(7 * SECOND, drift_ppm, seed)
    calm = pair.exchanges(burst(0))
    delayed = [pair.exchange(round(at * SECOND), round(late_ms * 1e6), 1_000_000) for at in burst(2)]
    before_s, bound_s = _error_s(pair, calm, 4.0)
    error_s, with_burst_s = _error_s(pair, calm + delayed, 4.0)
    assert before_s <= bound_s + 2e-9 and error_s <= with_burst_s + 2e-9
    assert with_burst_s <= bound_s + 1e-8


def test_a_silent_train_of_60_s_at_50_ppm_is_known_to_milliseconds_in_its_middle() -> None:
    pair = Pair(-3 * HOUR_S * SECOND, 50.0)
    around = pair.exchanges([*burst(0), *burst(63)])
    for at_s in (2.0, 15.0, 32.0, 50.0, 63.0):
        error_s, bound_s = _error_s(pair, around, at_s)
        assert error_s <= bound_s < 0.003


def test_exchanges_of_minutes_tell_the_drift_so_that_an_old_bound_grows_slowly() -> None:
    pair = Pair(0, 50.0)
    error_s, bound_s = _error_s(pair, pair.exchanges(range(0, 300, 5)), 360.0)
    assert error_s <= bound_s < 0.004 < 60 * CRYSTALS


def test_a_day_of_exchanges_is_no_more_work_than_an_hour_and_the_bound_holds() -> None:
    pair = Pair(0, 30.0)
    exchanges = pair.exchanges(range(0, 86_400, 5))
    error_s, bound_s = _error_s(pair, exchanges, 43_202.0)
    assert error_s <= bound_s < 0.002


def test_a_clock_that_is_being_slewed_by_ntp_gets_a_wider_bound_and_still_holds() -> None:
    pair = Pair(0, 500.0)
    error_s, bound_s = _error_s(pair, pair.exchanges([*burst(0), *burst(63)]), 32.0)
    assert error_s <= bound_s
    assert bound_s > 0.003


def test_clocks_that_contradict_themselves_have_no_offset() -> None:
    one, other = Pair(0).exchanges([0]), Pair(10 * SECOND).exchanges([20])
    assert fit(one + other).offset_at(10 * SECOND) is None
    assert fit(()).offset_at(0) is None


@given(st.tuples(drifts_ppm, drifts_ppm), st.integers(0, 2**32))
def test_a_train_is_placed_on_the_meter_within_the_sum_of_both_bounds(drifts: tuple[float, float], seed: int) -> None:
    runner, meter = Pair(T0 - 2 * HOUR_S * SECOND, drifts[0], seed), Pair(T0, drifts[1], seed + 1)
    of_runner = fit(runner.exchanges([*burst(0), *burst(70)]))
    of_meter = fit(meter.exchanges(range(0, 70, 5)))
    asker_ns = [round(each * SECOND) for each in (5, 22, 34, 50, 65)]
    true_ns = [(runner.publisher_ns(each), meter.publisher_ns(each)) for each in asker_ns]
    state = by_exchange(true_ns[0][0], true_ns[-1][0], of_runner, of_meter)
    assert state.method == "exchange" and state.bound_s is not None and state.bound_s < 0.02
    ends_ns = [runner_ns for runner_ns, _ in true_ns]
    pieces = [Segment(kind="idle", start_ns=start, end_ns=end) for start, end in pairwise(ends_ns)]
    moved = shifted(pieces, state)
    for piece, (_, meter_ns) in zip(moved, true_ns, strict=False):
        assert abs(piece.start_ns - meter_ns) / 1e9 <= state.bound_s + 1e-8


def test_a_train_without_any_exchange_is_not_placed() -> None:
    state = by_exchange(0, SECOND, fit(()), fit(Pair(0).exchanges([0])))
    assert (state.method, state.bound_s) == ("assumed", None)


def test_exchanges_in_any_order_give_the_same() -> None:
    pair = Pair(0, 20.0)
    exchanges = pair.exchanges(range(0, 100, 5))
    mixed = random.Random(2).sample(exchanges, len(exchanges))
    assert fit(mixed).offset_at(50 * SECOND) == fit(exchanges).offset_at(50 * SECOND)
