"""What is known of the meters, what their operators state, and what becomes of both in results."""

import math
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from aggregator.energy import TrainEnergy, measure, scatter
from aggregator.meters import METERS, facts, stated
from aggregator.settings import AggregatorSettings
from aggregator.trace import PowerTrace
from aggregator.uncertainty import Standard, quantity
from configure import load
from errors import SettingsError
from runner.segments import PRESETS, PresetName, plan_train
from schemas import EnergyResult, SampleBatch, Segment
from tests.aggregator.conftest import Lab
from tests.aggregator.trains import SECOND, T0, batches, event, segments, steps, trace

PARTS = segments(8)
STEP_J = 3.6


def test_a_claim_is_marked_as_one_and_says_whose_it_is() -> None:
    known = facts("FNB58")
    assert known.gain_u == pytest.approx(0.005 * math.sqrt(2) / math.sqrt(3), rel=0.01)
    assert known.gain_source.startswith("maker's claim")
    assert "not verified" in known.gain_source


@pytest.mark.parametrize("model", ["TC66C", "FNB48", "FNB48S", "C1", "ina226", "unknown", ""])
def test_a_model_without_a_statement_of_accuracy_has_no_gain(model: str) -> None:
    assert facts(model).gain_u is None


def test_a_simulated_device_holds_no_value_and_has_no_gain_error() -> None:
    real, simulated = facts("FNB58"), facts("FNB58 (simulated)")
    assert (simulated.hold_s, simulated.gain_u, simulated.counter_u) == (0.0, 0.0, real.counter_u)
    assert simulated.gain_source == METERS["simulated"].gain_source
    assert facts("another (simulated)").gain_u == 0.0


def test_what_the_operator_states_replaces_the_claim_and_nothing_else() -> None:
    known = stated(facts("FNB58"), 0.001)
    assert (known.gain_u, known.gain_source) == (0.001, "stated by the operator")
    assert known.hold_s == facts("FNB58").hold_s
    assert stated(facts("FNB58"), None) == facts("FNB58")


def _settings(text: str) -> AggregatorSettings:
    return load(AggregatorSettings, "aggregator", "", ["--meter-gain-u", text], {})


def test_gains_are_stated_by_meter_and_by_model() -> None:
    stated_u = _settings("lab/m1=0.001, FNB58 (simulated)=0, TC66C=0.05").gain_u_by_meter
    assert stated_u == {"lab/m1": 0.001, "FNB58 (simulated)": 0.0, "TC66C": 0.05}


@pytest.mark.parametrize("text", ["m1", "m1=", "=0.1", "m1=1", "m1=-0.1", "m1=0.1%", "m1=nan", "m1=1e-3", "m1=0."])
def test_a_gain_that_is_none_is_refused_with_the_form_that_is_wanted(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--meter-gain-u .*SITE/METER=U or MODEL=U"):
        _settings(text)


def _samples(power: float = 1.0, seed: int = 1, **changes: Any) -> list[SampleBatch]:
    rng = np.random.default_rng(seed)
    square = steps(PARTS, 2.0, 5.0)
    data = trace(lambda t: power * (square(t) + rng.normal(0, 0.05, len(t))), 13.0)
    return batches(data, meter_kind="measured", **changes)


def _counting(samples: list[SampleBatch], **changes: Any) -> list[SampleBatch]:
    """The same batches from a meter that counts its energy."""
    found, energy_j = [], 3600.0
    for batch in samples:
        energy_j += sum(batch.power_w) * batch.period_ns / 1e9
        cut_j = STEP_J * math.floor(energy_j / STEP_J)
        found.append(batch.model_copy(update={"energy_counter_j": cut_j, "counter_resolution_j": STEP_J} | changes))
    return found


def _results(lab: Lab, *samples: SampleBatch) -> list[EnergyResult]:
    lab.send(*samples, event(PARTS, event_id=UUID("01890a5d-ac96-774b-bcce-000000000001")))
    lab.run()
    return lab.results()


def _assert_gain(result: EnergyResult, gain_u: float | None, source: str) -> None:
    """Relative gain u and its source, in the budget of a result."""
    assert result.net_j_per_op is not None
    (part,) = [part for part in result.budget if part.name == "gain"]
    assert part.u / result.net_j_per_op.value == pytest.approx(gain_u)
    assert part.source == source


def test_the_gain_that_is_stated_of_one_meter_is_in_its_budget_and_in_no_other(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(meter_gain_u=("lab/m1=0.002", "elsewhere/m2=0.5", "TC66C=0.03"))
    meters = [("m1", "TC66C"), ("m2", "TC66C"), ("m3", "FNB58"), ("m4", "C1")]
    batches_of_all = [batch for meter, model in meters for batch in _samples(meter=meter, meter_model=model)]
    first, second, third, fourth = _results(lab, *batches_of_all)
    _assert_gain(first, 0.002, "stated by the operator")
    _assert_gain(second, 0.03, "stated by the operator")
    _assert_gain(third, facts("FNB58").gain_u, facts("FNB58").gain_source)
    assert [result.flags for result in (first, second, third, fourth)] == [(), (), (), ("gain_unknown",)]


def test_a_counter_comes_from_the_batches_to_the_result(lab: Lab) -> None:
    (result,) = _results(lab, *_counting(_samples(meter_model="TC66C")))
    assert result.counter is not None and result.counter.integral_j is not None
    assert result.counter.span_s == pytest.approx(10.0)
    assert abs(result.counter.counter_j.value - result.counter.integral_j.value) < 2 * STEP_J
    assert "counter_disagrees" not in result.flags


@pytest.mark.parametrize(
    "changes", [{"counter_resolution_j": None}, {"energy_counter_j": None}], ids=["no step", "no counter"]
)
def test_a_counter_whose_step_is_not_known_is_not_used(lab: Lab, changes: dict[str, None]) -> None:
    (result,) = _results(lab, *_counting(_samples(), **changes))
    assert result.net_j is not None and result.counter is None


@pytest.mark.parametrize(("first_j", "step_j"), [(-1.7e308, 3.4e305), (0.0, 1e300), (0.0, 5e-324)])
def test_extreme_counters_cost_no_energy(lab: Lab, first_j: float, step_j: float) -> None:
    odd = [
        batch.model_copy(update={"energy_counter_j": first_j + n * 3e307, "counter_resolution_j": step_j})
        for n, batch in enumerate(_samples(meter_model="FNB58"))
    ]
    (result,) = _results(lab, *odd)
    assert result.net_j is not None
    assert result.counter is None or "counter_disagrees" in result.flags


def test_two_meters_on_one_dut_have_their_own_counter_new_values_and_gaps(lab: Lab) -> None:
    whole = _counting(_samples(meter="m1", meter_model="FNB58"))
    held = [
        batch.model_copy(update={"power_w": tuple(np.repeat(batch.power_w[::10], 10)[: len(batch.power_w)])})
        for batch in _samples(meter="m2", meter_model="FNB58", seed=2)
    ]
    gap = [batch for batch in held if not T0 + 5 * SECOND <= batch.start_ns < T0 + 6 * SECOND]
    first, second = _results(lab, *whole, *[b.model_copy(update={"seq": n}) for n, b in enumerate(gap)])
    assert (first.meter, second.meter) == ("m1", "m2")
    assert first.counter is not None and second.counter is None
    assert first.samples == first.new_values == 1190 and first.missing_s == 0.0
    assert second.samples == 1090 and second.new_values is not None and 100 < second.new_values < 150
    assert second.missing_s == pytest.approx(0.99, abs=0.02)
    assert "gap" in second.flags and "gap" not in first.flags


def _slow_train(seed: int, preset: PresetName, period_s: float) -> tuple[TrainEnergy, Standard | None]:
    """Energy of a planned train of 60 s, 1.4 W above idle, at a meter with few samples, and its scatter."""
    parts: list[Segment] = []
    plan = plan_train(seed, 60.0, 0.01, PRESETS[preset])
    for each in plan.segments:
        start_ns = parts[-1].end_ns if parts else T0
        repetitions = int(each.kind == "load")
        end_ns = start_ns + each.duration_ns
        parts.append(Segment(kind=each.kind, start_ns=start_ns, end_ns=end_ns, repetitions=repetitions))
    rng = np.random.default_rng(seed)
    count = int((parts[-1].end_ns - T0) / 1e9 / period_s)
    t_s = rng.uniform(0, period_s) + period_s * np.arange(count) + rng.uniform(-0.003, 0.003, count)
    t_ns = T0 + np.round(np.sort(np.abs(t_s)) * 1e9).astype(np.int64)
    power_w = steps(parts, 2.3, 3.7)((t_ns - T0) / 1e9) + rng.normal(0, 0.1, count)
    samples = PowerTrace(t_ns, power_w, round(period_s * 1e9))
    guard_ns = round(plan.guard_s * 1e9)
    energy = measure(samples, parts, guard_ns)
    return energy, scatter(samples, parts, guard_ns, energy) if energy.loads else None


@pytest.mark.parametrize("preset", PRESETS)
def test_a_meter_of_ten_samples_a_second_measures_trains_of_every_preset(preset: PresetName) -> None:
    covered = 0
    for seed in range(60):
        energy, standard = _slow_train(seed, preset, 0.1)
        assert len(energy.loads) > 0.8 * (len(energy.loads) + energy.dropped) and standard is not None
        error_j = energy.net_j - 1.4 * energy.load_s
        covered += abs(error_j) <= quantity(energy.net_j, standard).u95
    assert covered >= 51, "of 60; fewer has a probability below 0.1 % where 95 % are covered"


@pytest.mark.parametrize("preset", ["short", "medium"])
def test_a_meter_of_one_sample_a_second_measures_none_of_them(preset: PresetName) -> None:
    for seed in range(20):
        energy, _ = _slow_train(seed, preset, 1.0)
        assert energy.dropped > len(energy.loads)
