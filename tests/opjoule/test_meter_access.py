"""Whether a meter may be opened: rights, and other programs that have it open; who must do what about it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from meter.devices.tc66c import Tc66OnPty
from meter.transports import UsbDevice, rights
from opjoule.meter import doctor
from opjoule.meter.doctor import examine, how_to_be_let_in
from opjoule.meter.findings import worst
from opjoule.meter.holders import holders
from opjoule.meter.plugged import Plugged
from tests.opjoule.test_meter_doctor import METER, levels, text_of


@pytest.mark.parametrize(
    ("plugged", "group", "says"),
    [
        (METER, "root", "60-opjoule-meters.rules"),
        (METER, "opjoule", "sudo usermod -aG opjoule $USER"),
        (Plugged("tc66c", "TC66C", UsbDevice("/dev/ttyACM0")), "dialout", "sudo usermod -aG dialout $USER"),
    ],
    ids=["no rule", "not in the group", "serial"],
)
def test_a_user_who_may_not_open_a_meter_is_told_the_commands(
    plugged: Plugged, group: str, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rights, "group_of", lambda _file: group)
    closed = Plugged(plugged.source, plugged.model, plugged.device, files=(tmp_path / "missing",))
    found = list(examine(closed))
    assert levels(found)["rights"] == "error"
    assert says in found[-1].text
    assert found[-1].text == how_to_be_let_in(closed)


def test_the_rules_that_it_names_are_shipped(repository: Path) -> None:
    assert (repository / rights.RULES).is_file()


def test_a_program_that_has_the_node_open_is_named(tmp_path: Path) -> None:
    node = tmp_path / "hidraw0"
    node.touch()
    process = tmp_path / "proc" / "4242"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "7").symlink_to(node)
    (process / "comm").write_text("flashmon\n")
    own = tmp_path / "proc" / str(os.getpid()) / "fd"
    own.mkdir(parents=True)
    (own / "3").symlink_to(node)
    (tmp_path / "proc" / "99").mkdir()
    assert holders(str(node), tmp_path / "proc") == ["flashmon (process 4242)"]
    assert holders(str(tmp_path / "other"), tmp_path / "proc") == []


@pytest.fixture
def tc66c(tmp_path: Path) -> Iterator[Tc66OnPty]:
    """A TC66C that is plugged in."""
    meter = Tc66OnPty(tmp_path / "ttyACM0")
    meter.plug_in()
    yield meter
    meter.unplug()


@contextmanager
def held_open(path: Path, lock: bool) -> Iterator[int]:
    """Another program has it open, with a lock or without; its process."""
    code = "import os, sys, fcntl; fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); "
    code += "fcntl.flock(fd, fcntl.LOCK_EX); " if lock else ""
    code += "print('open', flush=True); sys.stdin.read()"
    command_line = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.stdin.close()


def test_a_meter_that_another_program_reads_is_an_error_that_names_it(tc66c: Tc66OnPty) -> None:
    plugged = Plugged("tc66c", "TC66C", UsbDevice(str(tc66c.path)), files=(tc66c.path,))
    with held_open(tc66c.path, lock=True) as pid:
        found = list(examine(plugged))
    assert levels(found) == {"device": "ok", "opening": "error"}
    assert "is in use by another program" in found[-1].text
    assert f"(process {pid}) has it open" in found[-1].text


def test_a_program_that_keeps_nobody_out_raises_a_doubt(tc66c: Tc66OnPty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LISTEN_S", 0.5)
    plugged = Plugged("tc66c", "TC66C", UsbDevice(str(tc66c.path)), files=(tc66c.path,))
    with held_open(tc66c.path, lock=False) as pid:
        found = list(examine(plugged))
    assert levels(found)["others"] == "doubt"
    assert f"(process {pid}) has it open too" in text_of(found, "others")
    assert worst(found) == "doubt"


def test_what_another_program_does_to_a_meter_is_told_by_how_the_kernel_shares_it(
    monkeypatch: pytest.MonkeyPatch, tc66c: Tc66OnPty
) -> None:
    monkeypatch.setattr(doctor, "_opening", lambda _open: "")
    monkeypatch.setattr(doctor, "holders", lambda _node: ["flashmon (process 4242)"])
    serial = Plugged("tc66c", "TC66C", UsbDevice(str(tc66c.path)), files=(tc66c.path,))
    hidraw = Plugged("fnirsi", "FNB58", METER.device, files=(tc66c.path,))
    of_serial, of_hidraw = (list(doctor._access(each))[-1].text for each in (serial, hidraw))
    assert of_serial.endswith("each may take what was meant for the other")
    assert of_hidraw.endswith("both get every report, and the meter hears the commands of both")
