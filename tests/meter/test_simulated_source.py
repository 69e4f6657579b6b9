"""The simulated meter: power from CPU time, on a grid, with noise from a seed."""

import statistics
from collections.abc import Callable
from itertools import pairwise
from typing import Protocol, get_args

import pytest

from clock import ServiceClock
from errors import SettingsError
from meter.readings import Reading, Stream
from meter.settings import MeterSettings
from meter.sources import SOURCES
from meter.sources.pacing import Pacing
from meter.sources.simulated import VOLTAGE_V, Noise, PowerModel, SimulatedSource

PERIOD_NS = 10_000_000
CLOCK = ServiceClock(wall_minus_monotonic_ns=10**18, timeline_id="t1", boot_id="b1")
STREAM = Stream("lab", "pi4", "m1", "simulated", "simulated", "t1", CLOCK.host_clock, PERIOD_NS)
QUIET = PowerModel(idle_w=2.0, watts_per_cpu_s=1.5, noise_w=0.0)


class Clock(Protocol):
    now_ns: int

    def monotonic_ns(self) -> int: ...

    def sleep(self, duration_s: float) -> None: ...


def source_on(
    clock: Clock, cpu_time_ns: Callable[[], int], model: PowerModel = QUIET, seed: int = 1
) -> SimulatedSource:
    return SimulatedSource(STREAM, cpu_time_ns, model, seed, CLOCK, Pacing(clock.monotonic_ns, clock.sleep))


def read_for(source: SimulatedSource, calls: int) -> list[Reading]:
    return [reading for _ in range(calls) for reading in source.read(0.2) or []]


def test_samples_stand_on_the_grid_without_drift(fake_time: Clock) -> None:
    start_ns = fake_time.now_ns
    readings = read_for(source_on(fake_time, lambda: 0), 50)
    assert [reading.t_ns - CLOCK.at_ns(start_ns) for reading in readings] == [
        (k + 1) * PERIOD_NS for k in range(len(readings))
    ]
    assert len(readings) == 1000


def test_a_busy_cpu_costs_watts_per_cpu_second(fake_time: Clock) -> None:
    readings = read_for(source_on(fake_time, lambda: fake_time.now_ns // 2), 5)
    assert [reading.power_w for reading in readings] == pytest.approx([2.0 + 1.5 / 2] * 100)


def test_voltage_times_current_is_power(fake_time: Clock) -> None:
    noisy = PowerModel(2.0, 1.5, 0.05)
    for reading in read_for(source_on(fake_time, lambda: 0, noisy), 5):
        assert reading.voltage_v == VOLTAGE_V
        assert reading.current_a is not None
        assert VOLTAGE_V * reading.current_a == pytest.approx(reading.power_w)


def test_a_late_sample_carries_its_true_time_and_all_the_cpu_time_until_then(fake_time: Clock) -> None:
    delays_ns = iter([0, 0, 37_000_000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    start_ns = fake_time.now_ns

    def cpu_time_ns() -> int:
        return fake_time.now_ns

    def sleep(duration_s: float) -> None:
        fake_time.now_ns += round(duration_s * 1e9) + next(delays_ns)

    source = SimulatedSource(STREAM, cpu_time_ns, QUIET, 1, CLOCK, Pacing(fake_time.monotonic_ns, sleep))
    readings = source.read(0.1) or []
    assert [(reading.t_ns - CLOCK.at_ns(start_ns)) / 1e6 for reading in readings] == [10, 20, 67, 80, 90, 100]
    assert [reading.power_w for reading in readings] == pytest.approx([3.5] * 6)


def test_two_samples_are_never_closer_than_half_a_period(fake_time: Clock) -> None:
    delays_ns = iter([k * 731_000 % 23_000_000 for k in range(10_000)])

    def sleep(duration_s: float) -> None:
        fake_time.now_ns += round(duration_s * 1e9) + next(delays_ns)

    source = SimulatedSource(STREAM, lambda: 0, QUIET, 1, CLOCK, Pacing(fake_time.monotonic_ns, sleep))
    times_ns = [reading.t_ns for reading in read_for(source, 100)]
    assert min(b - a for a, b in pairwise(times_ns)) >= PERIOD_NS / 2


def test_the_same_seed_gives_the_same_noise_and_another_seed_another(fake_time: Clock) -> None:
    noisy = PowerModel(2.0, 1.5, 0.05)
    first, again, other = (
        [reading.power_w for reading in read_for(source_on(fake_time, lambda: 0, noisy, seed), 2)] for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other


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


def settings(**given: object) -> MeterSettings:
    return MeterSettings.model_validate({"source": "simulated", "dut": "pi4", "meter": "m1", **given})


def test_a_process_that_does_not_exist_is_named_to_the_operator() -> None:
    with pytest.raises(SettingsError, match="there is no process 4194999"):  # above the largest pid of Linux
        SOURCES["simulated"](settings(simulated_pid=4_194_999), CLOCK)


def test_without_a_process_the_whole_machine_is_metered() -> None:
    (planned,) = SOURCES["simulated"](settings(), CLOCK)
    readings = planned.open().read(0.05)
    assert readings
    assert all(reading.power_w > 0 for reading in readings)


def test_every_source_can_be_chosen_by_a_setting() -> None:
    assert set(get_args(MeterSettings.model_fields["source"].annotation)) == set(SOURCES)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"source": "recording", "dut": "pi4", "meter": "m1"}, "either --recording or --playlist"),
        ({"source": "recording", "playlist": "a", "recording": "b"}, "either --recording or --playlist"),
        ({"source": "recording", "recording": "b", "meter": "m1"}, "--dut and --meter must be given"),
        ({"source": "simulated", "dut": "pi4"}, "--dut and --meter must be given"),
        ({"source": "simulated", "dut": "pi4", "meter": "m1", "playlist": "a"}, "need --source recording"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        MeterSettings.model_validate(given)


def test_the_process_is_named_in_topics_by_instance_meter_or_playlist() -> None:
    assert settings().instance_name == "m1"
    assert settings(instance="desk").instance_name == "desk"
    assert MeterSettings.model_validate({"source": "recording", "playlist": "a"}).instance_name == "playlist"
