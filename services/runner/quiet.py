"""How busy the machine is with what is not ours, and the core that is ours."""

import os
import time
from pathlib import Path

from errors import SettingsError

LEAST_WINDOW_S = 0.4
"""Linux counts CPU time in steps of 10 ms: shorter windows say little."""
_BUSY_FIELDS = (1, 2, 3, 6, 7, 8)
"""user, nice, system, irq, softirq, steal in the first line of /proc/stat (proc(5)); the others wait."""


class OthersLoad:
    """CPU time of everybody else since this was made: that of the machine less that of this process and its children.

    Not the load average, which lags by a minute and counts our own trains.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._stat = root / "proc/stat"
        self._start_s = time.monotonic()
        self._busy_s = self._machine_s()
        self._own_s = _own_s()

    def cores(self) -> float | None:
        """Mean number of processors kept busy; None where it cannot be told, or after too short a window."""
        elapsed_s = time.monotonic() - self._start_s
        busy_s = self._machine_s()
        if busy_s is None or self._busy_s is None or elapsed_s < LEAST_WINDOW_S:
            return None
        others_s = (busy_s - self._busy_s) - (_own_s() - self._own_s)
        return max(0.0, others_s / elapsed_s)

    def _machine_s(self) -> float | None:
        try:
            fields = self._stat.read_text(encoding="ascii", errors="replace").partition("\n")[0].split()
            return sum(int(fields[index]) for index in _BUSY_FIELDS) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return None


def _own_s() -> float:
    """CPU time of this process and of the children that it has reaped, in s."""
    return sum(os.times()[:4])


def pin_to(core: int) -> None:
    """Run on this processor only, with all processes started from now on. Raises SettingsError where that cannot be."""
    if not hasattr(os, "sched_setaffinity"):
        raise SettingsError("--core (OPJOULE_CORE): this system cannot pin a process to a processor")
    try:
        os.sched_setaffinity(0, {core})
    except (OSError, OverflowError):
        usable = ", ".join(str(each) for each in sorted(os.sched_getaffinity(0)))
        raise SettingsError(f"--core (OPJOULE_CORE): no processor {core}; usable here are {usable}") from None
