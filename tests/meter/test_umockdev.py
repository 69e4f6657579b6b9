"""Our hidraw transport on fake nodes of the kernel: a child reads simulated meters as it would read real ones."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from meter.devices.faults import Faults
from meter.devices.fnb58 import Fnb58, Setup
from meter.devices.power import constant
from tests.meter.fake_hidraw import FakeHidraw

pytestmark = pytest.mark.processes
DEADLINE_S = 30.0
FAST = Setup(sample_period_ns=1_000_000)
READER = """
import json, sys, time
from clock import ServiceClock
from meter.readings import Stream
from meter.sources.fnirsi import FnirsiSource
from meter.sources.fnirsi_ports import meters, opener
stream = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, 1_000_000)
source = FnirsiSource(stream, opener(*[each or None for each in sys.argv[1:]]), ServiceClock())
def say(**what):
    print(json.dumps(what), flush=True)
say(found=[[each.node, each.serial, each.port] for each in meters()])
was_connected = None
while True:
    readings = source.read(0.2)
    health = source.health
    if readings and was_connected is not True:
        say(power_w=round(readings[-1].power_w, 4), node=health.node, serial=health.serial, firmware=health.firmware)
    elif not readings and not health.connected and was_connected is not False:
        say(detail=health.detail)
    was_connected = bool(readings) or (was_connected and health.connected)
"""


@pytest.fixture
def usb(tmp_path: Path) -> Iterator[FakeHidraw]:
    """Fake hidraw nodes."""
    with FakeHidraw(tmp_path) as fake:
        yield fake


class Reader:
    """A child that reads a meter and says what changes."""

    def __init__(self, usb: FakeHidraw, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", READER, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=usb.environment,
        )
        self._deadline = threading.Timer(DEADLINE_S, self.process.kill)
        self._deadline.start()

    def next(self) -> dict[str, object]:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.end()
        said: dict[str, object] = json.loads(line)
        return said

    def wait_for(self, name: str) -> dict[str, object]:
        """The next thing of this name that it says."""
        while name not in (said := self.next()):
            pass
        return said

    def end(self) -> str:
        """Its error output."""
        self._deadline.cancel()
        self.process.kill()
        return self.process.communicate(timeout=DEADLINE_S)[1]


@pytest.fixture
def readers() -> Iterator[list[Reader]]:
    """Children that end with the test."""
    started: list[Reader] = []
    yield started
    for each in started:
        each.end()


def meter(power_w: float = 2.5, faults: Faults | None = None) -> Fnb58:
    return Fnb58(constant(power_w), FAST, faults)


def test_a_meter_is_found_and_read_through_hidapi(usb: FakeHidraw, readers: list[Reader]) -> None:
    node = usb.plug_in(meter())
    readers.append(Reader(usb))
    assert readers[0].next() == {"found": [[node, "0001A0000000", "1-2"]]}
    said = readers[0].wait_for("power_w")
    assert said == {"power_w": 2.5, "node": node, "serial": "0001A0000000", "firmware": "1.11"}


def test_unplugged_and_plugged_in_under_another_node_it_is_read_again(usb: FakeHidraw, readers: list[Reader]) -> None:
    usb.plug_in(meter(), number=0)
    readers.append(Reader(usb))
    readers[0].wait_for("power_w")
    usb.unplug(0)
    assert readers[0].wait_for("detail")["detail"]
    usb.plug_in(meter(1.25), number=3)
    said = readers[0].wait_for("power_w")
    assert (said["node"], said["power_w"]) == ("/dev/hidraw3", 1.25)


def test_of_two_meters_with_one_id_the_one_with_the_serial_number_is_read(
    usb: FakeHidraw, readers: list[Reader]
) -> None:
    usb.plug_in(meter(1.0), number=0, serial="A")
    usb.plug_in(meter(2.0), number=1, serial="B")
    readers.append(Reader(usb, "B"))
    said = readers[0].wait_for("power_w")
    assert (said["node"], said["serial"], said["power_w"]) == ("/dev/hidraw1", "B", 2.0)


def test_of_two_meters_with_one_serial_number_the_one_at_the_usb_port_is_read(
    usb: FakeHidraw, readers: list[Reader]
) -> None:
    usb.plug_in(meter(1.0), number=0)
    usb.plug_in(meter(2.0), number=1)
    readers.append(Reader(usb, "", "1-3"))
    said = readers[0].wait_for("power_w")
    assert (said["node"], said["power_w"]) == ("/dev/hidraw1", 2.0)


def test_of_two_meters_without_a_serial_number_none_is_guessed(usb: FakeHidraw, readers: list[Reader]) -> None:
    usb.plug_in(meter(1.0), number=0, serial="A")
    usb.plug_in(meter(2.0), number=1, serial="B")
    readers.append(Reader(usb))
    detail = str(readers[0].wait_for("detail")["detail"])
    assert "/dev/hidraw0" in detail
    assert "/dev/hidraw1" in detail


def test_a_bootloader_is_not_taken_for_a_meter(usb: FakeHidraw, readers: list[Reader]) -> None:
    usb.plug_in(meter(), ids=(0x0483, 0x0038))
    readers.append(Reader(usb))
    assert readers[0].next() == {"found": []}
    assert readers[0].wait_for("detail")["detail"]


def test_two_programs_on_one_meter_get_a_clear_line(usb: FakeHidraw, readers: list[Reader]) -> None:
    usb.plug_in(meter())
    readers.append(Reader(usb))
    readers[0].wait_for("power_w")
    readers.append(Reader(usb))
    assert "another program reads the meter at /dev/hidraw0" in str(readers[1].wait_for("detail")["detail"])


def test_a_stale_first_report_does_not_come_through_hidapi_either(usb: FakeHidraw, readers: list[Reader]) -> None:
    usb.plug_in(meter(faults=Faults(garbage_first=3)))
    readers.append(Reader(usb))
    assert readers[0].wait_for("power_w")["power_w"] == 2.5
