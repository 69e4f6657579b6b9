"""The simulated FNB58 by itself: when it streams, when it stops, and each of its fault switches."""

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest

from meter.devices.faults import Faults, Span, every, some
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.fnb58_reports import data_report
from meter.devices.power import Measured, constant, replay
from meter.protocols.fnirsi import Command, DataReport, InfoReport, OtherReport, Refused, command, decode

MS_NS = 1_000_000
REPORT_NS = 40 * MS_NS
PLUGGED_NS = 5_000_000_000
START_B = (Command.IDENTIFY, Command.START, Command.START)
START_A = (Command.IDENTIFY, Command.START, Command.CONTINUE)


class Bench:
    """A meter that is plugged in, and a host that says what it is told to say."""

    def __init__(self, setup: Setup | None = None, faults: Faults | None = None) -> None:
        self.now_ns = PLUGGED_NS
        self.meter = Fnb58(constant(2.5), setup, faults)
        self.meter.plug_in(self.now_ns)

    def tell(self, *commands: Command, gap_s: float = 0.05) -> list[bytes]:
        """Its reports until the gap after the last command is over."""
        said: list[bytes] = []
        for each in commands:
            self.meter.hear(command(each), self.now_ns)
            said += self.listen(gap_s)
        return said

    def listen(self, duration_s: float, keep_alive_s: float = math.inf) -> list[bytes]:
        """Its reports of so much time, looked for every ms."""
        said: list[bytes] = []
        for _ in range(round(duration_s * 1000)):
            self.now_ns += MS_NS
            said += self.meter.say(self.now_ns)
            if (self.now_ns - PLUGGED_NS) / 1e9 % keep_alive_s < 0.001:
                self.meter.hear(command(Command.CONTINUE), self.now_ns)
        return said


def kinds(reports: list[bytes]) -> Iterator[str]:
    for report in reports:
        said = decode(report)
        yield said.reason if isinstance(said, Refused) else type(said).__name__


def count_data(reports: list[bytes]) -> int:
    return [*kinds(reports)].count("DataReport")


def started(faults: Faults | None = None, keep_alive_s: float = 1.0, duration_s: float = 4.0) -> list[str]:
    bench = Bench(faults=faults)
    said = bench.tell(*START_B) + bench.listen(duration_s, keep_alive_s)
    return [*kinds(said)]


def test_a_data_report_is_the_published_vector() -> None:
    samples = [Measured(512_345 + k, 61_234 + 10 * k) for k in range(4)]
    assert data_report(samples, 27.3).hex() == (
        "aa0459d1070032ef0000580259020111015ad107003cef0000580259020111015bd1070046ef0000580259020111015cd1070050ef"
        "000058025902011101000b"
    )


def test_it_says_nothing_until_it_is_started_and_then_25_reports_a_second() -> None:
    bench = Bench()
    assert bench.listen(2.0) == []
    said = [*kinds(bench.tell(*START_B) + bench.listen(10.0 - 0.1, keep_alive_s=1.0))]
    assert said[0] == "InfoReport"
    assert said.count("DataReport") == pytest.approx(250, abs=1)


def test_samples_are_one_period_apart_whatever_the_host_does() -> None:
    bench = Bench()
    moments_ns: list[int] = []

    def power(t_ns: int) -> Measured:
        moments_ns.append(t_ns)
        return Measured(510_000, 0)

    bench.meter = Fnb58(power, Setup(sample_period_ns=2_500_000))
    bench.meter.plug_in(PLUGGED_NS)
    bench.tell(*START_B)
    bench.now_ns += 77_777_777
    bench.meter.say(bench.now_ns)
    assert {after - before for before, after in pairwise(moments_ns)} == {2_500_000}
    assert len(moments_ns) > 30


def test_its_information_tells_the_firmware() -> None:
    (said,) = Bench(Setup(firmware=0.68)).tell(Command.IDENTIFY)
    assert decode(said) == InfoReport("0.68")


@pytest.mark.parametrize("missing", range(3))
def test_a_start_sequence_with_a_frame_missing_starts_family_a_not_at_all(missing: int) -> None:
    bench = Bench(Setup(family="A"))
    frames = [each for number, each in enumerate(START_A) if number != missing]
    assert count_data(bench.tell(*frames) + bench.listen(1.0)) == 0


def test_the_other_familys_start_sequence_does_not_start_family_a() -> None:
    bench = Bench(Setup(family="A"))
    assert count_data(bench.tell(*START_B) + bench.listen(1.0)) == 0
    assert count_data(bench.tell(*START_A) + bench.listen(1.0)) > 20


def test_without_identification_nothing_starts() -> None:
    bench = Bench()
    assert bench.tell(Command.START, Command.START) + bench.listen(1.0) == []


def test_without_keep_alive_it_stops_after_its_patience() -> None:
    bench = Bench(Setup(patience_s=1.5))
    bench.tell(*START_B)
    assert count_data(bench.listen(5.0)) == pytest.approx(1.5 * 25, abs=2)
    assert not bench.meter.is_streaming
    bench.tell(Command.CONTINUE)
    assert bench.meter.is_streaming


def test_a_meter_that_never_needs_a_keep_alive_is_never_silent() -> None:
    bench = Bench(Setup(keep_alive="never"))
    bench.tell(*START_B)
    assert count_data(bench.listen(60.0)) == 1500


def test_a_meter_that_needs_one_per_report_sends_one_report_for_each() -> None:
    bench = Bench(Setup(family="A", keep_alive="each report"))
    bench.tell(*START_A)
    assert count_data(bench.listen(10.0)) <= 1
    assert count_data(bench.listen(10.0, keep_alive_s=1.0)) == pytest.approx(10, abs=1)


@pytest.mark.parametrize("frame", [b"", bytes(64), command(Command.START)[:63], b"\0" + command(Command.START)[:63]])
def test_what_is_no_frame_is_not_heeded(frame: bytes) -> None:
    bench = Bench()
    bench.tell(Command.IDENTIFY)
    bench.meter.hear(frame, bench.now_ns)
    assert bench.listen(0.5) == []
    assert bench.meter.heard == {Command.IDENTIFY: 1, None: 1}


def test_a_command_with_a_wrong_checksum_is_not_heeded() -> None:
    bench = Bench()
    bench.tell(Command.IDENTIFY)
    frame = command(Command.START)
    bench.meter.hear(frame[:-1] + bytes([frame[-1] ^ 1]), bench.now_ns)
    assert bench.listen(0.5) == []


def test_after_unplugging_it_knows_nothing_of_before() -> None:
    bench = Bench()
    bench.tell(*START_B)
    bench.meter.plug_in(bench.now_ns)
    assert bench.listen(1.0) == []


def test_nobody_there_to_read_loses_reports_and_nothing_is_said_late() -> None:
    bench = Bench(Setup(keep_alive="never"))
    bench.tell(*START_B)
    bench.now_ns += 10_000_000_000
    bench.meter.skip_to(bench.now_ns)
    assert count_data(bench.listen(0.4)) == pytest.approx(10, abs=1)


@pytest.mark.parametrize("valid", [True, False])
def test_garbage_comes_first_with_or_without_a_right_checksum(valid: bool) -> None:
    said = started(Faults(garbage_first=2, garbage_is_valid=valid))
    assert said[:4] == ["InfoReport", *["implausible" if valid else "bad_crc"] * 2, "DataReport"]


@pytest.mark.parametrize(
    ("faults", "kind", "share"),
    [
        (Faults(bad_crc=every(10)), "bad_crc", 0.1),
        (Faults(short=every(10)), "wrong_length", 0.1),
        (Faults(unknown_before=every(10)), "OtherReport", 0.1),
        (Faults(information_before=every(5)), "InfoReport", 0.2),
    ],
)
def test_damaged_and_foreign_reports_come_as_often_as_told(faults: Faults, kind: str, share: float) -> None:
    assert started(faults, duration_s=40.0).count(kind) == pytest.approx(1000 * share, abs=2)


def test_dropped_and_duplicated_reports_come_as_often_as_told() -> None:
    assert started(Faults(dropped=some(0.25, seed=1)), duration_s=40.0).count("DataReport") == pytest.approx(
        750, abs=45
    )
    assert started(Faults(duplicated=every(10)), duration_s=40.0).count("DataReport") == pytest.approx(1100, abs=4)


def test_a_dropped_report_takes_its_samples_with_it() -> None:
    meter = Fnb58(replay([k / 10_000 for k in range(1, 13)]), faults=Faults(dropped=lambda number: number == 1))
    meter.plug_in(0)
    for each in START_B:
        meter.hear(command(each), 0)
    reports = [decode(report) for report in meter.say(3 * REPORT_NS)]
    powers_w = [sample.power_w for report in reports if isinstance(report, DataReport) for sample in report.samples]
    assert powers_w == [k / 10_000 for k in (1, 2, 3, 4, 9, 10, 11, 12)]
    assert meter.measured == 12


def test_a_silent_stretch_is_lost_and_a_late_one_comes_in_one_burst() -> None:
    silent, late = (
        Bench(Setup(keep_alive="never"), faults)
        for faults in (Faults(silent=(Span(1.0, 1.4),)), Faults(late=(Span(1.0, 1.4),)))
    )
    for bench in (silent, late):
        bench.tell(*START_B)
        bench.listen(0.85)
        assert bench.listen(0.39) == []
    burst, nothing = late.listen(0.01), silent.listen(0.01)
    assert (count_data(burst), count_data(nothing)) == (10, 0)
    assert count_data(late.listen(0.4)) == count_data(silent.listen(0.4)) == 10


def test_frozen_firmware_takes_frames_heeds_none_and_comes_back_if_told_to() -> None:
    bench = Bench(faults=Faults(frozen=(Span(1.0, 3.0),)))
    bench.tell(*START_B)
    bench.listen(0.9)
    assert bench.tell(*START_B) + bench.listen(1.0, keep_alive_s=0.1) == []
    bench.listen(1.0)
    assert count_data(bench.tell(*START_B)) > 0


def test_late_keep_alives_freeze_firmware_0_68_until_it_is_plugged_in_again() -> None:
    bench = Bench(Setup(patience_s=0.1), Faults(freezes_without_keep_alive=True))
    bench.tell(*START_B)
    bench.listen(1.0)
    assert bench.meter.is_frozen
    assert bench.tell(*START_B) == []
    bench.meter.plug_in(bench.now_ns)
    assert count_data(bench.tell(*START_B)) > 0


def test_a_meter_that_waits_for_its_host_misses_no_keep_alive() -> None:
    bench = Bench(Setup(patience_s=0.1), Faults(freezes_without_keep_alive=True))
    bench.now_ns += 5_000_000_000
    bench.meter.skip_to(bench.now_ns)
    assert not bench.meter.is_frozen
    assert count_data(bench.tell(*START_B)) > 0


def test_an_81_that_restarts_it_silences_it_for_a_while() -> None:
    bench = Bench(faults=Faults(deaf_after_81_s=2.0))
    assert bench.tell(*START_B) + bench.listen(2.0) == []
    assert count_data(bench.tell(Command.START, Command.START)) > 0


def test_start_frames_too_close_crash_it() -> None:
    faults = Faults(crashes_below_gap_s=0.025)
    too_fast, slow_enough = Bench(faults=faults), Bench(faults=faults)
    too_fast.tell(*START_B, gap_s=0.01)
    slow_enough.tell(*START_B, gap_s=0.05)
    assert (too_fast.meter.is_frozen, slow_enough.meter.is_frozen) == (True, False)


def test_a_meter_that_streams_already_needs_no_start() -> None:
    bench = Bench(faults=Faults(already_streaming=True))
    assert count_data(bench.listen(1.0, keep_alive_s=0.5)) == 25


def test_an_unknown_report_is_sound_and_says_nothing() -> None:
    bench = Bench(faults=Faults(unknown_before=every(1)))
    said = [decode(report) for report in bench.tell(*START_B)]
    assert OtherReport(0x07) in said
