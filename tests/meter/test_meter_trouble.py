"""What goes wrong on a bench, with `python -m meter` as a process: one clear line, and the service goes on waiting."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from meter.devices.fnb58_reports import data_report
from meter.devices.power import Measured
from meter.devices.tc66c import Fault, Tc66Device, Tc66OnPty
from meter.protocols.raw_recording import RawEncoder, RawFrame, RawHeader
from opjoule.local_broker import LocalBroker
from tests.meter.conftest import cfn_bytes
from tests.meter.process_rig import Listener, Running, end_of, start

pytestmark = pytest.mark.processes
NO_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
"""Takes from root what lets it open any file."""


@pytest.fixture(scope="module")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for this module."""
    with LocalBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.url


@contextmanager
def plugged_in(path: Path, device: Tc66Device | None = None) -> Iterator[Tc66OnPty]:
    meter = Tc66OnPty(path, device)
    meter.plug_in()
    try:
        yield meter
    finally:
        meter.unplug()


def tc66c(node: Path, meter: str = "m1") -> list[str]:
    return ["--source", "tc66c", "--dut", "pi4", "--meter", meter, "--node", str(node)]


@contextmanager
def running(folder: Path, url: str, arguments: Sequence[str], before: Sequence[str] = ()) -> Iterator[Running]:
    service = Running(folder, url, folder.name.replace("_", "-").lower()[:60].rstrip("-"), arguments, before)
    try:
        yield service
    finally:
        service.kill()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--source", "fnirsi"], "no FNIRSI meter is plugged in: data come only from its micro-USB port marked PC"),
        (["--source", "fnirsi", "--serial", "0001A"], "no FNIRSI meter with serial number 0001A"),
        (["--source", "fnirsi", "--node", "/dev/ttyACM0"], "no FNIRSI meter at /dev/ttyACM0"),
        (["--source", "tc66c", "--node", "/dev/ttyACM9"], "/dev/ttyACM9 is not there"),
        (["--source", "hwmon", "--node", "ina226@1-0040/1"], "no power sensor is called ina226@1-0040/1"),
    ],
    ids=["none", "another serial number", "another interface", "no port", "no sensor"],
)
def test_a_meter_that_is_not_there_is_waited_for(
    tmp_path: Path, broker_url: str, arguments: list[str], what: str
) -> None:
    with running(tmp_path, broker_url, [*arguments, "--dut", "pi4", "--meter", "m1"]) as service:
        status = service.wait_for(lambda status: what in status.detail)
        assert (status.state, status.duts) == ("online", ())
        assert not status.meters[0].connected
        errors = service.end()
    assert errors.count(what) == 1


def test_a_meter_that_this_user_may_not_open_is_one_line_about_rights(tmp_path: Path, broker_url: str) -> None:
    with plugged_in(tmp_path / "ttyACM0") as meter:
        meter.path.chmod(0)
        before = NO_RIGHTS if os.geteuid() == 0 else []
        with running(tmp_path, broker_url, tc66c(meter.path), before) as service:
            service.wait_for(lambda status: "may not be opened by this user" in status.detail)
            assert service.end().count("may not be opened by this user") == 1


def test_two_programs_on_one_meter_the_second_waits_until_the_first_lets_go(tmp_path: Path, broker_url: str) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with plugged_in(tmp_path / "ttyACM0") as meter, running(tmp_path / "one", broker_url, tc66c(meter.path)) as first:
        first.wait_for(lambda status: status.duts == ("pi4",))
        with running(tmp_path / "two", broker_url, tc66c(meter.path)) as second:
            second.wait_for(lambda status: "is in use by another program" in status.detail)
            first.end()
            second.wait_for(lambda status: status.duts == ("pi4",))
            assert second.end().count("in use by another program") == 1


class Modem(Tc66Device):
    """Answers every word as a modem does."""

    def command(self, command: bytes, now_s: float) -> tuple[Fault, bytes]:
        return Fault(), b"\r\nERROR\r\n"


def test_a_port_that_is_a_modem_is_left_alone_with_one_line(tmp_path: Path, broker_url: str) -> None:
    with (
        plugged_in(tmp_path / "ttyACM0", Modem()) as modem,
        running(tmp_path, broker_url, tc66c(modem.path)) as service,
    ):
        status = service.wait_for(lambda status: bool(status.meters) and bool(status.meters[0].detail))
        assert status.duts == ()
        errors = service.end()
    assert errors.count("WARNING") == 1
    assert status.meters[0].detail in errors


def test_one_meter_that_is_unplugged_keeps_the_other_online_and_returns(tmp_path: Path, broker_url: str) -> None:
    entries = [
        f'[[meter]]\nsource = "tc66c"\nnode = "{tmp_path / node}"\ndut = "{dut}"\nmeter = "tc"\n'
        for node, dut in (("ttyACM0", "pi1"), ("ttyACM1", "pi4"))
    ]
    (tmp_path / "meters.toml").write_text("".join(entries))
    arguments = ["--source", "auto", "--meters", str(tmp_path / "meters.toml")]
    with (
        plugged_in(tmp_path / "ttyACM0") as first,
        plugged_in(tmp_path / "ttyACM1"),
        running(tmp_path, broker_url, arguments) as service,
    ):
        service.wait_for(lambda status: status.duts == ("pi1", "pi4"))
        first.unplug()
        service.listener.statuses.clear()
        gone = service.wait_for(lambda status: status.duts == ("pi4",) and "tc of pi1: " in status.detail)
        assert [state.connected for state in gone.meters] == [False, True]
        service.listener.statuses.clear()
        first.plug_in()
        service.wait_for(lambda status: status.duts == ("pi1", "pi4") and status.detail == "")
        service.listener.batches.clear()
        service.listener.listen_until(lambda: {batch.dut for batch in service.listener.batches} == {"pi1", "pi4"})
        service.end()
    last = [batch for batch in service.listener.batches if batch.dut == "pi1"][-1]
    assert last.gaps == 1
    assert last.lost_samples > 0
    assert len({batch.timeline_id for batch in service.listener.batches}) == 1
    assert last.counter_resolution_j == 3.6


def test_a_wrong_file_of_meters_ends_with_one_line(tmp_path: Path, broker_url: str) -> None:
    file = tmp_path / "meters.toml"
    file.write_text('[[meter]]\nsource = "fnirsi"\ndut = "pi4"\n')
    code, errors = end_of(start(tmp_path, broker_url, "wrong", "--source", "auto", "--meters", str(file)))
    assert code == 2
    assert errors == f"meter: meters file {file}: [[meter]] number 1: meter: Field required\n"


MANY_THREADS = """
import threading, time
from errors import SettingsError
from meter.transports import UsbDevice
from meter.transports.enumerate import devices
from meter.transports.hidraw import HidTransport

def look(number, end_s):
    while time.monotonic() < end_s:
        devices((0x2E3C,))
        try:
            HidTransport(UsbDevice(f"none-{number}"))
        except (OSError, SettingsError):
            pass

threads = [threading.Thread(target=look, args=(number, time.monotonic() + 2.0)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_meters_that_are_looked_for_in_several_threads_do_not_end_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", MANY_THREADS], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def raw_recording(reports: int) -> bytes:
    """Of an FNB58 that sent so many reports, one each 40 ms, every value another."""
    encoder = RawEncoder()
    header = RawHeader(protocol="fnirsi", started_ns=1_775_827_500_000_000_000, sample_period_ns=10_000_000, family="B")
    frames = [RawFrame(0, "+")]
    for number in range(reports):
        samples = [Measured(510_000, 40_000 + 4 * number + k) for k in range(4)]
        frames.append(RawFrame((number + 10) * 40_000_000, "<", data_report(samples, 27.0)))
    return b"".join([encoder.header(header), *(encoder.frame(frame) for frame in frames), encoder.finish()])


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.raw.gz", raw_recording(2000)), ("a.cfn", cfn_bytes([1 + row / 997 for row in range(1000)]))],
    ids=["raw", "cfn"],
)
def test_of_a_recording_that_ends_in_mid_frame_the_whole_frames_are_played(
    tmp_path: Path, broker_url: str, name: str, content: bytes
) -> None:
    file = tmp_path / name
    file.write_bytes(content[: len(content) // 2 + 3])
    site = name.replace(".", "-")
    listener = Listener(broker_url, site, confirm=True)
    flags = ["--source", "recording", "--recording", str(file), "--dut", "pi1", "--meter", "m1"]
    process = start(tmp_path, broker_url, site, *flags, "--speed", "0", "--exit-at-end", "true")
    listener.listen_until(lambda: process.poll() is not None)
    code, errors = end_of(process)
    listener.close()
    samples = sum(len(batch.power_w) for batch in {batch.seq: batch for batch in listener.batches}.values())
    assert (code, "Traceback" in errors) == (0, False), errors
    assert errors.count("truncated") == 1
    assert 400 < samples < 5000
