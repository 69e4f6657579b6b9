"""Which HID devices are plugged in. It lists, it opens nothing."""

import os
import re
from collections.abc import Collection
from pathlib import Path

from meter.transports import UsbDevice
from meter.transports.hidraw import GLOBAL_ERROR, HidModule, hid_module, is_node

_PORT = re.compile(r"\d+-\d+(\.\d+)*")


def devices(vendors: Collection[int], module: HidModule | None = None, sys: Path = Path("/sys")) -> list[UsbDevice]:
    """The HID interfaces of these USB vendors, each path once, by path. Raises SettingsError without `hidapi`.

    An interface is known by its class, never by its number: hidapi lists nothing that is not HID.
    """
    found: dict[str, UsbDevice] = {}
    with GLOBAL_ERROR:
        entries = (module or hid_module()).enumerate()
    for entry in entries:
        if entry["vendor_id"] in vendors:
            node = os.fsdecode(entry["path"])
            found[node] = UsbDevice(
                node=node,
                ids=(entry["vendor_id"], entry["product_id"]),
                serial=entry.get("serial_number") or None,
                product=(entry.get("product_string") or "").strip(),
                port=_port_of(node, sys),
            )
    return [found[node] for node in sorted(found, key=_natural)]


def _port_of(node: str, sys: Path) -> str | None:
    """libusb says it in the path; of a hidraw node the kernel's device tree knows it."""
    if not is_node(node):
        return node.partition(":")[0] if _PORT.match(node) else None
    parts = os.path.realpath(sys / "class" / "hidraw" / Path(node).name / "device").split("/")
    ports = [part for part in parts if _PORT.fullmatch(part)]
    return ports[-1] if ports else None


def _natural(node: str) -> tuple[str, int]:
    """hidraw10 after hidraw9."""
    digits = re.search(r"\d+$", node)
    return (node[: digits.start()], int(digits[0])) if digits else (node, 0)
