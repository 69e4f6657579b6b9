"""A TC66C on a pseudo-terminal, read through the real port, protocol and source."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from clock import ServiceClock
from meter.devices.tc66c import Fault, Tc66OnPty
from meter.protocols.raw_recording import RawHeader
from meter.readings import Reading, Source, Stream
from meter.sources.raw_recording import RawRecordingSource
from meter.sources.tc66c import MODEL, PERIOD_NS, Tc66cSource, open_tc66c
from meter.sources.tc66c_ports import GivenTransport, Tc66Finder
from meter.transports.tape import RecordingTransport, TapeWriter, read_tape

DEADLINE_S = 20.0


@pytest.fixture
def plugged(tmp_path: Path) -> Iterator[Tc66OnPty]:
    """A TC66C that is plugged in."""
    meter = Tc66OnPty(tmp_path / "ttyACM0")
    meter.plug_in()
    yield meter
    meter.unplug()


@pytest.fixture
def source(plugged: Tc66OnPty, clock: ServiceClock) -> Iterator[Tc66cSource]:
    """A source at its path."""
    source = open_tc66c(stream(clock), clock, path=str(plugged.path))
    yield source
    source.close()


@pytest.fixture
def clock() -> ServiceClock:
    """The clock of the service."""
    return ServiceClock()


def stream(clock: ServiceClock) -> Stream:
    return Stream("lab", "pi5", "tc66", MODEL, "measured", clock.timeline_id, clock.host_clock, PERIOD_NS)


def read_until(source: Source, condition: Callable[[list[Reading]], bool]) -> list[Reading]:
    """All readings up to the one that fulfils the condition."""
    readings: list[Reading] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition(readings):
        assert time.monotonic() < deadline_s, f"waited too long: {source.counts}, {source.health}"
        readings += source.read(0.2) or []
    return readings


def refused(source: Source) -> dict[str, int]:
    """Replies that were not used, but for those that a busy test machine read too late to know their time."""
    return {reason: number for reason, number in source.counts.rejected.items() if reason != "late"}


def count(readings: int) -> Callable[[list[Reading]], bool]:
    return lambda so_far: len(so_far) >= readings


def test_it_gives_voltage_current_their_product_and_the_energy_counter(source: Tc66cSource, plugged: Tc66OnPty) -> None:
    plugged.device.energy_steps = [100, 20]
    reading, *_ = read_until(source, count(3))
    assert (reading.voltage_v, reading.current_a) == (5.1234, 0.61234)
    assert reading.power_w == pytest.approx(5.1234 * 0.61234)
    assert reading.energy_counter_j == pytest.approx(120 * 3.6)


def test_times_lie_between_request_and_answer_and_increase(source: Tc66cSource, clock: ServiceClock) -> None:
    before_ns = clock.now_ns()
    readings = read_until(source, count(8))
    times = [before_ns, *(reading.t_ns for reading in readings), clock.now_ns()]
    assert all(a < b for a, b in pairwise(times))
    assert (times[-2] - times[1]) / 1e9 > 0.5


def test_its_health_names_the_meter(source: Tc66cSource, plugged: Tc66OnPty) -> None:
    assert not source.health.connected
    read_until(source, count(15))
    health = source.health
    assert (health.connected, health.detail, health.node) == (True, "", str(plugged.path))
    assert (health.model, health.serial, health.firmware, health.temperature_c) == ("TC66C", "4242", "1.18", 27.0)
    assert health.rate_hz is not None
    assert 2 < health.rate_hz < 11
    assert health.new_values_hz == 0.0  # the simulated meter says the same all the time
    assert refused(source) == {"after_opening": 1}


def test_a_temperature_below_zero_arrives(source: Tc66cSource, plugged: Tc66OnPty) -> None:
    plugged.device.temperature_c = -7
    read_until(source, count(1))
    assert source.health.temperature_c == -7.0


def test_spoiled_replies_are_counted_by_reason_and_as_a_gap_and_not_filled(
    source: Tc66cSource, plugged: Tc66OnPty
) -> None:
    read_until(source, count(2))
    plugged.device.faults.extend([Fault(keep_bytes=100), Fault(wrong_crc_in=1), Fault(keep_bytes=3)])
    read_until(source, lambda readings: len(readings) >= 3 and not plugged.device.faults)
    assert refused(source) == {"after_opening": 1, "short": 2, "bad_crc": 1}
    assert source.counts.gaps >= 1
    assert source.counts.lost_samples >= 3  # each costs its slot and the silence after it


def test_pieces_of_one_byte_extra_bytes_and_permuted_blocks_are_understood(
    source: Tc66cSource, plugged: Tc66OnPty
) -> None:
    read_until(source, count(1))
    plugged.device.faults.extend([Fault(in_pieces=True), Fault(before=b"\xff\x00AT\r"), Fault(order=(2, 0, 1))])
    readings = read_until(source, lambda readings: len(readings) >= 3 and not plugged.device.faults)
    assert not {"bad_crc", "no_magic", "overlong"} & set(source.counts.rejected)
    assert {reading.voltage_v for reading in readings} == {5.1234}


def test_a_late_reply_is_not_taken_for_the_next_one(source: Tc66cSource, plugged: Tc66OnPty) -> None:
    read_until(source, count(1))
    plugged.device.faults.append(Fault(delay_s=1.25))
    while plugged.device.faults:
        source.read(0.05)
    plugged.device.supply = lambda: (9.0, 2.0)  # every reply made from now on says so
    late = read_until(source, count(1))
    assert source.counts.rejected["no_reply"] >= 1
    assert [reading.voltage_v for reading in late] == [9.0]


def test_a_cleared_counter_decreases_and_is_reported(source: Tc66cSource, plugged: Tc66OnPty) -> None:
    plugged.device.energy_steps = [50, 7]
    before = read_until(source, count(1))[-1].energy_counter_j
    plugged.device.reset_counters()
    after = read_until(source, count(1))[-1].energy_counter_j
    assert before is not None
    assert after is not None
    assert after < before
    assert source.counts.counter_resets == 1


def test_a_switch_to_the_other_group_and_a_wrap_go_on_counting(source: Tc66cSource, plugged: Tc66OnPty) -> None:
    plugged.device.energy_steps = [5, 2**32 - 1]
    plugged.device.supply = lambda: (20.0, 5.0)  # a step of 3.6 J every 36 ms
    first = read_until(source, count(5))
    plugged.device.group = 1
    counters = [reading.energy_counter_j or 0.0 for reading in first + read_until(source, count(5))]
    assert counters == sorted(counters)
    assert 50 < counters[-1] - counters[0] < 500
    assert source.counts.counter_resets == 0


def test_it_survives_unplugging_and_replugging_under_another_terminal(source: Tc66cSource, plugged: Tc66OnPty) -> None:
    read_until(source, count(2))
    plugged.unplug()
    assert read_until(source, lambda _: source.health.detail != "") == []
    assert not source.health.connected
    plugged.plug_in()
    read_until(source, count(2))
    health = source.health
    assert (health.connected, health.detail, health.reopened) == (True, "", 1)
    assert source.counts.gaps >= 1
    assert source.counts.lost_samples >= 2


def test_a_missing_meter_is_waited_for_with_one_line(
    tmp_path: Path, clock: ServiceClock, caplog: pytest.LogCaptureFixture
) -> None:
    meter = Tc66OnPty(tmp_path / "ttyACM7")
    source = open_tc66c(stream(clock), clock, path=str(meter.path))
    for _ in range(8):
        assert source.read(0.2) == []
    assert [record.message for record in caplog.records] == [
        f"meter tc66 at pi5: {meter.path} is not there: nothing is plugged in, or it has another name now"
    ]
    meter.plug_in()
    read_until(source, count(1))
    source.close()
    meter.unplug()


def test_a_port_that_another_program_holds_is_named(
    source: Tc66cSource, plugged: Tc66OnPty, clock: ServiceClock
) -> None:
    read_until(source, count(1))
    second = open_tc66c(stream(clock), clock, path=str(plugged.path))
    assert second.read(0.1) == []
    assert second.health.detail == f"{plugged.path} is in use by another program"
    assert read_until(source, count(1))


def test_a_meter_in_boot_mode_says_what_to_do(
    source: Tc66cSource, plugged: Tc66OnPty, caplog: pytest.LogCaptureFixture
) -> None:
    plugged.device.mode = b"boot"
    read_until(source, lambda _: source.health.detail != "")
    assert "plug it in again without holding a button" in source.health.detail
    plugged.unplug()
    plugged.device.mode = b"firm"
    plugged.plug_in()
    read_until(source, count(1))
    assert sum("button" in record.message for record in caplog.records) == 1


def test_another_meter_in_its_place_is_refused(source: Tc66cSource, plugged: Tc66OnPty) -> None:
    read_until(source, count(1))
    plugged.unplug()
    plugged.device.serial = 4243
    plugged.plug_in()
    read_until(source, lambda _: "4243" in source.health.detail)
    assert source.health.detail.startswith("TC66 4243 is plugged in where 4242 was")


def test_a_serial_number_that_does_not_fit_the_path_is_refused(plugged: Tc66OnPty, clock: ServiceClock) -> None:
    source = open_tc66c(stream(clock), clock, path=str(plugged.path), serial="9")
    assert read_until(source, lambda _: "4242" in source.health.detail) == []
    source.close()


def test_a_recording_of_a_meter_plays_the_same_readings_and_the_same_faults(
    plugged: Tc66OnPty, clock: ServiceClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    header = RawHeader(protocol="tc66c", started_ns=0, sample_period_ns=PERIOD_NS, meter_model=MODEL)
    writer = TapeWriter(tmp_path / "meter.raw.gz", header)
    finder = Tc66Finder(str(plugged.path))
    live = Tc66cSource(stream(clock), GivenTransport(lambda: RecordingTransport(finder.open(), writer)), clock)
    changing = iter(range(1, 1000))
    plugged.device.supply = lambda: (5.0, next(changing) / 1000)
    read_until(live, count(3))
    plugged.device.faults.extend([Fault(keep_bytes=20), Fault(wrong_crc_in=0)])
    lived = read_until(live, lambda readings: len(readings) >= 6 and not plugged.device.faults)
    live.close()
    writer.close()
    caplog.clear()
    again = RawRecordingSource(stream(clock), read_tape(tmp_path / "meter.raw.gz"), 0, 0.0, "it")
    while again.read(0.2) is not None:
        assert not caplog.text
    assert not caplog.text
    tape = read_tape(tmp_path / "meter.raw.gz")
    played = Tc66cSource(stream(clock), GivenTransport(tape.open), clock, pacing=tape.pacing)
    replayed = read_until(played, lambda _: tape.is_over)
    assert refused(played) == refused(live)
    missing = {reading.current_a for reading in lived} - {reading.current_a for reading in replayed}
    assert len(missing) <= played.counts.rejected.get("late", 0)
    shifts = [a.t_ns - b.t_ns for a in lived for b in replayed if a.current_a == b.current_a]
    assert max(shifts) - min(shifts) < 60_000_000  # what a busy machine may add, the limit for `late`
