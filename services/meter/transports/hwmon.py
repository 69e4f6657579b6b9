"""Power sensors of Linux's hardware monitoring: finding their folders, reading their files."""

import os
from dataclasses import dataclass
from pathlib import Path

from errors import FrameError
from meter.protocols.hwmon import ChannelFiles, channels, number

HWMON = Path("/sys/class/hwmon")
_MOST_BYTES = 64


@dataclass(frozen=True, slots=True)
class PowerSensor:
    """One channel of a chip that is there now. The number in `folder` may be another after the next start."""

    folder: Path
    chip: str
    device: str
    """Where on its bus the chip is, e.g. `1-0040`: bus 1, address 0x40; empty where the kernel does not say."""
    label: str | None
    files: ChannelFiles
    update_s: float | None
    """Time between two measurements as the driver states it; None where it does not."""

    @property
    def name(self) -> str:
        """What tells it from all others of the host: `ina226@1-0040/1`, or with a label instead of the channel."""
        return f"{self.chip}@{self.device}/{self.label or self.files.channel}"

    def is_called(self, name: str) -> bool:
        """Whether somebody may mean it: its name, chip, device or label, or chip or device with channel or label."""
        parts = [str(self.files.channel), *([self.label] if self.label else [])]
        heads = [self.chip, self.device, f"{self.chip}@{self.device}"]
        return name in {*parts[1:], *heads, *(f"{head}/{part}" for head in heads for part in parts)}


def power_sensors(root: Path = HWMON) -> list[PowerSensor]:
    """Every channel of this host whose power can be known; empty where there is no hardware monitoring."""
    found = []
    for folder in sorted(root.glob("hwmon*")):
        chip = _text(folder / "name")
        if chip is not None:
            names = {path.name for path in folder.iterdir()}
            found += [_sensor(folder, chip, files) for files in channels(chip, names)]
    return found


class OpenSensor:
    """The files of a sensor, held open. Every method but `close` may raise OSError."""

    def __init__(self, sensor: PowerSensor) -> None:
        self.sensor = sensor
        self._fds: list[int] = []
        try:
            for name in sensor.files.names:
                self._fds.append(os.open(sensor.folder / name, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise

    def read(self) -> tuple[str, ...]:
        """The files' texts, read one after the other: a measurement may end in between."""
        return tuple(os.pread(fd, _MOST_BYTES, 0).decode("ascii", errors="replace") for fd in self._fds)

    def close(self) -> None:
        """Give the files back; may be called again."""
        while self._fds:
            os.close(self._fds.pop())


def _sensor(folder: Path, chip: str, files: ChannelFiles) -> PowerSensor:
    device = folder / "device"
    labels = (_text(folder / name) for name in files.labels)
    return PowerSensor(
        folder=folder,
        chip=chip,
        device=device.resolve().name if device.exists() else "",
        label=next((label for label in labels if label), None),
        files=files,
        update_s=_update_s(folder),
    )


def _update_s(folder: Path) -> float | None:
    text = _text(folder / "update_interval")
    try:
        return number(text) / 1e3 if text else None
    except FrameError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
