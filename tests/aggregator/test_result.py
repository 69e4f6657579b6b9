"""What a result says of a train: figures, flags and quality."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aggregator.clocks import Timeline
from aggregator.crypto import with_crypto
from aggregator.result import MeterView, of_train, without_meter, without_samples
from aggregator.trace import PowerTrace
from schemas import ClockState, EnergyResult, Flag, HostClock, OperationEvent, TimeStatistics
from tests.aggregator.trains import PERIOD_NS, SECOND, T0, event, segments, steps, trace

SHARED = Timeline("shared", None)
LOADS = 8


def _view(
    data: PowerTrace, model: str = "simulated", kind: Any = "simulated", timeline: Timeline = SHARED
) -> MeterView:
    return MeterView("m1", model, kind, timeline, data)


def _noisy(train: OperationEvent, idle_w: float = 2.0, load_w: float = 5.0, seed: int = 1) -> PowerTrace:
    rng = np.random.default_rng(seed)
    square = steps(train.segments, idle_w, load_w)
    return trace(lambda t: square(t) + rng.normal(0, 0.05, len(t)), (train.end_ns - T0) / 1e9)


def _result(train: OperationEvent, **view: Any) -> EnergyResult:
    return of_train(train, _view(_noisy(train), **view), 1, "test")


def test_a_good_train_has_energy_uncertainty_and_budget() -> None:
    result = _result(event(segments(LOADS)))
    assert (result.quality, result.flags, result.simulated) == ("good", ("simulated",), True)
    assert result.net_j_per_op is not None
    assert abs(result.net_j_per_op.value - 3.0 * 0.7 / 100) < 3 * result.net_j_per_op.u
    assert 0 < result.net_j_per_op.u95 < 0.01 * result.net_j_per_op.value
    assert {part.name for part in result.budget} == {"scatter", "clock", "gain"}
    assert result.net_j_per_op.u == pytest.approx(np.hypot.reduce([part.u for part in result.budget]))
    assert result.repetitions == 100 * LOADS
    assert result.gross_j is not None and result.baseline_w is not None
    assert result.gross_j - result.baseline_w * result.load_s == pytest.approx(3.0 * 0.7 * LOADS, rel=0.02)


def test_the_same_train_and_samples_give_identical_bytes() -> None:
    train = event(segments(LOADS))
    assert _result(train).model_dump_json() == _result(train).model_dump_json()


def test_a_gain_error_counts_once_on_the_difference() -> None:
    result = _result(event(segments(LOADS)), model="FNB58", kind="measured")
    gain = next(part for part in result.budget if part.name == "gain")
    assert result.net_j_per_op is not None
    assert gain.u == pytest.approx(0.0041 * result.net_j_per_op.value)
    assert "maker's claim" in gain.source


def test_a_meter_whose_gain_nobody_knows_is_flagged() -> None:
    result = _result(event(segments(LOADS)), model="WITRN", kind="measured")
    assert (result.quality, result.flags) == ("degraded", ("gain_unknown",))


def test_a_sham_train_reports_watts_and_no_energy_per_operation() -> None:
    parts = segments(LOADS, repetitions=0)
    train = event(parts, operation="sham", parameter_set="none", backend="none", processes_per_repetition=0)
    result = of_train(train, _view(_noisy(train, load_w=2.0)), 1, "test")
    assert result.net_j_per_op is None
    assert result.net_power_w is not None
    assert abs(result.net_power_w.value) < result.net_power_w.u95
    assert result.quality == "good"


@pytest.mark.parametrize(("failed", "quality"), [(0, "good"), (4, "degraded"), (100, "invalid")])
def test_failed_repetitions_make_a_train_degraded_or_invalid_never_cheap(failed: int, quality: str) -> None:
    result = _result(event(segments(LOADS), repetitions_failed=failed))
    assert result.quality == quality
    assert (result.net_j_per_op is None) == (quality == "invalid")


def test_a_train_without_a_verified_repetition_has_no_energy() -> None:
    result = _result(event(segments(LOADS, repetitions=0), repetitions_failed=800, first_error="exit 1"))
    assert result.quality == "invalid"
    assert "no_repetitions" in result.flags
    assert (result.net_j_per_op, result.net_j, result.net_power_w, result.gross_j) == (None, None, None, None)


def test_clocks_that_were_never_compared_give_no_energy() -> None:
    train = event(segments(LOADS), host_clock=HostClock(boot_id="a", wall_minus_monotonic_ns=1))
    other = Timeline("elsewhere", HostClock(boot_id="b", wall_minus_monotonic_ns=1))
    result = _result(train, timeline=other)
    assert (result.quality, result.net_j_per_op) == ("invalid", None)
    assert "clocks" in result.reason


def test_the_same_host_joins_across_a_stepped_wall_clock() -> None:
    step_ns = 7200 * SECOND
    train = event(segments(LOADS), timeline_id="r", host_clock=HostClock(boot_id="a", wall_minus_monotonic_ns=0))
    data = _noisy(train)
    stepped = PowerTrace(data.t_ns + step_ns, data.power_w, data.period_ns)
    meter = Timeline("m", HostClock(boot_id="a", wall_minus_monotonic_ns=step_ns))
    result = of_train(train, _view(stepped, timeline=meter), 1, "test")
    assert result.quality == "good"
    assert result.start_ns == T0 + step_ns


def test_fewer_than_five_load_segments_are_said_to_be_few() -> None:
    assert "few_segments" in _result(event(segments(4))).flags


def test_a_guard_shorter_than_hold_time_and_clock_error_is_flagged_and_in_the_budget() -> None:
    result = _result(event(segments(LOADS), guard_s=0.05), model="FNB58", kind="measured")
    clock = next(part for part in result.budget if part.name == "clock")
    assert "guard_short" in result.flags
    assert clock.u == pytest.approx(LOADS * 0.05 * 3.0 / np.sqrt(3) / (100 * LOADS), rel=0.05)


@pytest.mark.parametrize(("bound_s", "flag"), [(0.2, "guard_short"), (0.9, "clock_unknown")])
def test_a_clock_that_may_be_off_by_much_of_a_segment_gives_no_energy(bound_s: float, flag: Flag) -> None:
    train = event(segments(LOADS))
    clock = ClockState(method="exchange", offset_ns=0, bound_s=bound_s)
    result = of_train(train, replace(_view(_noisy(train)), clock=clock), 1, "test")
    assert flag in result.flags
    assert (result.net_j_per_op is None) is (result.quality == "invalid") is (flag == "clock_unknown")


def test_a_train_whose_uncertainty_cannot_be_told_is_invalid_though_only_some_of_it_was_left_out() -> None:
    train = event(segments(2, 1.5, 0.9))
    whole = trace(steps(train.segments, 2.0, 5.0), (train.end_ns - T0) / 1e9, 300_000_000)
    there = np.abs(whole.t_ns - (train.segments[3].start_ns + train.segments[3].end_ns) // 2) > 400_000_000
    result = of_train(train, _view(PowerTrace(whole.t_ns[there], whole.power_w[there], whole.period_ns)), 1, "test")
    assert (result.load_segments, result.load_segments_used, result.net_j) == (2, 1, None)
    assert result.quality == "invalid"
    assert "no_samples" in result.flags


def test_missing_samples_are_flagged_and_more_than_half_missing_is_invalid() -> None:
    train = event(segments(LOADS))
    data = _noisy(train)
    for keep_s, quality in ((8.0, "degraded"), (4.0, "invalid")):
        kept = data.t_ns < T0 + round(keep_s * SECOND)
        part = PowerTrace(data.t_ns[kept], data.power_w[kept], PERIOD_NS)
        result = of_train(train, _view(part), 1, "test")
        assert (result.quality, "gap" in result.flags) == (quality, True)
        assert (result.net_j_per_op is None) == (quality == "invalid")


def test_an_imported_recording_uses_the_time_of_the_other_run_and_claims_no_coverage() -> None:
    parts = segments(1, load_s=30.0, idle_s=300.0, repetitions=0)[:2]
    train = event(parts, origin="import", separate_timing_s=0.2, guard_s=0.0)
    result = _result(train, model="FNB58", kind="recorded")
    assert result.net_j_per_op is not None
    assert result.net_j_per_op.value == pytest.approx(3.0 * 0.2, rel=0.01)
    assert result.flags == ("separate_timing", "single_baseline")
    assert (result.quality, result.repetitions) == ("degraded", 0)


def test_a_load_recording_with_a_hole_is_said_to_have_a_gap_and_nothing_else() -> None:
    parts = segments(1, load_s=30.0, idle_s=300.0, repetitions=0)[:2]
    train = event(parts, origin="import", separate_timing_s=0.2, guard_s=0.0)
    data = _noisy(train)
    kept = (data.t_ns < T0 + 310 * SECOND) | (data.t_ns > T0 + 311 * SECOND)
    result = of_train(train, _view(PowerTrace(data.t_ns[kept], data.power_w[kept], PERIOD_NS)), 1, "test")
    assert (result.quality, "gap" in result.flags, "no_repetitions" in result.flags) == ("invalid", True, False)
    assert "samples are missing" in result.reason


def test_a_meter_that_froze_in_mid_train_gives_no_good_figure() -> None:
    train = event(segments(LOADS))
    data = _noisy(train)
    frozen = np.where(data.t_ns > T0 + 4 * SECOND, data.power_w[100], data.power_w)
    result = of_train(train, _view(PowerTrace(data.t_ns, frozen, PERIOD_NS)), 1, "test")
    assert (result.quality, result.net_j) == ("invalid", None)
    assert "stuck" in result.flags


def test_a_guard_shorter_than_the_time_between_samples_is_flagged() -> None:
    parts = segments(LOADS, load_s=3.0, idle_s=3.0)
    train = event(parts)
    rng = np.random.default_rng(9)
    data = trace(lambda t: steps(parts, 2.0, 5.0)(t) + rng.normal(0, 0.05, len(t)), 51.0, period_ns=300_000_000)
    assert "guard_short" in of_train(train, _view(data), 1, "test").flags


def test_a_dut_without_a_meter_has_times_and_no_energy() -> None:
    times = TimeStatistics(count=800, mean_s=0.007)
    result = without_meter(event(segments(LOADS), time_per_repetition=times), 1, "test")
    assert (result.quality, result.time_per_repetition, result.net_j_per_op) == ("time_only", times, None)


def test_a_train_that_no_meter_saw_is_published_as_invalid() -> None:
    result = without_samples(event(segments(LOADS)), 1, "test")
    assert (result.quality, result.flags, result.meter) == ("invalid", ("no_samples",), None)


def test_robust_statistics_are_reported_beside_the_mean() -> None:
    statistics = _result(event(segments(LOADS))).statistics
    assert statistics is not None
    assert statistics.load_median_w == pytest.approx(5.0, abs=0.05)
    assert statistics.idle_trimmed_mean_w == pytest.approx(2.0, abs=0.02)


READS = "processes=1,reads=key"


def _null(start_s: float, variant: str = READS, **changes: Any) -> EnergyResult:
    parts = segments(LOADS, start_ns=T0 + round(start_s * SECOND))
    train = event(parts, operation="null", parameter_set="none", variant=variant, **changes)
    rng = np.random.default_rng(7)
    square = steps(parts, 2.0, 4.0)
    data = trace(lambda t: square(t) + rng.normal(0, 0.05, len(t)), 0.7 * (2 * LOADS + 1), start_ns=parts[0].start_ns)
    return of_train(train, _view(data), 1, "test")


def _reading() -> EnergyResult:
    """Of a train that names its null train: one process that reads a key."""
    return _result(event(segments(LOADS), null_variant=READS, processes_per_repetition=1))


def test_crypto_energy_is_net_minus_the_nearest_matching_null_train() -> None:
    result = _reading()
    near, far = _null(20), _null(100)
    reads_nothing = _null(10, "processes=1")
    other_run, other_backend = _null(5, run_id="another"), _null(5, backend="lib")
    priced = with_crypto(result, [far, reads_nothing, other_run, other_backend, near])
    assert priced.null_event_id == near.event_id
    assert priced.crypto_j_per_op is not None and result.net_j_per_op is not None
    assert priced.crypto_j_per_op.value == pytest.approx(1.0 * 0.7 / 100, rel=0.05)
    assert priced.crypto_j_per_op.u > result.net_j_per_op.u


def test_only_a_good_null_train_of_the_same_kind_of_meter_is_subtracted() -> None:
    assert with_crypto(_reading(), [_null(10)]).crypto_j_per_op is not None
    assert with_crypto(_reading(), [_null(10, repetitions_failed=3)]).crypto_j_per_op is None
    measured = _result(event(segments(LOADS), null_variant=READS), model="FNB58", kind="measured")
    assert with_crypto(measured, [_null(10)]).crypto_j_per_op is None


def test_a_doubtful_null_train_is_subtracted_from_what_is_marked_with_the_same_doubts() -> None:
    busy: dict[str, Any] = {"disturbance": {"busy": True}}
    marked = _result(event(segments(LOADS), null_variant=READS, **busy))
    assert with_crypto(_reading(), [_null(10, **busy)]).crypto_j_per_op is None
    assert with_crypto(marked, [_null(10, **busy)]).crypto_j_per_op is not None
    assert with_crypto(marked, [_null(10, repetitions_failed=3, **busy)]).crypto_j_per_op is None


def test_without_a_matching_null_train_there_is_no_crypto_energy() -> None:
    assert with_crypto(_reading(), [_null(10, "processes=1")]).crypto_j_per_op is None
    assert with_crypto(_reading(), []).crypto_j_per_op is None


@pytest.mark.parametrize(
    ("variant", "changes", "has"),
    [
        ("processes=2", {}, True),
        ("processes=1", {}, False),
        ("processes=2,reads=key", {}, False),
        ("", {}, False),
        ("processes=0", {"processes_per_repetition": 0}, False),
        ("processes=2", {"procedure": "as_published"}, False),
    ],
)
def test_a_train_that_names_no_null_train_takes_one_of_as_many_processes_that_read_nothing(
    variant: str, changes: dict[str, Any], has: bool
) -> None:
    result = _result(event(segments(LOADS), **({"processes_per_repetition": 2} | changes)))
    assert (with_crypto(result, [_null(10, variant)]).crypto_j_per_op is not None) is has


def test_what_the_event_says_of_its_outputs_stands_in_the_result() -> None:
    seen = {"output_bytes": {"ciphertext": 1088}, "peak_memory_bytes": 5_000_000, "cpu_time_s": 0.002}
    result = _result(event(segments(LOADS), null_variant="calls=1", **seen))
    assert (result.null_variant, result.procedure) == ("calls=1", "train")
    assert {name: getattr(result, name) for name in seen} == seen


def test_a_busy_board_and_a_reproduced_procedure_degrade_a_result() -> None:
    busy = _result(event(segments(LOADS), disturbance={"busy": True}))
    assert (busy.quality, "busy" in busy.flags) == ("degraded", True)
    assert "busy" not in _result(event(segments(LOADS), disturbance={"busy": False})).flags
    published = _result(event(segments(LOADS), procedure="as_published"))
    assert (published.quality, "as_published" in published.flags) == ("degraded", True)
    assert published.net_j_per_op is not None


def _as_published(**changes: Any) -> EnergyResult:
    """One idle and one load segment, no guard, time from another run: as the first study did it."""
    idle, load, _ = segments(1, load_s=5.0, idle_s=5.0, repetitions=0)
    load = load.model_copy(update={"repetitions": changes.get("repetitions_verified", 0)})
    return _result(event((idle, load), procedure="as_published", guard_s=0.0, separate_timing_s=0.05, **changes))


def test_a_study_reproduced_as_published_is_treated_like_its_imported_recordings() -> None:
    result = _as_published(repetitions_verified=100)
    assert result.quality == "degraded"
    assert set(result.flags) == {"as_published", "separate_timing", "single_baseline", "simulated"}
    assert result.net_power_w is not None and result.net_j_per_op is not None
    assert result.net_j_per_op.value == pytest.approx(result.net_power_w.value * 0.05)


def test_a_study_whose_every_repetition_failed_is_invalid_and_says_what_the_program_said() -> None:
    result = _as_published(repetitions_failed=14, first_error="Error: input data too long\nfor this operation")
    assert (result.quality, result.net_j_per_op) == ("invalid", None)
    assert "some repetitions failed" in result.reason
    assert result.reason.endswith("Error: input data too long for this operation")
    long = _as_published(repetitions_failed=14, first_error="x" * 1000)
    assert len(long.reason) == 500
