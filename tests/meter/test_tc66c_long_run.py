"""Minutes with a TC66 in the time of seconds: unplugged again and again, every gap accounted for, nothing left open."""

import errno
from itertools import pairwise

import pytest

from clock import ServiceClock
from meter.devices.tc66c import Fault, Tc66Device
from meter.readings import Reading, Stream
from meter.sources.pacing import Pacing
from meter.sources.tc66c import MODEL, PERIOD_NS, Tc66cSource
from meter.sources.tc66c_ports import GivenTransport

ANSWER_S = 0.01
PLUGGED_S, AWAY_S = 50.0, 10.0


class Wire:
    """A meter that is unplugged for 10 s of every minute, in a time that only waiting moves."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.device = Tc66Device(usual=Fault(delay_s=ANSWER_S))
        self.is_open = False
        self.openings = 0
        self._reply = b""
        self._reply_ns = 0

    @property
    def is_there(self) -> bool:
        return self.now_ns / 1e9 % (PLUGGED_S + AWAY_S) < PLUGGED_S

    def sleep(self, duration_s: float) -> None:
        self.now_ns += round(duration_s * 1e9)

    def open(self) -> "Wire":
        if not self.is_there:
            raise OSError(errno.ENODEV, "is not there")
        assert not self.is_open, "opened twice"
        self.is_open = True
        self.openings += 1
        self._reply = b""
        return self

    def read(self, timeout_s: float) -> bytes:
        self._check()
        end_ns = self.now_ns + round(timeout_s * 1e9)
        if self._reply and self._reply_ns <= end_ns:
            self.now_ns = max(self.now_ns, self._reply_ns)
            data, self._reply = self._reply, b""
            return data
        self.now_ns = end_ns
        return b""

    def write(self, report: bytes) -> None:
        self._check()
        fault, self._reply = self.device.command(report, self.now_ns / 1e9)
        self._reply_ns = self.now_ns + round(fault.delay_s * 1e9)

    def close(self) -> None:
        self.is_open = False

    def _check(self) -> None:
        if not self.is_there:
            raise OSError(errno.EIO, "is gone")


def test_ten_minutes_with_an_unplug_every_minute_is_accounted_for_to_the_sample() -> None:
    wire = Wire()
    clock = ServiceClock()
    stream = Stream("lab", "pi5", "tc66", MODEL, "measured", clock.timeline_id, None, PERIOD_NS)
    source = Tc66cSource(stream, GivenTransport(wire.open), clock, pacing=Pacing(lambda: wire.now_ns, wire.sleep))
    readings: list[Reading] = []
    while wire.now_ns < 585_000_000_000:
        readings += source.read(0.2) or []
    times = [reading.t_ns for reading in readings]
    counts = source.counts
    assert wire.openings == counts.gaps + 1 == 10
    assert counts.rejected == {"after_opening": 10}
    assert all(a < b for a, b in pairwise(times))
    assert len(readings) + counts.lost_samples == pytest.approx((times[-1] - times[0]) / PERIOD_NS + 1, abs=1)
    assert len(readings) > 0.97 * 585 * PLUGGED_S / (PLUGGED_S + AWAY_S) * 10
    source.close()
    assert not wire.is_open


def test_a_host_that_was_busy_leaves_a_counted_gap() -> None:
    wire = Wire()
    clock = ServiceClock()
    stream = Stream("lab", "pi5", "tc66", MODEL, "measured", clock.timeline_id, None, PERIOD_NS)
    source = Tc66cSource(stream, GivenTransport(wire.open), clock, pacing=Pacing(lambda: wire.now_ns, wire.sleep))
    while wire.now_ns < 5_000_000_000:
        source.read(0.2)
    assert (source.counts.lost_samples, source.counts.gaps) == (0, 0)
    wire.sleep(1.0)
    while wire.now_ns < 10_000_000_000:
        source.read(0.2)
    assert source.counts.gaps == 1
    assert source.counts.lost_samples == pytest.approx(10, abs=1)


def test_the_energy_counter_agrees_with_the_integral_to_its_step() -> None:
    wire = Wire()
    clock = ServiceClock()
    stream = Stream("lab", "pi5", "tc66", MODEL, "measured", clock.timeline_id, None, PERIOD_NS)
    source = Tc66cSource(stream, GivenTransport(wire.open), clock, pacing=Pacing(lambda: wire.now_ns, wire.sleep))
    readings: list[Reading] = []
    while wire.now_ns < 45_000_000_000:
        wire.device.supply = lambda: (5.12, 0.3 + wire.now_ns % 7 / 10)
        readings += source.read(0.2) or []
    integral_j = sum(a.power_w * (b.t_ns - a.t_ns) / 1e9 for a, b in pairwise(readings))
    counted_j = (readings[-1].energy_counter_j or 0.0) - (readings[0].energy_counter_j or 0.0)
    assert counted_j > 50
    assert counted_j == pytest.approx(integral_j, abs=3.7)
