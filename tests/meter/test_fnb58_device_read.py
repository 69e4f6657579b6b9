"""The simulated FNB58 read as a real one, through descriptor, protocol, recovery and timeline, with each of its faults.

Time is that of the lockstep: nobody waits.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from clock import ServiceClock
from meter.devices.faults import Faults, Span, every, some
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.lockstep import Lockstep, undelayed
from meter.devices.playback import play_back
from meter.devices.power import Measured, Power, constant, held
from meter.group import STOP_S
from meter.live import READ_TIMEOUT_S
from meter.readings import Reading, Stream
from meter.sources.fnirsi import FnirsiSource
from meter.sources.fnirsi_intake import AFTER_OPENING
from meter.sources.recording import read_recording

STREAM = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, 10_000_000)
CLOCK = ServiceClock(wall_minus_monotonic_ns=0, timeline_id="t1", boot_id=None)
POWER_W = 2.5
MINUTE_S = 60.0


class Desk:
    """A meter that is plugged in, and the service's reader of it."""

    def __init__(self, meter: Fnb58, delay_ns: Callable[[], int], keep_alive_s: float | None) -> None:
        self.meter = meter
        self.usb = Lockstep(self.meter, delay_ns)
        self.usb.plug_in()
        self.source = FnirsiSource(STREAM, self.usb.open, CLOCK, keep_alive_s=keep_alive_s, pacing=self.usb.pacing)

    def put_away(self) -> None:
        self.usb.unplug()
        self.source.close()

    def read(self, duration_s: float) -> list[Reading]:
        end_ns = self.usb.now_ns + round(duration_s * 1e9)
        readings: list[Reading] = []
        while self.usb.now_ns < end_ns:
            readings += self.source.read(0.2) or []
        return readings

    @property
    def lost(self) -> tuple[int, int]:
        """Lost samples and gaps."""
        return self.source.counts.lost_samples, self.source.counts.gaps


MakeDesk = Callable[..., Desk]


@pytest.fixture
def make_desk() -> Iterator[MakeDesk]:
    """Makes desks, and puts them away."""
    desks: list[Desk] = []

    def make(
        setup: Setup | None = None,
        faults: Faults | None = None,
        power: Power | None = None,
        delay_ns: Callable[[], int] = undelayed,
        keep_alive_s: float | None = None,
    ) -> Desk:
        desks.append(Desk(Fnb58(power or constant(POWER_W), setup, faults), delay_ns, keep_alive_s))
        return desks[-1]

    yield make
    for desk in desks:
        desk.put_away()


def increases(readings: Sequence[Reading]) -> bool:
    return all(before.t_ns < after.t_ns for before, after in pairwise(readings))


def test_a_minute_is_six_thousand_samples_on_their_grid(make_desk: MakeDesk) -> None:
    desk = make_desk()
    readings = desk.read(MINUTE_S)
    assert len(readings) == pytest.approx(6000, abs=40)
    assert {after.t_ns - before.t_ns for before, after in pairwise(readings)} <= {9_999_999, 10_000_000, 10_000_001}
    assert {round(reading.power_w, 3) for reading in readings} == {POWER_W}
    assert desk.lost == (0, 0)


def test_only_harmless_commands_are_ever_sent(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(patience_s=0.3), Faults(silent=(Span(5.0, 20.0),), frozen=(Span(30.0, 90.0),)))
    desk.read(3 * MINUTE_S)
    desk.source.close()
    assert set(desk.meter.heard) == {0x81, 0x82, 0x83}


@pytest.mark.parametrize("valid", [True, False])
def test_garbage_in_front_never_comes_through(make_desk: MakeDesk, valid: bool) -> None:
    desk = make_desk(faults=Faults(garbage_first=4, garbage_is_valid=valid))
    assert max(reading.power_w for reading in desk.read(MINUTE_S)) < POWER_W + 0.001
    assert desk.source.counts.rejected["implausible" if valid else "bad_crc"] == 4


@pytest.mark.parametrize(
    ("faults", "reason"), [(Faults(bad_crc=every(50)), "bad_crc"), (Faults(short=every(50)), "wrong_length")]
)
def test_a_damaged_report_is_counted_and_its_samples_are_a_gap(
    make_desk: MakeDesk, faults: Faults, reason: str
) -> None:
    desk = make_desk(faults=faults)
    desk.read(MINUTE_S)
    refused = desk.source.counts.rejected[reason]
    assert refused == pytest.approx(30, abs=1)
    assert desk.lost == (refused * 4, refused)


@pytest.mark.parametrize("faults", [Faults(information_before=every(7)), Faults(unknown_before=every(7))])
def test_other_reports_between_are_no_error(make_desk: MakeDesk, faults: Faults) -> None:
    desk = make_desk(faults=faults)
    assert len(desk.read(MINUTE_S)) == pytest.approx(6000, abs=40)
    assert (desk.source.counts.rejected, desk.lost) == ({"after_opening": AFTER_OPENING}, (0, 0))


def test_one_percent_of_reports_dropped_under_jitter_is_counted_exactly(make_desk: MakeDesk) -> None:
    draw = random.Random(5)
    desk = make_desk(faults=Faults(dropped=some(0.01, seed=2)), delay_ns=lambda: draw.randrange(30_000_000))
    readings = desk.read(5 * MINUTE_S)
    seen, measured = len(readings), desk.meter.measured
    lost, _ = desk.lost
    held_back = measured - seen - lost - 4 * AFTER_OPENING
    assert lost == pytest.approx(300, rel=0.3)
    assert 0 <= held_back <= 3 * 4
    assert increases(readings)


def test_a_pause_that_ends_in_a_burst_loses_nothing(make_desk: MakeDesk) -> None:
    desk = make_desk(faults=Faults(late=(Span(20.0, 20.4),)))
    readings = desk.read(MINUTE_S)
    assert desk.lost == (0, 0)
    assert increases(readings)


def test_a_stall_is_a_gap_as_long_as_it_was(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(keep_alive="never"), Faults(silent=(Span(20.0, 20.6),)))
    desk.read(MINUTE_S)
    assert desk.lost == (60, 1)


def test_a_slow_host_loses_what_its_queue_cannot_hold_and_counts_it(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(keep_alive="never"))
    desk.read(20.0)
    desk.usb.sleep(4.0)
    readings = desk.read(20.0)
    assert desk.usb.overflowed > 30
    assert desk.lost == (desk.usb.overflowed * 4, 1)
    assert increases(readings)


def test_a_host_that_sleeps_for_less_than_its_queue_loses_nothing(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(keep_alive="never"))
    desk.read(20.0)
    desk.usb.sleep(2.0)
    desk.read(20.0)
    assert (desk.usb.overflowed, desk.lost) == (0, (0, 0))


def test_a_meter_that_is_away_for_a_while_is_found_again_under_another_node(make_desk: MakeDesk) -> None:
    desk = make_desk()
    desk.usb.at(20.0, desk.usb.unplug)
    desk.usb.at(25.0, desk.usb.plug_in)
    before = desk.read(20.5)
    assert desk.source.health.connected is False
    after = desk.read(MINUTE_S)
    assert desk.source.health.connected
    assert (desk.source.health.node, desk.source.health.reopened) == ("/dev/hidraw1", 1)
    assert increases([*before, *after])
    assert desk.source.counts.gaps == 1


@pytest.mark.parametrize("at_s", [0.001, 0.06, 0.12, 0.5, 1.0, 1.3, 10.02])
def test_unplugging_at_any_instant_is_survived(make_desk: MakeDesk, at_s: float) -> None:
    desk = make_desk()
    desk.usb.at(at_s, desk.usb.unplug)
    desk.usb.at(at_s + 3.0, desk.usb.plug_in)
    readings = desk.read(MINUTE_S)
    assert len(readings) > 4000
    assert increases(readings)


def test_a_meter_that_is_not_there_is_waited_for(make_desk: MakeDesk) -> None:
    desk = make_desk()
    desk.usb.unplug()
    assert desk.read(MINUTE_S) == []
    assert desk.source.health.detail == "no simulated meter is plugged in"
    desk.usb.plug_in()
    assert len(desk.read(MINUTE_S)) > 4000


def test_a_meter_that_streams_already_is_read(make_desk: MakeDesk) -> None:
    desk = make_desk(faults=Faults(already_streaming=True))
    assert len(desk.read(MINUTE_S)) > 5900


def test_family_a_is_found_out_by_trying(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(family="A", keep_alive="each report"))
    desk.read(MINUTE_S)
    assert len(desk.read(MINUTE_S)) > 5500


def test_firmware_that_freezes_at_one_second_works_with_a_keep_alive_per_report(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(patience_s=0.5), Faults(freezes_without_keep_alive=True), keep_alive_s=0)
    assert len(desk.read(MINUTE_S)) > 5900


def test_a_meter_that_stops_without_a_fast_keep_alive_gets_one(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(patience_s=0.5))
    desk.read(MINUTE_S)
    assert len(desk.read(MINUTE_S)) > 5900


def test_a_meter_that_streams_by_itself_is_closed_in_the_time_that_the_service_gives_it(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(keep_alive="never"), Faults(already_streaming=True))
    desk.read(MINUTE_S)
    told_ns = desk.usb.now_ns
    desk.source.read(READ_TIMEOUT_S)
    desk.source.close()
    assert 4.0 < (desk.usb.now_ns - told_ns) / 1e9 < STOP_S - 1.0


def test_start_frames_are_far_enough_apart(make_desk: MakeDesk) -> None:
    desk = make_desk(faults=Faults(crashes_below_gap_s=0.025))
    assert len(desk.read(MINUTE_S)) > 5900


def test_a_meter_that_81_restarts_is_started_without_it(make_desk: MakeDesk) -> None:
    desk = make_desk(faults=Faults(deaf_after_81_s=3.0))
    assert len(desk.read(MINUTE_S)) > 4000


def test_frozen_firmware_is_reported_and_read_again_after_a_replug(make_desk: MakeDesk) -> None:
    desk = make_desk(faults=Faults(frozen=(Span(40.0, 1e6),)))
    desk.read(2 * MINUTE_S)
    assert desk.source.health.connected is False
    assert "unplug" in desk.source.health.detail
    desk.usb.unplug()
    desk.usb.plug_in()
    assert any(desk.read(1.0) for _ in range(30))
    assert set(desk.meter.heard) == {0x81, 0x82, 0x83}


def test_stopping_ends_soon_whether_the_meter_falls_silent_or_never_does(make_desk: MakeDesk) -> None:
    for setup, longest_s in ((Setup(patience_s=1.5), 3.0), (Setup(keep_alive="never"), 5.5)):
        desk = make_desk(setup)
        desk.read(10.0)
        before_ns = desk.usb.now_ns
        desk.source.close()
        assert (desk.usb.now_ns - before_ns) / 1e9 < longest_s


def test_held_values_are_not_taken_for_a_stuck_meter_and_are_counted_as_no_news(make_desk: MakeDesk) -> None:
    draw = random.Random(1)
    power = held(lambda _t_ns: Measured(510_000, draw.randrange(10_000, 90_000)), 10)
    desk = make_desk(power=power)
    desk.read(MINUTE_S)
    assert desk.source.health.rate_hz == pytest.approx(100, rel=0.01)
    assert desk.source.health.new_values_hz == pytest.approx(10, rel=0.05)


def test_no_current_and_all_equal_values_are_fine(make_desk: MakeDesk) -> None:
    desk = make_desk(Setup(temperature_c=-5.0), power=lambda _t_ns: Measured(0, 0))
    assert {reading.power_w for reading in desk.read(MINUTE_S)} == {0.0}
    assert (desk.source.health.connected, desk.source.health.temperature_c) == (True, 0.0)


@pytest.mark.parametrize("reports_per_s", [25.0, 100.0, 1000.0])
def test_values_come_back_bit_exact_at_the_resolution_of_the_protocol(reports_per_s: float) -> None:
    draw = random.Random(3)
    values_w = [draw.randrange(509_500, 510_500) * draw.randrange(1, 110_000) / 10**10 for _ in range(1001)]
    readings = play_back(values_w, reports_per_s)
    assert [round(reading.power_w * 1e10) for reading in readings] == [round(value * 1e10) for value in values_w]
    assert increases(readings)


@pytest.mark.recordings
@pytest.mark.parametrize("board", ["pi1", "pi4", "pizero"])
def test_a_real_recording_comes_back_bit_exact_through_the_protocol(recordings: Path, board: str) -> None:
    values_w = read_recording(sorted((recordings / board).glob("*.cfn"))[1]).power_w
    readings = play_back(values_w)
    assert [round(reading.power_w * 1e10) for reading in readings] == [round(value * 1e10) for value in values_w]
