"""Moving bytes to and from meters. A transport knows nothing of frames."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class UsbDevice:
    """Where a device is plugged in and what its USB descriptors say. None and empty: not known."""

    node: str
    """What is opened, e.g. `/dev/hidraw3`; another one after a replug."""
    ids: tuple[int, int] | None = None
    """Vendor and product."""
    serial: str | None = None
    product: str = ""
    port: str | None = None
    """The USB port in the kernel's notation, e.g. `1-1.4`: it stays the same as long as nobody moves the plug."""


class ReportTransport(Protocol):
    """A device that speaks in reports. Every method but `close` raises OSError when the device is gone."""

    def read(self, timeout_s: float) -> bytes:
        """One report as it came; empty after the time-out, at once when it is 0."""
        ...

    def write(self, report: bytes) -> None:
        """Send one report of 64 bytes, without a report id."""
        ...

    def close(self) -> None:
        """Give the device back; may be called again."""
        ...


class UsbTransport(ReportTransport, Protocol):
    """A transport that knows what it has opened."""

    @property
    def device(self) -> UsbDevice:
        """What was opened, and where."""
        ...
