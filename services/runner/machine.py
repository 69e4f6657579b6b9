"""The board: what it is, and what disturbs it. None where a machine does not have a sensor."""

import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas import Board, Disturbance

_THROTTLED_NOW = 0xF
"""Under-voltage, capped, throttled, soft temperature limit: low bits of get_throttled (Raspberry Pi documentation)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What does not change while the service runs."""

    model: str
    architecture: str
    bits: Literal[32, 64]
    cpu: str
    cores: int
    memory_bytes: int
    operating_system: str
    kernel: str
    python: str

    def board(self, openssl_version: str) -> Board:
        """What is frozen into events."""
        return Board(model=self.model, architecture=self.architecture, bits=self.bits, openssl=openssl_version)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What may disturb a train, at one moment. `throttled_flags` are those of the Raspberry Pi firmware."""

    load_average: float | None
    temperature_c: float | None
    frequency_hz: float | None
    throttled_flags: int | None


def read_machine(root: Path = Path("/")) -> Machine:
    """The machine as its files under `root` describe it."""
    architecture = platform.machine() or "unknown"
    return Machine(
        model=_model(root) or f"unknown {architecture} machine",
        architecture=architecture,
        bits=64 if sys.maxsize > 2**32 else 32,
        cpu=_cpu(root) or architecture,
        cores=os.cpu_count() or 1,
        memory_bytes=_memory_bytes(root),
        operating_system=_quoted(_text(root / "etc/os-release"), "PRETTY_NAME") or platform.system(),
        kernel=platform.release(),
        python=platform.python_version(),
    )


def read_conditions(root: Path = Path("/")) -> Conditions:
    """Load, temperature, frequency and throttling now."""
    load = _text(root / "proc/loadavg").split()
    millicelsius = _integer(root / "sys/class/thermal/thermal_zone0/temp")
    kilohertz = _integer(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
    return Conditions(
        load_average=float(load[0]) if load else None,
        temperature_c=None if millicelsius is None else millicelsius / 1000,
        frequency_hz=None if kilohertz is None else kilohertz * 1000.0,
        throttled_flags=_throttled_flags(root),
    )


def disturbance(
    before: Conditions, after: Conditions, *, busy: bool | None = None, governor: str | None = None
) -> Disturbance:
    """Both moments side by side. Throttled: at either, or at any time between (the firmware's sticky bits)."""
    return Disturbance(
        load_average=_both(before.load_average, after.load_average),
        temperature_c=_both(before.temperature_c, after.temperature_c),
        frequency_hz=_both(before.frequency_hz, after.frequency_hz),
        throttled=_throttled(before.throttled_flags, after.throttled_flags),
        busy=busy,
        governor=governor,
    )


def _both(before: float | None, after: float | None) -> tuple[float, float] | None:
    return None if before is None or after is None else (before, after)


def _throttled(before: int | None, after: int | None) -> bool | None:
    if before is None or after is None:
        return None
    return bool((before | after) & _THROTTLED_NOW or after & ~before)


def _throttled_flags(root: Path) -> int | None:
    """The firmware's flags, else (on kernels without that file) its under-voltage alarm alone."""
    for path in (root / "sys/devices/platform").glob("soc/*firmware/get_throttled"):
        text = _text(path).strip()
        if re.fullmatch(r"(0x)?[0-9a-fA-F]+", text):
            return int(text, 16)
    for folder in (root / "sys/class/hwmon").glob("hwmon*"):
        if _text(folder / "name").strip() == "rpi_volt":
            return _integer(folder / "in0_lcrit_alarm")
    return None


def _model(root: Path) -> str:
    device_tree = _text(root / "proc/device-tree/model").strip("\0 \n")
    if device_tree:
        return device_tree[:200]
    identity = root / "sys/class/dmi/id"
    named = (_text(identity / name).strip() for name in ("sys_vendor", "product_name"))
    return " ".join(name for name in named if name)[:200]


def _cpu(root: Path) -> str:
    """The model name; most 64-bit ARM kernels give numbers instead (Arm: Main ID Register)."""
    text = _text(root / "proc/cpuinfo")
    name = _line(text, "model name")
    if name:
        return name[:200]
    implementer, part = _line(text, "CPU implementer"), _line(text, "CPU part")
    return f"CPU implementer {implementer}, part {part}" if implementer and part else ""


def _memory_bytes(root: Path) -> int:
    match = re.search(r"^MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _line(text: str, name: str) -> str:
    match = re.search(rf"^{re.escape(name)}\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _quoted(text: str, name: str) -> str:
    match = re.search(rf'^{name}="?([^"\n]*)"?$', text, re.MULTILINE)
    return match[1][:200] if match else ""


def _integer(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
