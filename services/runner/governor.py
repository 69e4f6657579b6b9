"""The CPU frequency governor: `performance` around a train, and what was there before after it, also after a kill.

Where a governor saves power, the frequency follows the load, and a train measures that rule as well: its load segments
begin at a low frequency. What to restore is noted on disk before anything is changed; the next start finds it.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.notes import drop_note, read_note, write_note

log = logging.getLogger(__name__)

PERFORMANCE = "performance"
_CPUS = "sys/devices/system/cpu"
_LINE = re.compile(r"(cpu\d+) ([a-z_0-9]+)")


class Governor:
    """Of all processors of this machine (Linux: Documentation/admin-guide/pm/cpufreq.rst).

    Where they cannot be changed, one line says so, and trains are measured with what is there.
    """

    def __init__(self, note: Path, *, wanted: bool = True, root: Path = Path("/")) -> None:
        self._note = note
        self._wanted = wanted
        self._cpus = root / _CPUS

    def name(self) -> str | None:
        """That of the first processor; None on a machine without."""
        governors = self._read()
        return next(iter(governors.values()), None)

    def restore_left(self) -> None:
        """Undo what a killed runner could not."""
        if self._before():
            self._restore()
            log.info("CPU governor restored that a killed runner had changed")

    @contextmanager
    def performance(self) -> Iterator[None]:
        """`performance` inside, if that was asked for and is permitted."""
        changed = self._wanted and self._raise()
        try:
            yield
        finally:
            if changed:
                self._restore()

    def _raise(self) -> bool:
        """Whether there is something to restore."""
        others = {cpu: name for cpu, name in self._read().items() if name != PERFORMANCE}
        if not others:
            return False
        try:
            write_note(self._note, "".join(f"{cpu} {name}\n" for cpu, name in others.items()))
            for cpu in others:
                self._path(cpu).write_text(PERFORMANCE)
        except OSError as error:
            self._wanted = False
            name = next(iter(others.values()))
            log.warning("CPU governor stays %s (%s): trains are measured with it", name, error.strerror)
            self._restore()
            return False
        return True

    def _restore(self) -> None:
        """Only where it is still ours: what somebody chose meanwhile stays."""
        now = self._read()
        try:
            for cpu, name in self._before().items():
                if now.get(cpu) == PERFORMANCE:
                    self._path(cpu).write_text(name)
            drop_note(self._note)
        except OSError as error:
            log.warning("CPU governor cannot be restored (%s): it stays %s", error.strerror, PERFORMANCE)

    def _before(self) -> dict[str, str]:
        return dict(_LINE.findall(read_note(self._note)))

    def _read(self) -> dict[str, str]:
        """By processor, in the order of their numbers."""
        names = {path.parent.parent.name: read_note(path).strip() for path in self._cpus.glob(f"cpu*/{_FILE}")}
        return {cpu: names[cpu] for cpu in sorted(names, key=lambda cpu: (len(cpu), cpu)) if names[cpu]}

    def _path(self, cpu: str) -> Path:
        return self._cpus / cpu / _FILE


_FILE = "cpufreq/scaling_governor"
