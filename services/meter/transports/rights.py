"""Who may open a device, and what the operator must do where this user may not: one text for service and doctor."""

import errno
import os
from pathlib import Path

RULES = "deploy/udev/60-opjoule-meters.rules"
"""For hidraw, and for where `hidapi` has only libusb."""
_WITHOUT_RULE = ("", "root")


def hid_rights_needed(node: str) -> str:
    """Of a FNIRSI meter, at a node or at a path of libusb: the rule is not installed, or this user not in its group."""
    group = group_of(Path(node))
    if group not in _WITHOUT_RULE:
        return _join(node, group)
    return (
        f"this user may not open {node}: the operator must install the udev rule: `sudo groupadd -f opjoule`, "
        f"`sudo cp {RULES} /etc/udev/rules.d/`, `sudo udevadm control --reload`, "
        "`sudo usermod -aG opjoule $USER`; then log in anew and plug the meter in again"
    )


def file_rights_needed(node: str, file: Path) -> str:
    """Of a serial port, or a file of a sensor."""
    return _join(node, group_of(file) or "dialout")


def group_of(file: Path) -> str:
    """The name of a file's group; empty where it has none that is known, or there is no such file."""
    if os.name != "posix":
        return ""
    try:
        return file.group()
    except KeyError:
        return ""
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.EACCES):
            return ""
        raise


def _join(node: str, group: str) -> str:
    return (
        f"this user may not open {node}: the operator must add it to the group of that file: "
        f"`sudo usermod -aG {group} $USER`; then log in anew"
    )
