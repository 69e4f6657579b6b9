"""A meter recorded and played again: the same readings, through the same protocol, recovery and timeline."""

import errno
import logging
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from clock import ServiceClock
from errors import ContractError, SettingsError
from meter.devices.faults import Faults, Span, every
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.lockstep import Lockstep
from meter.devices.power import Measured
from meter.protocols.raw_recording import RawHeader
from meter.readings import Reading, Source, Stream
from meter.settings import MeterSettings
from meter.sources import SOURCES
from meter.sources.fnirsi import FnirsiSource
from meter.sources.pacing import Pacing
from meter.sources.raw_recording import RawRecordingSource
from meter.transports.tape import RecordingTransport, TapeWriter, read_tape

START_NS = 1_775_827_500_000_000_000
STREAM = Stream("lab", "pi4", "m1", "FNB58", "recorded", "t1", None, 10_000_000)
HEADER = RawHeader(
    protocol="fnirsi", started_ns=START_NS, sample_period_ns=10_000_000, meter_model="FNB58", serial="123", family="B"
)


class Clock(Protocol):
    """A monotonic clock that only sleeping moves."""

    def monotonic_ns(self) -> int: ...

    def sleep(self, duration_s: float) -> None: ...


def noisy() -> Callable[[int], Measured]:
    draw = random.Random(4)
    return lambda _t_ns: Measured(510_000, draw.randrange(10_000, 90_000))


def record(
    path: Path,
    duration_s: float = 30.0,
    setup: Setup | None = None,
    faults: Faults | None = None,
    unplugged: Span | None = None,
) -> tuple[list[Reading], FnirsiSource]:
    """What the service read of a meter while it was recorded; times from the beginning of the recording."""
    draw = random.Random(6)
    usb = Lockstep(Fnb58(noisy(), setup, faults), lambda: draw.randrange(20_000_000))
    usb.plug_in()
    if unplugged is not None:
        usb.at(unplugged.start_s, usb.unplug)
        usb.at(unplugged.end_s, usb.plug_in)
    began_ns = usb.now_ns
    writer = TapeWriter(path, HEADER, usb.monotonic_ns)
    clock = ServiceClock(wall_minus_monotonic_ns=START_NS - began_ns, timeline_id="t1", boot_id=None)
    source = FnirsiSource(STREAM, lambda: RecordingTransport(usb.open(), writer), clock, family="B", pacing=usb.pacing)
    readings: list[Reading] = []
    while usb.now_ns < began_ns + duration_s * 1e9:
        readings += source.read(0.2) or []
    usb.unplug()
    readings += source.read(0.2) or []
    writer.close()
    return readings, source


def play(path: Path, speed: float = 0.0, pacing: Pacing | None = None) -> tuple[list[Reading], RawRecordingSource]:
    source = RawRecordingSource(STREAM, read_tape(path), START_NS, speed, "the recording", pacing)
    readings: list[Reading] = []
    while (some := source.read(0.2)) is not None:
        readings += some
    source.close()
    return readings, source


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"faults": Faults(garbage_first=3, bad_crc=every(20), short=every(33), unknown_before=every(7))},
        {"faults": Faults(dropped=every(11), late=(Span(10.0, 10.5),))},
        {"faults": Faults(silent=(Span(10.0, 13.0),))},
        {"setup": Setup(patience_s=0.5)},
        {"unplugged": Span(10.0, 14.0)},
        {"faults": Faults(already_streaming=True), "setup": Setup(keep_alive="never")},
    ],
)
def test_a_recording_plays_what_the_service_read(tmp_path: Path, given: dict[str, object]) -> None:
    path = tmp_path / "a.raw.gz"
    recorded, meter = record(path, **given)  # type: ignore[arg-type]
    played, source = play(path)
    assert played == recorded
    assert len(played) > 1000
    assert source.counts == meter.counts


@pytest.mark.parametrize("unplugged", [None, Span(10.0, 14.0)])
def test_the_end_of_a_recording_is_no_trouble(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unplugged: Span | None
) -> None:
    path = tmp_path / "a.raw.gz"
    record(path, unplugged=unplugged)
    caplog.clear()
    played, source = play(path)
    assert source.read(0.2) is None
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    away = ["m1 of pi4: the meter has gone: it was unplugged", "m1 of pi4: the meter of the recording was away"]
    assert [line for line in told if "samples lost" not in line] == (away if unplugged else [])
    assert len(played) > 2000


def test_it_is_played_with_its_timing_at_any_speed(tmp_path: Path, fake_time: Clock) -> None:
    path = tmp_path / "a.raw.gz"
    recorded, _ = record(path)
    for speed in (1.0, 4.0):
        begin_ns = fake_time.monotonic_ns()
        played, _ = play(path, speed, Pacing(fake_time.monotonic_ns, fake_time.sleep))
        assert (fake_time.monotonic_ns() - begin_ns) / 1e9 == pytest.approx(30.0 / speed, rel=0.05)
        assert played == recorded


def test_a_recording_that_ends_in_mid_frame_is_played_up_to_there_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.raw.gz"
    recorded, _ = record(path)
    path.write_bytes(path.read_bytes()[:-500])
    with caplog.at_level(logging.WARNING, "meter.sources.raw_recording"):
        played, _ = play(path)
    assert 100 < len(played) < len(recorded)
    assert played == recorded[: len(played)]
    assert "the recording: played up to where it is truncated" in caplog.messages


def test_a_recorder_that_was_killed_leaves_what_it_had_seconds_before(tmp_path: Path) -> None:
    path = tmp_path / "a.raw.gz"
    usb = Lockstep(Fnb58(noisy(), Setup(keep_alive="never"), Faults(already_streaming=True)))
    usb.plug_in()
    writer = TapeWriter(path, HEADER, usb.monotonic_ns)
    transport = RecordingTransport(usb.open(), writer)
    for _ in range(500):
        transport.read(1.0)
    left = path.read_bytes()
    transport.close()
    usb.unplug()
    writer.close()
    killed = tmp_path / "killed.raw.gz"
    killed.write_bytes(left)
    played, _ = play(killed)
    assert len(played) > (500 - 6 * 25) * 4  # 5 s between flushes, and what the first second drops


def test_an_existing_file_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.raw.gz"
    path.write_bytes(b"precious")
    with pytest.raises(SettingsError, match=r"a.raw.gz cannot be made: File exists"):
        TapeWriter(path, HEADER)
    assert path.read_bytes() == b"precious"


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """As on a disk that is full then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_in_the_end_keeps_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.raw.gz"
    draw = random.Random(1)
    writer = TapeWriter(path, HEADER)
    with largest_file(20_000), pytest.raises(OSError) as caught:
        for _ in range(10_000):
            writer.add("<", draw.randbytes(64))
    assert caught.value.errno == errno.EFBIG
    with largest_file(20_000), pytest.raises(OSError):
        writer.close()
    writer.close()
    assert read_tape(path).header == HEADER
    assert path.stat().st_size == 20_000


def test_a_disk_that_is_full_from_the_beginning_is_the_operators_business(tmp_path: Path) -> None:
    path = tmp_path / "a.raw.gz"
    with largest_file(50), pytest.raises(SettingsError, match=r"a.raw.gz cannot be written: File too large"):
        TapeWriter(path, HEADER)
    assert not path.exists()


def test_recording_changes_nothing_of_what_passes(tmp_path: Path) -> None:
    usb = Lockstep(Fnb58(noisy()))
    usb.plug_in()
    writer = TapeWriter(tmp_path / "a.raw.gz", HEADER, usb.monotonic_ns)
    inner = usb.open()
    transport = RecordingTransport(inner, writer)
    assert transport.device == inner.device
    assert transport.read(0.1) == b""
    usb.unplug()
    with pytest.raises(OSError, match="closed"):
        transport.read(0.1)
    transport.close()
    with pytest.raises(OSError, match="closed"):
        transport.write(bytes(64))
    writer.close()
    writer.close()


def settings(path: Path, **given: object) -> MeterSettings:
    return MeterSettings.model_validate(
        {"source": "recording", "recording": path, "dut": "pi4", "meter": "m1", "speed": 0, **given}
    )


def test_the_service_plays_it_as_any_recording_and_takes_the_model_from_it(tmp_path: Path) -> None:
    path = tmp_path / "A.RAW.GZ"
    recorded, _ = record(path)
    clock = ServiceClock()
    (planned,) = SOURCES["recording"](settings(path), clock)
    source: Source = planned.open()
    readings = [reading for _ in range(100) for reading in source.read(0.2) or []]
    assert (source.stream.meter_model, source.stream.meter_kind, source.stream.host_clock) == (
        "FNB58",
        "recorded",
        None,
    )
    assert source.stream.timeline_id == clock.timeline_id
    assert [reading.power_w for reading in readings] == [reading.power_w for reading in recorded[: len(readings)]]
    assert source.health.serial == "123"
    source.close()
    (planned,) = SOURCES["recording"](settings(path, meter_model="FNB48"), clock)
    other = planned.open()
    assert other.stream.meter_model == "FNB48"
    other.close()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "a.raw.gz: No such file"),
        (b"", "a.raw.gz: ends inside its first line"),
        (b"Time,Power\n", "a.raw.gz: not a raw recording"),
    ],
)
def test_a_file_that_cannot_be_played_is_named(tmp_path: Path, content: bytes | None, what: str) -> None:
    path = tmp_path / "a.raw.gz"
    if content is not None:
        path.write_bytes(content)
    (planned,) = SOURCES["recording"](settings(path), ServiceClock())
    with pytest.raises(ContractError, match=what):
        planned.open()


def test_a_recording_without_a_frame_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.raw.gz"
    TapeWriter(path, HEADER).close()
    with pytest.raises(ContractError, match="no frame in it"):
        read_tape(path)
