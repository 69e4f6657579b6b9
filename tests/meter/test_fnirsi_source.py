"""The FNIRSI source on a clock that only waiting moves: real frames, and everything that a meter can do wrong."""

import errno
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import pytest

from clock import ServiceClock
from errors import SettingsError
from meter.protocols.fnirsi import Command, SupplySample, command, encode_data, seal
from meter.readings import Reading, Source, Stream
from meter.sources.fnirsi import FnirsiSource
from meter.sources.fnirsi_intake import AFTER_OPENING
from meter.sources.pacing import Pacing
from meter.transports import UsbDevice

MS = 1_000_000
REPORT_NS = 40 * MS
CLOCK = ServiceClock(wall_minus_monotonic_ns=10**18, timeline_id="t1", boot_id="b1")
STREAM = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, 10 * MS)
FNB58 = (0x2E3C, 0x5558)
C1 = (0x0483, 0x003B)
INFO = seal((b"\xaa\x03" + bytes.fromhex("3a004400e2010000") + bytes(6)).ljust(63, b"\0"))


class Clock(Protocol):
    now_ns: int

    def monotonic_ns(self) -> int: ...

    def sleep(self, duration_s: float) -> None: ...


def report_of(number: int) -> bytes:
    """Four samples that no other report has."""
    return encode_data([SupplySample(500_000 + 4 * number + each, 60_000) for each in range(4)])


@dataclass
class FakeMeter:
    """A meter of family B on the fake clock; what goes wrong is switched on by its fields."""

    clock: Clock
    ids: tuple[int, int] = FNB58
    plugged: bool = True
    node: int = 0
    starts_on: tuple[Command, ...] = (Command.START,)
    """What must end the commands that it has got before it streams; nothing: it streams all the time."""
    needs_continue_ns: int | None = None
    """It falls silent when CONTINUE is older."""
    frozen: bool = False
    report: Callable[[int], Sequence[bytes]] = lambda number: [report_of(number)]
    """What is sent in each slot of 40 ms: one report, several, none."""
    fails: Callable[[str], bool] = lambda what: False
    """Whether this read, write or open fails, as on unplugging."""
    sent: list[tuple[int, int]] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    closed: int = 0
    number: int = 0
    streamed: int = 0

    def __post_init__(self) -> None:
        self.next_ns = self.clock.now_ns
        self.queue: deque[bytes] = deque()
        self.got: list[int] = []
        self.streaming = False

    def open(self) -> "FakeTransport":
        if not self.plugged or self.fails("open"):
            raise OSError(errno.ENODEV, "no FNIRSI meter is plugged in")
        self.opened.append(self.clock.now_ns)
        self.queue.clear()
        return FakeTransport(self, UsbDevice(f"/dev/hidraw{self.node}", self.ids, "S1"))

    def take(self, frame: bytes) -> None:
        assert len(frame) == 64
        assert frame == command(Command(frame[1])), "only sound commands that are known to be harmless"
        self.sent.append((self.clock.now_ns, frame[1]))
        self.got.append(frame[1])
        if tuple(self.got[-len(self.starts_on) :]) == self.starts_on:
            self.streaming = True
        if frame[1] == Command.IDENTIFY:
            self.queue.append(INFO)

    def work(self) -> None:
        """Send what is due by now."""
        while self.next_ns <= self.clock.now_ns:
            if self.is_awake():
                self.queue.extend(self.report(self.number))
                self.streamed += 1
            self.number += 1
            self.next_ns += REPORT_NS

    def is_awake(self) -> bool:
        kept = self.sent[-1][0] if self.sent else 0
        starved = self.needs_continue_ns is not None and self.next_ns - kept > self.needs_continue_ns
        return self.plugged and not self.frozen and not starved and (self.streaming or not self.starts_on)

    def unplug(self) -> None:
        self.plugged = self.streaming = False
        self.got.clear()

    def plug_in(self) -> None:
        self.plugged = True
        self.node += 1
        self.next_ns = self.clock.now_ns + 11 * MS

    def commands(self) -> list[int]:
        return [which for _, which in self.sent]


@dataclass
class FakeTransport:
    meter: FakeMeter
    device: UsbDevice
    is_closed: bool = False

    def read(self, timeout_s: float) -> bytes:
        assert not self.is_closed
        self._check("read")
        meter, end_ns = self.meter, self.meter.clock.now_ns + round(timeout_s * 1e9)
        meter.work()
        while not meter.queue and meter.clock.now_ns < end_ns:
            meter.clock.now_ns = min(end_ns, meter.next_ns)
            meter.work()
        return meter.queue.popleft() if meter.queue else b""

    def write(self, report: bytes) -> None:
        assert not self.is_closed
        self._check("write")
        self.meter.take(report)

    def close(self) -> None:
        self.is_closed = True
        self.meter.closed += 1

    def _check(self, what: str) -> None:
        gone = not self.meter.plugged or self.device.node != f"/dev/hidraw{self.meter.node}"
        if gone or self.meter.fails(what):
            raise OSError(errno.EIO, "read error")


def source_of(meter: FakeMeter, **options: float) -> FnirsiSource:
    pacing = Pacing(meter.clock.monotonic_ns, meter.clock.sleep)
    return FnirsiSource(STREAM, meter.open, CLOCK, pacing=pacing, keep_alive_s=options.get("keep_alive_s"))


def read_for(source: Source, meter: FakeMeter, duration_s: float) -> list[Reading]:
    end_ns = meter.clock.now_ns + round(duration_s * 1e9)
    readings: list[Reading] = []
    while meter.clock.now_ns < end_ns:
        before_ns = meter.clock.now_ns
        readings += source.read(0.2) or []
        assert meter.clock.now_ns - before_ns < 5.5e9, "a read is bounded, even when it drains"
    return readings


def steps_ms(readings: Sequence[Reading]) -> list[float]:
    return [(later.t_ns - earlier.t_ns) / MS for earlier, later in pairwise(readings)]


def test_samples_come_bit_exact_100_a_second_with_times_of_the_monotonic_clock(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time)
    source = source_of(meter)
    readings = read_for(source, meter, 10)
    first = round((readings[0].voltage_v or 0) * 100_000) - 500_000
    assert [reading.voltage_v for reading in readings] == [
        (500_000 + first + row) / 100_000 for row in range(len(readings))
    ]
    assert all(reading.power_w == (500_000 + first + row) * 60_000 / 10**10 for row, reading in enumerate(readings))
    assert steps_ms(readings) == pytest.approx([10] * (len(readings) - 1), abs=0.01)
    assert len(readings) == pytest.approx(970, abs=10)
    assert readings[-1].t_ns == pytest.approx(CLOCK.at_ns(fake_time.now_ns), abs=40 * MS)


def test_the_first_reports_after_opening_are_dropped_and_counted(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time)
    source = source_of(meter)
    readings = read_for(source, meter, 3)
    assert source.counts.rejected == {"after_opening": AFTER_OPENING}
    assert source.counts.lost_samples == 0
    assert len(readings) + 4 * AFTER_OPENING == 4 * meter.streamed


def test_only_three_harmless_commands_are_ever_sent_whatever_happens(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time)
    source = source_of(meter)
    read_for(source, meter, 5)
    meter.frozen = True
    read_for(source, meter, 120)
    meter.unplug()
    read_for(source, meter, 20)
    meter.frozen = False
    meter.plug_in()
    read_for(source, meter, 20)
    source.close()
    assert set(meter.commands()) == {0x81, 0x82, 0x83}  # the fake refuses anything else as well


def test_the_meter_is_online_only_while_valid_samples_flow(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, starts_on=(Command.CONTINUE,) * 99)
    source = source_of(meter)
    assert not source.health.connected
    read_for(source, meter, 1)
    assert not source.health.connected, "open is not connected"
    assert "no data yet" in source.health.detail
    meter.streaming = True
    read_for(source, meter, 3)
    health = source.health
    assert (health.connected, health.detail, health.node, health.model) == (True, "", "/dev/hidraw0", "FNB58")
    assert (health.serial, health.firmware, health.temperature_c) == ("S1", "0.68", 25.0)
    assert health.rate_hz == pytest.approx(100, rel=0.01)
    meter.frozen = True
    read_for(source, meter, 1.2)
    assert not source.health.connected


def test_a_meter_that_is_unplugged_is_found_again_under_another_node_and_the_absence_is_a_gap(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time)
    source = source_of(meter)
    before = read_for(source, meter, 5)
    meter.unplug()
    during = read_for(source, meter, 30)
    health = source.health
    assert (health.connected, health.detail, health.node) == (False, "no FNIRSI meter is plugged in", None)
    meter.plug_in()
    after = read_for(source, meter, 20)
    assert during == []
    assert source.health.node == "/dev/hidraw1"
    assert source.health.reopened == 1
    gap_ms = (after[0].t_ns - before[-1].t_ns) / MS
    assert gap_ms > 30_000
    assert source.counts.gaps == 1
    assert source.counts.lost_samples == pytest.approx(gap_ms / 10 - 1, abs=3)


def test_every_sample_of_an_hour_with_absences_is_either_there_or_counted_as_lost(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, report=lambda number: [] if number % 331 == 0 else [report_of(number % 500_000)])
    source = source_of(meter)
    readings: list[Reading] = []
    for _ in range(6):
        readings += read_for(source, meter, 540)
        meter.unplug()
        readings += read_for(source, meter, 60)
        meter.plug_in()
    counts = source.counts
    slots = (readings[-1].t_ns - readings[0].t_ns) / (10 * MS) + 1
    assert len(readings) + counts.lost_samples == pytest.approx(slots, abs=4 * 5)  # each replug shifts the phase
    assert counts.gaps == sum(step > 15 for step in steps_ms(readings))
    assert source.health.reopened == 5


@pytest.mark.parametrize("what", ["read", "write", "open"])
@pytest.mark.parametrize("call", [1, 2, 3, 5, 8, 20, 40, 60, 100])
def test_unplugging_at_any_instant_is_survived(fake_time: Clock, what: str, call: int) -> None:
    calls = dict.fromkeys(["read", "write", "open"], 0)

    def fails(this: str) -> bool:
        calls[this] += 1
        if this == what and calls[this] == call:
            meter.unplug()
            meter.plug_in()
            return True
        return False

    meter = FakeMeter(fake_time, fails=fails)
    source = source_of(meter, keep_alive_s=0.1)
    readings = read_for(source, meter, 25)
    assert all(step > 0 for step in steps_ms(readings))
    assert source.health.connected
    assert len(readings) > 2000
    source.close()
    assert meter.closed == len(meter.opened), "no descriptor is left open"


def test_a_stale_first_report_reaches_nobody_with_or_without_a_valid_crc(fake_time: Clock) -> None:
    stale = encode_data([SupplySample(18_874_370, 17_039_408, 51_840, 0, 0)] * 4)
    odd = {8: [stale], 9: [stale[:-1] + b"\0"], 10: [stale], 11: [stale]}
    meter = FakeMeter(fake_time, report=lambda number: odd.get(number, [report_of(number)]))
    source = source_of(meter)
    readings = read_for(source, meter, 5)
    assert max(reading.power_w for reading in readings) < 3.1
    assert source.counts.rejected == {"implausible": 3, "bad_crc": 1, "after_opening": AFTER_OPENING}


def test_stale_reports_of_a_meter_that_is_opened_again_reach_nobody_however_sound_they_look(fake_time: Clock) -> None:
    stale = encode_data([SupplySample(1_000_000, 300_000)] * 4)
    again: list[int] = []

    def report(number: int) -> list[bytes]:
        if meter.node == 0 or len(again) == AFTER_OPENING:
            return [report_of(number)]
        again.append(number)
        return [stale]

    meter = FakeMeter(fake_time, report=report)
    source = source_of(meter)
    readings = read_for(source, meter, 5)
    meter.unplug()
    readings += read_for(source, meter, 2)
    meter.plug_in()
    readings += read_for(source, meter, 10)
    assert len(again) == AFTER_OPENING
    assert max(reading.power_w for reading in readings) < 5
    assert source.counts.rejected == {"after_opening": 2 * AFTER_OPENING}


def test_what_streams_after_the_meter_was_woken_has_a_phase_of_its_own(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, starts_on=())
    source = source_of(meter)
    read_for(source, meter, 5)
    shift_from = meter.number
    meter.next_ns += 4_020 * MS  # it is silent, and goes on half a period later
    readings = read_for(source, meter, 10)
    numbers = [round((reading.voltage_v or 0) * 100_000) - 500_000 for reading in readings]
    zero_ns = CLOCK.at_ns(meter.next_ns) - meter.number * REPORT_NS
    late_ms = [
        (reading.t_ns - zero_ns - number // 4 * REPORT_NS) / MS
        for reading, number in zip(readings, numbers, strict=True)
        if number % 4 == 3 and number // 4 >= shift_from
    ]
    assert len(late_ms) > 100
    assert late_ms == pytest.approx([0] * len(late_ms), abs=0.5)


def test_the_mean_of_a_meter_that_interpolates_three_of_four_is_that_of_its_measurements(fake_time: Clock) -> None:
    chance = random.Random(3)
    measured = [chance.randrange(20_000, 200_000) for _ in range(3000)]

    def report(number: int) -> list[bytes]:
        begin, end = measured[number], measured[number + 1]
        return [encode_data([SupplySample(500_000, begin + (end - begin) * part // 4) for part in range(4)])]

    meter = FakeMeter(fake_time, report=report)
    readings = read_for(source_of(meter), meter, 100)
    currents = [reading.current_a or 0.0 for reading in readings]
    first = measured.index(round(currents[0] * 100_000))
    count = len(currents) // 4
    mean = sum(measured[first : first + count]) / count / 100_000
    assert sum(currents[: 4 * count]) / (4 * count) == pytest.approx(mean, rel=1e-3)


def test_a_damaged_report_is_counted_and_its_samples_are_lost_not_filled(fake_time: Clock) -> None:
    def report(number: int) -> list[bytes]:
        return [report_of(number)[:-1] + b"\0"] if number in (60, 61, 90) else [report_of(number)]

    meter = FakeMeter(fake_time, report=report)
    source = source_of(meter)
    readings = read_for(source, meter, 6)
    assert source.counts.rejected["bad_crc"] == 3
    assert (source.counts.lost_samples, source.counts.gaps) == (12, 2)
    assert sorted(steps_ms(readings))[-2:] == pytest.approx([50, 90], abs=0.1)


def test_a_lost_report_is_counted_exactly(fake_time: Clock) -> None:
    missing = {100, 101, 130, 200}
    meter = FakeMeter(fake_time, report=lambda number: [] if number in missing else [report_of(number)])
    source = source_of(meter)
    read_for(source, meter, 12)
    assert (source.counts.lost_samples, source.counts.gaps) == (16, 3)
    assert source.counts.rejected == {"after_opening": AFTER_OPENING}


def test_reports_of_other_types_short_ones_and_rubbish_disturb_no_sample(fake_time: Clock) -> None:
    junk = [INFO, seal(b"\xaa\x07" + bytes(61)), command(Command.IDENTIFY), bytes(64), b"\xaa\x04" + bytes(28)]
    meter = FakeMeter(
        fake_time, report=lambda number: [*junk, report_of(number)] if number > 50 else [report_of(number)]
    )
    source = source_of(meter)
    readings = read_for(source, meter, 6)
    counts = source.counts
    assert steps_ms(readings) == pytest.approx([10] * (len(readings) - 1), abs=0.1)
    assert set(counts.rejected) == {"after_opening", "not_a_report", "wrong_length"}
    assert set(counts.ignored) == {"type_07", "type_81"}
    assert counts.ignored["type_07"] == counts.rejected["wrong_length"] == pytest.approx(98, abs=2)
    assert counts.lost_samples == 0


def test_firmware_that_freezes_at_a_keep_alive_of_one_second_is_woken_and_stays_awake(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, needs_continue_ns=500 * MS)
    source = source_of(meter)
    read_for(source, meter, 5)
    lost = source.counts.lost_samples
    assert lost > 0
    readings = read_for(source, meter, 60)
    assert len(readings) == pytest.approx(6000, abs=10)
    assert source.counts.lost_samples == lost, "one stall was enough to learn it"
    assert len(meter.opened) == 1


def test_a_keep_alive_interval_that_is_set_keeps_such_firmware_awake_from_the_start(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, needs_continue_ns=500 * MS)
    source = source_of(meter, keep_alive_s=0.25)
    read_for(source, meter, 30)
    assert source.counts.lost_samples == 0


@pytest.mark.parametrize("ids", [FNB58, C1])
def test_a_meter_that_understands_the_other_family_only_is_found_out(fake_time: Clock, ids: tuple[int, int]) -> None:
    other = Command.CONTINUE if ids == FNB58 else Command.START
    meter = FakeMeter(fake_time, ids=ids, starts_on=(Command.IDENTIFY, Command.START, other))
    # a wake-up of family B is the start sequence of both; so the C1 streams earlier than the FNB58
    source = source_of(meter)
    assert read_for(source, meter, 40)
    assert source.health.connected
    assert source.health.model == ("FNB58" if ids == FNB58 else "C1")


def test_the_family_is_that_of_the_model_that_is_found(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, ids=C1, starts_on=(Command.IDENTIFY, Command.START, Command.CONTINUE))
    source = source_of(meter)
    read_for(source, meter, 3)
    assert meter.commands()[:3] == [0x81, 0x82, 0x83]
    assert source.health.connected


def test_a_meter_that_streams_already_is_read_at_once(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, starts_on=())
    source = source_of(meter)
    assert len(read_for(source, meter, 3)) > 250
    assert source.counts.lost_samples == 0
    assert set(meter.commands()) == {Command.CONTINUE}, "IDENTIFY might restart it"


def test_a_frozen_meter_is_told_to_the_operator_and_tried_for_ever(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, frozen=True)
    source = source_of(meter)
    read_for(source, meter, 120)
    assert "unplug" in source.health.detail
    opened = len(meter.opened)
    read_for(source, meter, 3600)
    assert len(meter.opened) - opened > 150
    meter.frozen = False
    assert read_for(source, meter, 25)
    assert source.health.connected
    assert meter.closed == len(meter.opened) - 1


def test_writes_that_fail_now_and_then_are_repeated(fake_time: Clock) -> None:
    writes = iter(range(10**6))
    meter = FakeMeter(fake_time, fails=lambda what: what == "write" and next(writes) % 3 != 0)
    source = source_of(meter)
    assert len(read_for(source, meter, 10)) > 800
    assert len(meter.opened) == 1


def test_a_meter_that_takes_no_commands_is_opened_again_with_pauses(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, fails=lambda what: what == "write")
    source = source_of(meter)
    read_for(source, meter, 120)
    assert 10 < len(meter.opened) < 30
    assert "takes no commands" in source.health.detail
    assert meter.closed == len(meter.opened)


def test_what_the_operator_must_do_stands_in_the_detail_and_the_source_waits(fake_time: Clock) -> None:
    def refuse() -> FakeTransport:
        raise SettingsError("another program reads the meter at /dev/hidraw0: stop one of the two")

    source = FnirsiSource(STREAM, refuse, CLOCK, pacing=Pacing(fake_time.monotonic_ns, fake_time.sleep))
    before_ns = fake_time.now_ns
    assert source.read(0.2) == []
    assert fake_time.now_ns - before_ns == pytest.approx(200 * MS, abs=1)
    assert "another program" in source.health.detail


@pytest.mark.parametrize("stall_s", [0.4, 1.1, 2.4])
def test_a_host_that_sleeps_finds_its_samples_where_they_were_taken(fake_time: Clock, stall_s: float) -> None:
    meter = FakeMeter(fake_time)
    source = source_of(meter)
    readings = read_for(source, meter, 5)
    fake_time.now_ns += round(stall_s * 1e9)
    readings += read_for(source, meter, 5)
    assert source.counts.lost_samples == 0
    assert steps_ms(readings) == pytest.approx([10] * (len(readings) - 1), abs=1)
    assert len([which for which in meter.commands() if which == Command.CONTINUE]) < 20, "it was no stall of the meter"


def test_a_meter_that_always_says_the_same_is_not_stuck(fake_time: Clock) -> None:
    same = encode_data([SupplySample(512_345, 0)] * 4)
    meter = FakeMeter(fake_time, report=lambda number: [same])
    source = source_of(meter)
    readings = read_for(source, meter, 30)
    assert len(readings) > 2900
    assert {reading.power_w for reading in readings} == {0}
    assert source.health.new_values_hz == 0
    assert source.health.rate_hz == pytest.approx(100, rel=0.01)
    assert meter.closed == 0


def test_stopping_sends_nothing_and_reads_until_the_meter_is_silent(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time, needs_continue_ns=1100 * MS)
    source = source_of(meter)
    read_for(source, meter, 5)
    sent, before_ns = len(meter.sent), fake_time.now_ns
    source.close()
    assert len(meter.sent) == sent
    assert not meter.queue
    assert 1.0 < (fake_time.now_ns - before_ns) / 1e9 < 2.5
    assert meter.closed == 1
    source.close()
    assert meter.closed == 1


def test_stopping_is_over_after_five_seconds_when_the_silence_never_comes(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time)
    source = source_of(meter)
    read_for(source, meter, 5)
    before_ns = fake_time.now_ns
    source.close()
    assert 4.9 < (fake_time.now_ns - before_ns) / 1e9 < 5.1


def test_stopping_while_the_meter_is_away_is_no_error(fake_time: Clock) -> None:
    meter = FakeMeter(fake_time)
    source = source_of(meter)
    source.close()
    read_for(source, meter, 3)
    meter.unplug()
    source.close()
    assert meter.closed == 1


def test_a_device_that_speaks_another_protocol_is_named_as_that(
    fake_time: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    meter = FakeMeter(fake_time, report=lambda number: [b"\x5a" * 64])
    source = source_of(meter)
    assert read_for(source, meter, 60) == []
    health = source.health
    assert not health.connected
    assert health.detail.endswith("what it sends is refused: not_a_report")
    assert source.counts.rejected["not_a_report"] > 1000
    assert len(caplog.records) < 15, "a line for each change, not for each report"


def test_the_log_tells_each_change_once(fake_time: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    meter = FakeMeter(fake_time)
    source = source_of(meter)
    read_for(source, meter, 5)
    meter.unplug()
    read_for(source, meter, 600)
    meter.plug_in()
    read_for(source, meter, 30)
    assert [record.message.removeprefix("m1 of pi4: ").removeprefix("m1 of pi4 ") for record in caplog.records] == [
        "opened at /dev/hidraw0",
        "samples flow",
        "the meter has gone: read error",
        "no FNIRSI meter is plugged in",
        "opened at /dev/hidraw1",
        "samples flow",
        f"samples lost so far: {source.counts.lost_samples}, gaps: 1",
    ]
