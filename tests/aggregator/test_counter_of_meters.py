"""Energy counters on the whole way: bytes of a TC66C and a .cfn recording, batches, journal, result."""

from collections.abc import Iterator
from struct import pack

import numpy as np
import pytest

from aggregator.meters import facts
from meter.batching import Batcher, BatchLimits
from meter.devices.tc66c import Tc66Device
from meter.protocols import cfn
from meter.protocols.tc66c import ENERGY_STEP_J, POLL, decode_reply
from meter.protocols.tc66c_dialogue import EnergyCounter
from meter.readings import Reading, Stream
from meter.sources.recording import RecordingSource
from schemas import EnergyResult, SampleBatch
from tests.aggregator.conftest import Lab
from tests.aggregator.trains import SECOND, T0, event, segments, steps

PARTS = segments(20, load_s=1.5, idle_s=1.5)
TRAIN_S = (PARTS[-1].end_ns - T0) / 1e9
POLL_S = 0.1


class Supply:
    """5 V, and a current that has the steps of the train and noise."""

    def __init__(self) -> None:
        self.t_s = 0.0
        self._rng = np.random.default_rng(4)
        self._power_w = steps(PARTS, 2.3, 3.7)

    def __call__(self) -> tuple[float, float]:
        power_w = float(self._power_w(np.array([self.t_s]))[0]) + self._rng.normal(0, 0.05)
        return 5.0, power_w / 5.0


def _polled(device: Tc66Device, supply: Supply, cleared_at: int | None = None) -> Iterator[Reading]:
    counter = EnergyCounter()
    for poll in range(round(TRAIN_S / POLL_S) + 2):
        supply.t_s = poll * POLL_S
        if poll == cleared_at:
            device.energy_steps = [0, 0]
        _, said = device.command(POLL, supply.t_s)
        reply = decode_reply(said)
        yield Reading(
            t_ns=T0 + round(supply.t_s * SECOND),
            power_w=reply.power_w,
            energy_counter_j=counter.add(reply.energy_steps) * ENERGY_STEP_J,
        )


def _batched(readings: list[Reading], stream: Stream) -> list[SampleBatch]:
    batcher = Batcher(stream, BatchLimits(100, SECOND))
    return [*batcher.add(readings), *batcher.flush()]


def _of_tc66c(lab: Lab, cleared_at: int | None = None, threshold: float = 1.0) -> EnergyResult:
    """The result of a train at a TC66C; `threshold` is the share of the energy that its counter sees."""
    supply = Supply()
    device = Tc66Device(supply=supply, energy_steps=[500, 12_000], group=1)
    stream = Stream("lab", "pi4", "m1", "TC66C", "measured", "shared", None, SECOND // 10, ENERGY_STEP_J)
    readings = [
        Reading(r.t_ns, r.power_w, energy_counter_j=(r.energy_counter_j or 0.0) * threshold)
        for r in _polled(device, supply, cleared_at)
    ]
    lab.send(*_batched(readings, stream), event(PARTS))
    lab.run()
    (result,) = lab.results()
    return result


def test_the_counter_of_a_tc66c_agrees_with_its_samples(lab: Lab) -> None:
    result = _of_tc66c(lab)
    assert result.counter is not None and result.counter.integral_j is not None
    counted = result.counter.counter_j
    assert counted.value == pytest.approx(round(counted.value / 3.6) * 3.6), "whole steps"
    assert counted.u == pytest.approx(np.hypot(3.6 / np.sqrt(6), facts("TC66C").counter_u * counted.value))
    assert abs(counted.value - result.counter.integral_j.value) < 3.6 + 0.002 * counted.value
    assert 58 < result.counter.span_s < TRAIN_S
    assert result.flags == ("gain_unknown",), "of a TC66C no accuracy is known, and nothing else is wrong"


def test_a_tc66c_whose_counter_does_not_count_all_is_found_out(lab: Lab) -> None:
    assert _of_tc66c(lab, threshold=0.9).flags == ("counter_disagrees", "gain_unknown")


def test_a_tc66c_that_is_cleared_in_the_train_is_not_compared(lab: Lab) -> None:
    result = _of_tc66c(lab, cleared_at=250)
    assert result.counter is None and result.net_j is not None
    assert "counter_disagrees" not in result.flags


def _cfn(power_w: np.ndarray[tuple[int], np.dtype[np.float64]], energy_wh: list[float]) -> bytes:
    """A recording of 50 samples a second with the channels power (4) and energy (6)."""
    channels = b"".join(pack("<h4sB", kind, b"\1\2\3\4", 0) for kind in (4, 6))
    rows = b"".join(
        pack("<ddd", row * 0.02, power, energy)
        for row, (power, energy) in enumerate(zip(power_w, energy_wh, strict=True))
    )
    return pack("<diiih", 50.0, 50, 0, 5, 2) + channels + pack("<i", len(power_w)) + rows


@pytest.mark.parametrize(("counted", "flags"), [(1.0, ()), (0.97, ("counter_disagrees",))])
def test_the_energy_channel_of_a_recording_is_compared_likewise(
    lab: Lab, counted: float, flags: tuple[str, ...]
) -> None:
    rows = round(TRAIN_S * 50) + 2
    power_w = steps(PARTS, 2.3, 3.7)(np.arange(rows) / 50) + np.random.default_rng(5).normal(0, 0.05, rows)
    energy_wh = [round(each, 5) for each in counted * np.cumsum(power_w) * 0.02 / 3600]
    recording = cfn.decode(_cfn(power_w, energy_wh))
    step_j = recording.energy_step_j
    assert step_j == pytest.approx(0.036), "1e-5 Wh"
    stream = Stream("lab", "pi4", "m1", "FNB58", "recorded", "shared", None, recording.period_ns, step_j)
    source = RecordingSource(stream, recording, T0, speed=0)
    readings: list[Reading] = []
    while (some := source.read(0.0)) is not None:
        readings += some
    lab.send(*_batched(readings, stream), event(PARTS))
    lab.run()
    (result,) = lab.results()
    assert result.flags == flags
    assert result.counter is not None and result.counter.integral_j is not None
    assert result.counter.counter_j.value == pytest.approx(counted * result.counter.integral_j.value, rel=0.005)
