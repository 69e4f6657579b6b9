"""The clock of a service: its timeline (DESIGN.md 3) never steps, whatever the wall clock does."""

import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from schemas import HostClock

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class ServiceClock:
    """Monotonic clock plus a constant that is taken from the wall clock once, at start."""

    wall_minus_monotonic_ns: int = field(default_factory=lambda: time.time_ns() - time.monotonic_ns())
    timeline_id: str = field(default_factory=lambda: secrets.token_hex(8))
    boot_id: str | None = field(default_factory=_boot_id)

    def now_ns(self) -> int:
        """This moment on the timeline, in ns, near Unix time."""
        return time.monotonic_ns() + self.wall_minus_monotonic_ns

    def at_ns(self, monotonic_ns: int) -> int:
        """A reading of `time.monotonic_ns()` on the timeline."""
        return monotonic_ns + self.wall_minus_monotonic_ns

    @property
    def host_clock(self) -> HostClock | None:
        """What joins two services on one host without measuring an offset; None where there is no boot id."""
        if self.boot_id is None:
            return None
        return HostClock(boot_id=self.boot_id, wall_minus_monotonic_ns=self.wall_minus_monotonic_ns)


def rfc3339(t_ns: int) -> str:
    """A time in ns since 1970 as RFC 3339 in UTC, all nine digits kept."""
    seconds, rest = divmod(t_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
