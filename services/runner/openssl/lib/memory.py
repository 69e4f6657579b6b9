"""What a call adds to the memory of its process, by the kernel's own high-water mark (Linux)."""

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""proc_pid_clear_refs(5): the peak becomes what is resident."""


def growth_bytes(call: Callable[[], object]) -> int | None:
    """Peak resident memory during a call above that before it: heap and stack that it touches, in whole pages.

    The call runs in a thread, whose stack is fresh, after free heap was given back. A call that finds pages to use
    again shows less: take the highest of a few. None where the kernel does not tell, or nothing is seen.
    """
    _give_back_free_heap()
    seen: list[int | None] = []

    def watched() -> None:
        seen.append(_during(call))

    thread = threading.Thread(target=watched)
    thread.start()
    thread.join()
    return seen[0] if seen else None


def _during(call: Callable[[], object]) -> int | None:
    try:
        _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
        before_bytes = _status_bytes("VmRSS")
        call()
        return (_status_bytes("VmHWM") - before_bytes) or None
    except OSError:
        return None


def _status_bytes(name: str) -> int:
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise FileNotFoundError(name)


def _give_back_free_heap() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
