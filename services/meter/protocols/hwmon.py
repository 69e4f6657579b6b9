"""What the files of Linux's hardware monitoring say, as Documentation/hwmon/sysfs-interface of the kernel defines them.

`inN_input` is in mV, `currN_input` in mA, `powerN_input` in uW, `update_interval` in ms; each a whole number as text.
"""

from collections.abc import Collection
from dataclasses import dataclass

from errors import FrameError

INA_CHIPS = ("ina219", "ina220", "ina226", "ina230", "ina231", "ina234", "ina260", "ina3221")
"""Of the drivers ina2xx and ina3221: `inN` and `currN` are voltage and current of one supply line. Of other chips that
is not said, so that only their own power counts."""
_CHANNELS = range(1, 17)
_SUPPLIES_OF_INA3221 = 3
"""Its `in4` to `in6` are drops over shunts and its `curr4` is a sum."""


@dataclass(frozen=True, slots=True)
class ChannelFiles:
    """Which files of a chip give the power of one channel: either voltage and current, or the power."""

    channel: int
    power: str | None = None
    voltage: str | None = None
    current: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Those that must be read, in the order that `decode` takes."""
        return tuple(name for name in (self.power, self.voltage, self.current) if name is not None)

    @property
    def labels(self) -> tuple[str, ...]:
        """Where the channel's label may stand."""
        return tuple(f"{name.rpartition('_')[0]}_label" for name in self.names)


def channels(chip: str, files: Collection[str]) -> list[ChannelFiles]:
    """The channels of a chip whose power can be known, by the names of its files.

    Of an INA chip voltage times current counts: its power register has steps of 20 or 25 times that of the current.
    """
    found = []
    for channel in _CHANNELS:
        voltage, current = f"in{channel}_input", f"curr{channel}_input"
        power = next((name for name in (f"power{channel}_input", f"power{channel}_average") if name in files), None)
        is_supply = chip in INA_CHIPS and not (chip == "ina3221" and channel > _SUPPLIES_OF_INA3221)
        if is_supply and voltage in files and current in files:
            found.append(ChannelFiles(channel, voltage=voltage, current=current))
        elif power is not None:
            found.append(ChannelFiles(channel, power=power))
    return found


def decode(files: ChannelFiles, texts: tuple[str, ...]) -> tuple[float, float | None, float | None]:
    """Power in W, and where they are known voltage in V and current in A. Raises FrameError: that is no number."""
    numbers = [number(text) for text in texts]
    if files.power is not None:
        return numbers[0] / 1e6, None, None
    voltage_v, current_a = numbers[0] / 1e3, numbers[1] / 1e3
    return voltage_v * current_a, voltage_v, current_a


def number(text: str) -> int:
    """A whole number as the kernel writes it. Raises FrameError."""
    try:
        return int(text.strip())
    except ValueError:
        raise FrameError(f"not_a_number: {text.strip()[:40]!r}") from None
