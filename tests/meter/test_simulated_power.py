"""What a simulated meter measures: exact products for recordings, CPU time without loss, noise from a seed."""

import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meter.devices.power import (
    STEPS_PER_W,
    CpuPower,
    Measured,
    Noise,
    Power,
    PowerModel,
    at_voltage,
    constant,
    exact_steps,
    held,
    replay,
)
from meter.sources.recording import read_recording

PERIOD_NS = 10_000_000
QUIET = PowerModel(idle_w=2.0, watts_per_cpu_s=1.5, noise_w=0.0)
STEP_W = 5.1 / 100_000
"""One step of current at the voltage of the simulation."""


class Host:
    """A clock and the CPU time of a host; both move only when the test says so."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.cpu_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def cpu_time_ns(self) -> int:
        return self.cpu_ns

    def run(self, duration_ns: int, load: float) -> None:
        self.now_ns += duration_ns
        self.cpu_ns += round(load * duration_ns)

    def power(self, model: PowerModel = QUIET, seed: int = 1) -> Power:
        return CpuPower(self.cpu_time_ns, model, Noise(model.noise_w, PERIOD_NS / 1e9, seed), self.monotonic_ns)


def watts(measured: Measured) -> float:
    return measured.voltage_steps * measured.current_steps / STEPS_PER_W


@given(st.integers(440_000, 560_000), st.integers(1, 150_000))
def test_any_product_of_a_supply_voltage_and_a_current_comes_back_exactly(
    voltage_steps: int, current_steps: int
) -> None:
    product = voltage_steps * current_steps
    (measured,) = exact_steps([product / STEPS_PER_W])
    assert measured.voltage_steps * measured.current_steps == product


def test_every_value_of_a_real_recording_has_an_exact_voltage_and_current(recordings: Path) -> None:
    values_w = read_recording(sorted(recordings.rglob("*.cfn"))[0]).power_w
    steps = list(exact_steps(values_w))
    assert [each.voltage_steps * each.current_steps for each in steps] == [round(value * 1e10) for value in values_w]
    assert all(500_000 < each.voltage_steps < 515_000 for each in steps)


def test_a_power_that_is_no_such_product_comes_within_the_resolution() -> None:
    prime = 999_999_937 / STEPS_PER_W
    (measured,) = exact_steps([prime])
    assert abs(watts(measured) - prime) <= STEP_W / 2


def test_a_recording_is_surrounded_by_zero_watts_and_begins_when_told() -> None:
    power = replay([2.5, 0.75], lead_in_samples=3)
    assert [round(watts(power(k)), 10) for k in range(7)] == [0, 0, 0, 2.5, 0.75, 0, 0]


def test_power_below_zero_is_no_current_and_too_much_is_what_the_meter_can_say() -> None:
    assert at_voltage(-0.1) == Measured(510_000, 0)
    assert at_voltage(1000.0) == Measured(510_000, 700_000)


def test_a_held_value_changes_only_when_its_time_is_over() -> None:
    counter = iter(range(100))
    power = held(lambda _t_ns: Measured(510_000, next(counter)), 10)
    assert [power(k).current_steps for k in range(25)] == [0] * 10 + [1] * 10 + [2] * 5


def test_constant_power_is_constant() -> None:
    power = constant(2.5)
    assert {power(k) for k in range(5)} == {power(0)}
    assert watts(power(0)) == pytest.approx(2.5, abs=STEP_W / 2)


def test_a_busy_cpu_costs_watts_per_cpu_second() -> None:
    host = Host()
    power = host.power()
    for _ in range(20):
        host.run(PERIOD_NS, load=0.5)
        assert watts(power(host.now_ns)) == pytest.approx(2.75, abs=STEP_W)


def test_samples_asked_for_late_cover_their_own_periods_and_lose_no_cpu_time() -> None:
    host = Host()
    start_ns = host.now_ns
    power = host.power()
    host.run(37_000_000, load=1.0)
    late = [watts(power(start_ns + k * PERIOD_NS)) for k in (1, 2, 3)]
    host.run(3_000_000, load=0.0)
    fourth = watts(power(start_ns + 4 * PERIOD_NS))
    assert late == pytest.approx([3.5] * 3, abs=STEP_W)
    assert fourth == pytest.approx(2.0 + 1.5 * 0.7, abs=STEP_W)  # busy for 7 of its 10 ms


def test_the_same_seed_gives_the_same_noise_and_another_seed_another() -> None:
    def values(seed: int) -> list[float]:
        host = Host()
        power = host.power(PowerModel(2.0, 1.5, 0.05), seed)
        made = []
        for _ in range(50):
            host.run(PERIOD_NS, load=0.0)
            made.append(watts(power(host.now_ns)))
        return made

    assert values(7) == values(7)
    assert values(7) != values(8)


def test_noise_has_mean_zero_its_deviation_a_tail_to_the_right_and_a_memory() -> None:
    noise = Noise(0.05, 0.01, seed=3)
    values = [noise.next_w() for _ in range(200_000)]
    sd = statistics.pstdev(values)
    memory = statistics.correlation(values[:-1], values[1:])
    assert sd == pytest.approx(0.05, rel=0.03)
    # 20 samples of 10 ms per independent value: standard error of the mean 0.05 W x sqrt(20 / 200,000)
    assert abs(statistics.fmean(values)) < 4 * 0.05 * (20 / 200_000) ** 0.5
    assert memory == pytest.approx(0.905, abs=0.01)  # exp(-10 ms / 100 ms)
    assert statistics.fmean((value / sd) ** 3 for value in values) > 0.2
