"""Several FNB58 on one host, by the meter service as a process on fake hidraw nodes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from meter.devices.faults import Faults, Span, every
from meter.devices.fnb58 import Fnb58
from meter.devices.power import constant
from opjoule.local_broker import LocalBroker
from tests.meter.fake_hidraw import FakeHidraw
from tests.meter.process_rig import Running

pytestmark = pytest.mark.processes
FLAGS = ["--source", "fnirsi", "--dut", "pi4", "--meter", "m1"]


@pytest.fixture(scope="module")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for this module."""
    with LocalBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.url


@pytest.fixture
def usb(tmp_path: Path) -> Iterator[FakeHidraw]:
    """Fake hidraw nodes."""
    with FakeHidraw(tmp_path) as fake:
        yield fake


@contextmanager
def running(folder: Path, url: str, usb: FakeHidraw, *arguments: str) -> Iterator[Running]:
    service = Running(folder, url, folder.name.replace("_", "-").lower()[:60], arguments, usb.before)
    try:
        yield service
    finally:
        service.kill()


def file_of(folder: Path, *meters: str) -> list[str]:
    path = folder / "meters.toml"
    path.write_text("".join(f'[[meter]]\nsource = "fnirsi"\nmeter = "m"\n{each}\n' for each in meters))
    return ["--source", "auto", "--meters", str(path)]


def test_of_two_meters_none_is_guessed_until_one_is_left_and_that_one_is_never_replaced(
    tmp_path: Path, broker_url: str, usb: FakeHidraw
) -> None:
    usb.plug_in(Fnb58(constant(2.0)), 0, "A1")
    usb.plug_in(Fnb58(constant(4.0)), 1, "B2")
    with running(tmp_path, broker_url, usb, *FLAGS) as service:
        status = service.wait_for(lambda status: "2 meters fit" in status.detail)
        assert status.duts == ()
        assert all(part in status.detail for part in ("/dev/hidraw0", "serial A1", "/dev/hidraw1", "serial B2"))
        usb.unplug(0)
        service.wait_for(lambda status: status.duts == ("pi4",))
        usb.plug_in(Fnb58(constant(2.0)), 3, "A1")
        service.wait_for(lambda status: "not in the settings: FNB58 at /dev/hidraw3" in status.detail)
        usb.unplug(1)
        service.wait_for(lambda status: "no FNIRSI meter with serial number B2" in status.detail and not status.duts)
        service.end()
    assert {round(power_w) for batch in service.listener.batches for power_w in batch.power_w} == {4}


def test_a_file_gives_each_board_its_meter_and_a_stranger_is_reported(
    tmp_path: Path, broker_url: str, usb: FakeHidraw
) -> None:
    for number, (power_w, serial) in enumerate([(2.0, "A1"), (4.0, "B2"), (6.0, "C3")]):
        usb.plug_in(Fnb58(constant(power_w)), number, serial)
    arguments = file_of(tmp_path, 'dut = "pi4"\nserial = "B2"', 'dut = "pi1"\nnode = "1-2"')
    with running(tmp_path, broker_url, usb, *arguments) as service:
        status = service.wait_for(lambda status: "not in the settings" in status.detail and len(status.duts) == 2)
        assert "FNB58 at /dev/hidraw2, USB port 1-4, serial C3" in status.detail
        assert {(each.dut, each.serial, each.model, each.connected) for each in status.meters} == {
            ("pi4", "B2", "FNB58", True),
            ("pi1", "A1", "FNB58", True),
        }
        errors = service.end()
    assert errors.count("that no setting names") == 1
    powers = {(batch.dut, round(power_w)) for batch in service.listener.batches for power_w in batch.power_w}
    assert powers == {("pi4", 4), ("pi1", 2)}


def test_a_meter_whose_firmware_is_frozen_costs_the_other_no_sample(
    tmp_path: Path, broker_url: str, usb: FakeHidraw
) -> None:
    usb.plug_in(Fnb58(constant(2.0), faults=Faults(frozen=(Span(0.0, 1e6),))), 0, "A1")
    usb.plug_in(Fnb58(constant(4.0)), 1, "B2")
    arguments = file_of(tmp_path, 'dut = "pi1"\nserial = "A1"', 'dut = "pi4"\nserial = "B2"')
    with running(tmp_path, broker_url, usb, *arguments) as service:
        status = service.wait_for(lambda status: status.duts == ("pi4",) and "m of pi1: " in status.detail)
        assert not next(each for each in status.meters if each.dut == "pi1").connected
        service.listener.listen_until(lambda: sum(len(batch.power_w) for batch in service.listener.batches) > 500)
        service.end()
    batches = service.listener.batches
    assert {batch.dut for batch in batches} == {"pi4"}
    assert (batches[-1].lost_samples, batches[-1].gaps) == (0, 0)
    assert all(after.start_ns - before.until_ns < 20_000_000 for before, after in pairwise(batches))


def test_a_second_program_is_told_so_and_takes_over_when_the_first_ends(
    tmp_path: Path, broker_url: str, usb: FakeHidraw
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    usb.plug_in(Fnb58(constant(2.0)))
    with running(tmp_path / "one", broker_url, usb, *FLAGS) as first:
        first.wait_for(lambda status: status.duts == ("pi4",))
        with running(tmp_path / "two", broker_url, usb, *FLAGS) as second:
            second.wait_for(lambda status: "another program reads the meter" in status.detail)
            first.process.send_signal(signal.SIGTERM)
            second.wait_for(lambda status: status.duts == ("pi4",))
            assert second.end().count("another program reads the meter") == 1
            first.end()


def test_two_boards_never_share_one_meter_in_silence(tmp_path: Path, broker_url: str, usb: FakeHidraw) -> None:
    node = usb.plug_in(Fnb58(constant(2.0)), 0, "A1")
    arguments = file_of(tmp_path, 'dut = "pi1"\nserial = "A1"', f'dut = "pi4"\nnode = "{node}"')
    with running(tmp_path, broker_url, usb, *arguments) as service:
        status = service.wait_for(lambda status: len(status.duts) == 1 and "another program reads" in status.detail)
        assert sorted(each.connected for each in status.meters) == [False, True]
        service.end()
    assert len({batch.dut for batch in service.listener.batches}) == 1


def test_a_device_that_speaks_another_protocol_is_not_online_and_says_why(
    tmp_path: Path, broker_url: str, usb: FakeHidraw
) -> None:
    usb.plug_in(Fnb58(constant(2.0), faults=Faults(bad_crc=every(1))))
    with running(tmp_path, broker_url, usb, *FLAGS) as service:
        status = service.wait_for(
            lambda status: bool(status.meters) and status.meters[0].rejected.get("bad_crc", 0) > 20
        )
        (state,) = status.meters
        assert (status.duts, state.connected) == ((), False)
        assert state.detail
        assert state.detail in status.detail
        service.end()
    assert service.listener.batches == []
