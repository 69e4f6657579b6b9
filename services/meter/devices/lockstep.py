"""A simulated meter and its reader by turns in one thread, on a clock that only waiting moves: a day takes minutes.

The reports still go through a descriptor, and the reader through its real transport.
"""

import errno
import heapq
import math
import socket
from collections import deque
from collections.abc import Callable
from itertools import count

from meter.devices.fnb58 import Fnb58
from meter.devices.port import FRAME_BYTES
from meter.sources.pacing import Pacing
from meter.transports import UsbDevice
from meter.transports.descriptor import DescriptorTransport

QUEUE_REPORTS = 63
"""What Linux keeps for a reader that is away (64 slots of drivers/hid/hidraw.c, of which 63 hold)."""


def undelayed() -> int:
    """No delay, in ns."""
    return 0


class Lockstep:
    """One simulated meter at one port. Give the reader `open` and `pacing`; it moves time when it waits.

    `delay_ns` is drawn once per report: how much later than sent it reaches the host. Reports keep their order.
    """

    def __init__(self, device: Fnb58, delay_ns: Callable[[], int] = undelayed) -> None:
        self.device = device
        self.now_ns = 1_000_000_000
        self.overflowed = 0
        """Reports that the host's queue had no room for."""
        self.pacing = Pacing(self.monotonic_ns, self.sleep)
        self._delay_ns = delay_ns
        self._on_way: deque[tuple[int, bytes]] = deque()
        self._due: list[tuple[int, int, Callable[[], object]]] = []
        self._order = count()
        self._numbers = count()
        self._node: str | None = None
        self._meter: socket.socket | None = None
        self._unread = 0

    def monotonic_ns(self) -> int:
        """This moment."""
        return self.now_ns

    def sleep(self, duration_s: float) -> None:
        """Time passes, and the meter goes on meanwhile: the host is away."""
        self.wait(self.now_ns + math.ceil(duration_s * 1e9), lambda: False)

    def at(self, after_s: float, action: Callable[[], object]) -> None:
        """Do this when so much more time has passed, e.g. `unplug`."""
        heapq.heappush(self._due, (self.now_ns + round(after_s * 1e9), next(self._order), action))

    def plug_in(self) -> None:
        """The meter gets power and appears under a new node."""
        self._node = f"/dev/hidraw{next(self._numbers)}"
        self.device.plug_in(self.now_ns)

    def unplug(self) -> None:
        """The node vanishes; whoever has it open gets an error."""
        self._node = None
        self._hang_up()

    def open(self) -> "LockstepTransport":
        """The host's end of a new line to the meter, an older one is cut. Raises OSError when nothing is plugged in."""
        if self._node is None:
            raise OSError(errno.ENODEV, "no simulated meter is plugged in")
        self._hang_up()
        host, self._meter = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._meter.setblocking(False)
        self.device.skip_to(self.now_ns)
        return LockstepTransport(self, DescriptorTransport(host.detach(), UsbDevice(self._node)))

    def wait(self, end_ns: int, is_over: Callable[[], bool]) -> None:
        """Let time pass until then, or until it is over."""
        while not is_over():
            next_ns = min(end_ns, self._next_ns(end_ns))
            self.now_ns = max(self.now_ns, next_ns)
            self._act()
            if next_ns >= end_ns:
                return

    def listen(self) -> None:
        """The meter hears what the host wrote."""
        while self._meter is not None:
            try:
                frame = self._meter.recv(FRAME_BYTES)
            except BlockingIOError:
                return
            if not frame:
                return
            self.device.hear(frame[1:], self.now_ns)
            self._speak()

    def took(self) -> None:
        """The host read a report."""
        self._unread -= 1

    @property
    def has_news(self) -> bool:
        """Whether reading would give a report or an error at once."""
        return self._unread > 0 or self._meter is None

    def _hang_up(self) -> None:
        if self._meter is not None:
            self._meter.close()
        self._meter, self._unread = None, 0
        self._on_way.clear()

    def _next_ns(self, end_ns: int) -> int:
        moments = [end_ns]
        if self._meter is not None and self.device.wake_ns is not None:
            moments.append(self.device.wake_ns)
        moments += [arrival_ns for arrival_ns, _ in [*self._on_way][:1]]
        moments += [moment_ns for moment_ns, _, _ in self._due[:1]]
        return min(moments)

    def _act(self) -> None:
        while self._due and self._due[0][0] <= self.now_ns:
            heapq.heappop(self._due)[2]()
        if self._meter is not None:
            self._speak()

    def _speak(self) -> None:
        for report in self.device.say(self.now_ns):
            earliest_ns = self._on_way[-1][0] if self._on_way else 0
            self._on_way.append((max(earliest_ns, self.now_ns + self._delay_ns()), report))
        while self._meter is not None and self._on_way and self._on_way[0][0] <= self.now_ns:
            _, report = self._on_way.popleft()
            if self._unread < QUEUE_REPORTS:
                self._meter.send(report)
                self._unread += 1
            else:
                self.overflowed += 1


class LockstepTransport:
    """The reader's transport, which lets time pass while it waits for a report."""

    def __init__(self, lockstep: Lockstep, line: DescriptorTransport) -> None:
        self._lockstep = lockstep
        self._line = line

    @property
    def device(self) -> UsbDevice:
        """What was opened."""
        return self._line.device

    def read(self, timeout_s: float) -> bytes:
        """One report; empty after the time-out. Raises OSError when the meter is gone."""
        lockstep = self._lockstep
        lockstep.wait(lockstep.now_ns + math.ceil(timeout_s * 1e9), lambda: lockstep.has_news)
        report = self._line.read(0)
        if report:
            lockstep.took()
        return report

    def write(self, report: bytes) -> None:
        """Send one report, which the meter hears at once. Raises OSError when the meter is gone."""
        self._line.write(report)
        self._lockstep.listen()

    def close(self) -> None:
        """Give the meter back."""
        self._line.close()
