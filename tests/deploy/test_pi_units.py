"""The services and device rules of a board: hardened, and in step with the installer and the meters."""

import re
import shutil
import subprocess
from configparser import RawConfigParser
from importlib.util import find_spec
from pathlib import Path

import pytest

ROLES = ("runner", "meter")
EXPOSURE_LIMIT = 3.0
METERS = {("2e3c", "5558"), ("2e3c", "0049"), ("0483", "003a"), ("0483", "003b")}
"""Vendor and product numbers of the FNIRSI meters that are read as HID."""


def unit(repository: Path, role: str) -> dict[str, list[str]]:
    """All values of every name in a unit file."""
    found: dict[str, list[str]] = {}
    for line in (repository / f"deploy/pi/opjoule-{role}.service").read_text("utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("role", ROLES)
def test_systemd_rates_the_unit_as_well_protected(repository: Path, role: str) -> None:
    path = repository / f"deploy/pi/opjoule-{role}.service"
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)]
    rated = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    found = re.search(r"exposure level for \S+: ([\d.]+)", rated.stdout)
    assert found is not None, rated.stdout + rated.stderr
    assert float(found[1]) < EXPOSURE_LIMIT
    assert "Unknown" not in rated.stderr, rated.stderr


@pytest.mark.parametrize("role", ROLES)
def test_the_unit_starts_the_service_with_the_settings_that_the_installer_writes(repository: Path, role: str) -> None:
    values = unit(repository, role)
    assert values["ExecStart"] == [f"/opt/opjoule/venv/bin/python -m {role}"]
    assert find_spec(f"{role}.__main__") is not None
    assert values["EnvironmentFile"] == [f"/etc/opjoule/{role}/opjoule.env", f"-/etc/opjoule/{role}/local.env"]
    assert values["User"] == ["opjoule"] and values["StateDirectory"] == [f"opjoule/{role}"]
    assert f"OPJOULE_STATE_DIR=/var/lib/opjoule/{role}" in values["Environment"]
    script = (repository / "deploy/pi/install").read_text("utf-8")
    assert "OPT=$ROOT/opt/opjoule" in script and "VENV=$OPT/venv" in script and "$ROOT/etc/opjoule/$role" in script


def test_the_runner_looks_for_an_openssl_where_the_installer_unpacks_it(repository: Path) -> None:
    assert "XDG_CACHE_HOME=/opt/opjoule/cache" in unit(repository, "runner")["Environment"]
    assert "CACHE=$OPT/cache" in (repository / "deploy/pi/install").read_text("utf-8")


@pytest.mark.parametrize("role", ROLES)
def test_a_wrong_setting_is_not_tried_for_ever(repository: Path, role: str) -> None:
    assert unit(repository, role)["RestartPreventExitStatus"] == ["2"], "what load_or_exit ends with"


def test_the_meter_sees_usb_devices_and_no_others(repository: Path) -> None:
    values = unit(repository, "meter")
    assert values["DevicePolicy"] == ["closed"] and "PrivateDevices" not in values
    assert set(values["DeviceAllow"]) == {"char-hidraw rw", "char-usb_device rw", "char-ttyACM rw"}
    assert values["SupplementaryGroups"] == ["dialout"]
    assert unit(repository, "runner")["PrivateDevices"] == ["yes"]


@pytest.mark.parametrize("role", ROLES)
def test_the_unit_is_whole(repository: Path, role: str) -> None:
    parser = RawConfigParser(strict=False)
    parser.read(repository / f"deploy/pi/opjoule-{role}.service")
    assert parser.sections() == ["Unit", "Service", "Install"]
    assert parser.get("Install", "WantedBy") == "multi-user.target"


def rules(repository: Path) -> list[list[tuple[str, str, str]]]:
    """Name, operator and value of every part of every rule."""
    text = (repository / "deploy/udev/60-opjoule-meters.rules").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    part = re.compile(r'([A-Z]+(?:\{[^}]+\})?)(==|=)"([^"]*)"')
    for line in lines:
        assert all(part.fullmatch(each.strip()) for each in line.split(",")), line
    return [part.findall(line) for line in lines]


@pytest.mark.parametrize(("subsystem", "attribute"), [("hidraw", "ATTRS"), ("usb", "ATTR")])
def test_every_meter_is_opened_for_the_group_and_never_for_the_world(
    repository: Path, subsystem: str, attribute: str
) -> None:
    opened = set()
    for rule in rules(repository):
        parts = {(name, operator): value for name, operator, value in rule}
        if parts["SUBSYSTEM", "=="] == subsystem and ("MODE", "=") in parts:
            assert (parts["GROUP", "="], parts["MODE", "="]) == ("opjoule", "0660")
            opened.add((parts[f"{attribute}{{idVendor}}", "=="], parts[f"{attribute}{{idProduct}}", "=="]))
    assert opened == METERS


def test_no_rule_opens_every_device_of_a_vendor(repository: Path) -> None:
    for rule in rules(repository):
        names = {name for name, operator, _ in rule if operator == "=="}
        assert any("idVendor" in name for name in names) and any("idProduct" in name for name in names)
