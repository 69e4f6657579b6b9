"""Reports through a bare file descriptor: a hidraw node of Linux, or the socket of a simulated device."""

import errno
import os
import select
from pathlib import Path

from meter.transports import UsbDevice

REPORT_ID = b"\0"
"""What every write begins with: the meters have unnumbered reports (Linux, Documentation/hid/hidraw.rst)."""
_MOST_BYTES = 64


class DescriptorTransport:
    """Owns the descriptor, which must keep report boundaries: a hidraw node or a SEQPACKET socket does."""

    def __init__(self, descriptor: int, device: UsbDevice | None = None) -> None:
        """`descriptor` is closed by `close`."""
        self.device = device or UsbDevice(f"descriptor {descriptor}")
        self._descriptor: int | None = descriptor
        os.set_blocking(descriptor, False)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    @classmethod
    def open(cls, path: Path) -> "DescriptorTransport":
        """The device behind a path. Raises OSError."""
        return cls(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY), UsbDevice(str(path)))

    def read(self, timeout_s: float) -> bytes:
        """One report; empty after the time-out. Raises OSError when the device is gone."""
        descriptor = self._open_one()
        if not self._poll.poll(timeout_s * 1000):
            return b""
        try:
            report = os.read(descriptor, _MOST_BYTES)
        except BlockingIOError:
            return b""
        if not report:
            raise OSError(errno.ENODEV, "the device has closed")
        return report

    def write(self, report: bytes) -> None:
        """65 bytes go out, a report id of 0 first. Raises OSError."""
        written = os.write(self._open_one(), REPORT_ID + report)
        if written != len(report) + 1:
            raise OSError(errno.EIO, f"{written} of {len(report) + 1} bytes written")

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open_one(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, "closed")
        return self._descriptor
