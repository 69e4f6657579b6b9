"""Meters that are plugged in and that no setting names: they are reported, and never read."""

import logging
import threading
from collections.abc import Callable, Collection, Sequence

from errors import SettingsError
from meter.config import MeterEntry
from meter.sources import fnirsi_ports
from meter.transports import UsbDevice

log = logging.getLogger(__name__)

LOOK_S = 10.0
"""Between two looks. It is done in a thread of its own: listing devices may block."""


def strangers(
    plugged_in: Sequence[UsbDevice], entries: Sequence[MeterEntry], nodes_in_use: Collection[str]
) -> list[UsbDevice]:
    """FNIRSI meters that no entry means. None while an entry that takes the only meter has not found it yet."""
    wanted = [entry for entry in entries if entry.source == "fnirsi"]
    takes_any = any(entry.serial is None and entry.node is None for entry in wanted)
    if takes_any and not nodes_in_use:
        return []
    return [
        device
        for device in plugged_in
        if device.node not in nodes_in_use and not any(_means(entry, device) for entry in wanted)
    ]


def described(device: UsbDevice) -> str:
    """A meter in words that an operator can put into the settings."""
    model = fnirsi_ports.model_of(device)
    name = model.name if model else f"unknown model {device.product}".strip()
    return f"{name} at {device.node}, USB port {device.port or 'unknown'}, serial {device.serial or 'none'}"


class StrangerWatch:
    """Looks now and then. `remark` is for the status; each meter is one line in the log."""

    def __init__(
        self,
        entries: Sequence[MeterEntry],
        list_devices: Callable[[], Sequence[UsbDevice]] = fnirsi_ports.meters,
        look_s: float = LOOK_S,
    ) -> None:
        self._entries = entries
        self._list_devices = list_devices
        self._look_s = look_s
        self._said: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="strangers", daemon=True)
        self.nodes_in_use: Collection[str] = ()
        self.remark = ""

    def start(self) -> None:
        """Begin, after the meters had time to be opened."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; nothing waits for it."""
        self._stop.set()

    def look(self) -> None:
        """One look. Raises SettingsError where no module lists devices."""
        found = [described(each) for each in strangers(self._list_devices(), self._entries, self.nodes_in_use)]
        for what in found:
            if what not in self._said:
                log.warning("a meter is plugged in that no setting names, so it is not read: %s", what)
        self._said.update(found)
        self.remark = f"not in the settings: {'; '.join(found)}" if found else ""

    def _run(self) -> None:
        while not self._stop.wait(self._look_s):
            try:
                self.look()
            except (SettingsError, OSError) as error:
                log.debug("meters cannot be listed: %s", error)


def _means(entry: MeterEntry, device: UsbDevice) -> bool:
    if entry.serial is None and entry.node is None:
        return False
    return entry.serial in (None, device.serial) and entry.node in (None, device.node, device.port)
