"""`opjoule meter record`: all that a meter says, in a new file that plays again; it ends well whatever ends it."""

import errno
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clock import ServiceClock
from errors import SettingsError
from meter.devices.fnb58 import Fnb58
from meter.devices.power import Measured
from meter.devices.tc66c import Tc66OnPty
from meter.protocols.raw_recording import Event, RawDecoder
from meter.settings import MeterSettings
from meter.sources import SOURCES
from meter.transports import UsbDevice
from meter.transports.tape import TapeWriter, read_tape
from opjoule.meter.command import interruption, say_recorded
from opjoule.meter.plugged import Plugged
from opjoule.meter.record import Recorded, must_be_new, record, the_one
from tests.meter.fake_hidraw import FakeHidraw
from tests.meter.rig import wait_until

FNB58 = Plugged("fnirsi", "FNB58", UsbDevice("/dev/hidraw0", (0x2E3C, 0x5558), "A1", "", "1-1.4"))
SECOND = Plugged("fnirsi", "FNB58", UsbDevice("/dev/hidraw1", (0x2E3C, 0x5558), "B2", "", "1-1.3"))
SENSOR = Plugged("hwmon", "ina226", UsbDevice("ina226@1-0040/1"), remark="a power sensor of this host")


@pytest.fixture
def tc66c(tmp_path: Path) -> Iterator[Tc66OnPty]:
    """A TC66C that is plugged in."""
    meter = Tc66OnPty(tmp_path / "ttyACM0")
    meter.plug_in()
    yield meter
    meter.unplug()


def plugged(meter: Tc66OnPty) -> Plugged:
    return Plugged("tc66c", "TC66C", UsbDevice(str(meter.path)), files=(meter.path,))


def after_answers(meter: Tc66OnPty, count: int) -> Callable[[float], bool]:
    return lambda _duration_s: meter.device.answered >= count


def events(path: Path) -> list[Event]:
    """Of all frames in the file."""
    decoder = RawDecoder()
    frames = decoder.feed(path.read_bytes())
    assert decoder.flags == ()
    return [frame.event for frame in frames]


def play(path: Path) -> list[float]:
    """Powers that the meter service reads of it."""
    settings = MeterSettings.model_validate(
        {"source": "recording", "recording": path, "dut": "pi4", "meter": "m1", "speed": 0}
    )
    (planned,) = SOURCES["recording"](settings, ServiceClock())
    source = planned.open()
    powers: list[float] = []
    while (readings := source.read(0.2)) is not None:
        powers += [reading.power_w for reading in readings]
    source.close()
    return powers


def test_what_a_tc66c_says_is_in_the_file_with_what_it_was_asked(tc66c: Tc66OnPty, tmp_path: Path) -> None:
    path = tmp_path / "a.raw.gz"
    lines: list[str] = []
    recorded = record(plugged(tc66c), [], path, after_answers(tc66c, 14), progress=lines.append)
    assert (recorded.problem, recorded.detail) == ("", "")
    assert recorded.samples >= 12
    assert {"<", ">", "+"} == set(events(path))
    played = play(path)
    assert played == [pytest.approx(5.1234 * 0.61234)] * len(played)
    assert len(played) - recorded.samples in (0, 1)  # one may have been on its way when it was stopped
    tape = read_tape(path)
    tape.eject()
    assert (tape.header.protocol, tape.header.meter_model) == ("tc66c", "TC66C")
    assert lines == [] or "samples" in lines[0]


def test_a_meter_that_is_unplugged_and_comes_back_is_recorded_on(tc66c: Tc66OnPty, tmp_path: Path) -> None:
    moments = iter([3, 6])
    wanted = next(moments)

    def stopping(_duration_s: float) -> bool:
        nonlocal wanted
        if tc66c.device.answered < wanted:
            return False
        if (then := next(moments, None)) is None:
            return True
        wanted = then
        tc66c.unplug()
        tc66c.plug_in()
        return False

    path = tmp_path / "a.raw.gz"
    record(plugged(tc66c), [], path, stopping)
    assert [event for event in events(path) if event in "+-"] == ["+", "-", "+"]


def test_a_full_disk_ends_a_recording_that_can_be_played_up_to_there(
    tc66c: Tc66OnPty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = itertools.count()
    add = TapeWriter.add

    def fill(writer: TapeWriter, event: Event, data: bytes = b"") -> None:
        if next(written) >= 8:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        add(writer, event, data)

    monkeypatch.setattr(TapeWriter, "add", fill)
    path = tmp_path / "a.raw.gz"
    meter = plugged(tc66c)
    recorded = record(meter, [], path, lambda _duration_s: False)
    assert recorded.problem == "No space left on device"
    assert len(events(path)) == 8
    assert say_recorded(path, meter, recorded) == 1
    assert "ends early: No space left on device" in capsys.readouterr().err


def test_a_recording_without_samples_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert say_recorded(Path("a.raw.gz"), FNB58, Recorded(2, 0, 5.0, "", "the meter has fallen silent")) == 1
    assert "no samples came: the meter has fallen silent" in capsys.readouterr().err
    assert say_recorded(Path("a.raw.gz"), FNB58, Recorded(90, 250, 5.0, "", "")) == 0


def test_a_file_that_is_there_is_never_written_over_and_its_name_must_say_what_it_is(tmp_path: Path) -> None:
    there = tmp_path / "a.raw.gz"
    there.write_bytes(b"mine")
    with pytest.raises(SettingsError, match="is there already"):
        must_be_new(there)
    with pytest.raises(SettingsError, match=r"ends in \.raw\.gz"):
        must_be_new(tmp_path / "a.bin")
    must_be_new(tmp_path / "b.raw.gz")
    with pytest.raises(SettingsError, match="cannot be made"):
        record(FNB58, [], tmp_path / "missing" / "b.raw.gz", lambda _duration_s: True)
    assert there.read_bytes() == b"mine"


def test_one_meter_is_recorded_and_none_is_guessed() -> None:
    assert the_one([FNB58, SENSOR]) is FNB58
    with pytest.raises(SettingsError, match=r"--node or --serial: FNB58 at /dev/hidraw0 serial A1, .*B2"):
        the_one([FNB58, SECOND])
    with pytest.raises(SettingsError, match="no meter that has frames to record: ina226"):
        the_one([SENSOR])


def test_an_interruption_is_noted_once_and_the_second_one_is_as_before() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    try:
        with interruption() as was_interrupted:
            assert not was_interrupted()
            signal.raise_signal(signal.SIGTERM)
            assert (was_interrupted(), heard) == (True, [])
            signal.raise_signal(signal.SIGTERM)
            assert heard == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def counting() -> Callable[[int], Measured]:
    """Every sample differs from all others."""
    numbers = itertools.count(40_000)
    return lambda _t_ns: Measured(500_000, next(numbers))


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_the_command_records_a_node_of_the_kernel_until_it_is_interrupted(
    tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "a.raw.gz"
    meter = Fnb58(counting())
    with FakeHidraw(tmp_path) as usb:
        usb.plug_in(meter)
        process = subprocess.Popen(
            [sys.executable, "-m", "opjoule", "meter", "record", str(path)],
            env=usb.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: meter.measured > 220 or process.poll() is not None)
        process.send_signal(number)
        said, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert "samples of FNB58 at /dev/hidraw0" in said
    assert set(events(path)) == {"+", "<", ">"}
    powers = play(path)
    assert len(powers) > 150
    assert powers == [pytest.approx(powers[0] + 5e-5 * number, abs=1e-9) for number in range(len(powers))]
