"""The USB port of a simulated meter: a thread between the meter and a descriptor, in real time."""

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from itertools import count

from meter.devices.fnb58 import Fnb58
from meter.transports import UsbDevice
from meter.transports.descriptor import DescriptorTransport

FRAME_BYTES = 65
"""What a host writes to a hidraw node: a report id, which is 0, and a report."""
_LOOK_S = 0.1
"""A meter that says nothing looks so often whether it was unplugged."""


class Port:
    """Where one simulated meter is plugged in. The host opens it as it would open a node.

    Each time the meter is plugged in, its node has another name, as on Linux.
    """

    def __init__(self, device: Fnb58, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.device = device
        self._monotonic_ns = monotonic_ns
        self._numbers = count()
        self._node: str | None = None
        self._line: _Line | None = None

    def plug_in(self) -> None:
        """The meter gets power and appears under a new node."""
        self._node = f"/dev/hidraw{next(self._numbers)}"
        self.device.plug_in(self._monotonic_ns())

    def unplug(self) -> None:
        """The node vanishes; whoever has it open gets an error."""
        self._node = None
        self._hang_up()

    def open(self) -> DescriptorTransport:
        """The host's end of a new line to the meter, an older one is cut. Raises OSError when nothing is plugged in."""
        if self._node is None:
            raise OSError(errno.ENODEV, "no simulated meter is plugged in")
        self._hang_up()
        host, meter = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line = _Line(self.device, meter.detach(), self._monotonic_ns)
        return DescriptorTransport(host.detach(), UsbDevice(self._node))

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()


class _Line:
    """The meter's end of an open node, served by a thread until either side closes."""

    def __init__(self, device: Fnb58, descriptor: int, monotonic_ns: Callable[[], int]) -> None:
        self._descriptor = descriptor
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=serve,
            args=(device, descriptor, self._stop.is_set, monotonic_ns),
            name="simulated FNB58",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Takes at most as long as a meter takes to look."""
        self._stop.set()
        self._thread.join()
        os.close(self._descriptor)


def serve(
    device: Fnb58,
    descriptor: int,
    stopping: Callable[[], bool],
    monotonic_ns: Callable[[], int] = time.monotonic_ns,
) -> None:
    """Let a meter speak and listen on its end of a socket or pseudo-terminal, until told to stop or nobody is there.

    A report that the host has no room for is lost, as in the kernel's queue. The descriptor stays open.
    """
    os.set_blocking(descriptor, False)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    device.skip_to(monotonic_ns())
    while not stopping():
        try:
            if poll.poll(1000 * _patience_s(device, monotonic_ns())):
                frame = os.read(descriptor, FRAME_BYTES)
                if not frame:
                    return
                device.hear(frame[1:], monotonic_ns())
            for report in device.say(monotonic_ns()):
                _send(descriptor, report)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                return


def _patience_s(device: Fnb58, now_ns: int) -> float:
    """How long the meter has nothing to do."""
    return _LOOK_S if device.wake_ns is None else min(_LOOK_S, max(0.0, (device.wake_ns - now_ns) / 1e9))


def _send(descriptor: int, report: bytes) -> None:
    try:
        os.write(descriptor, report)
    except BlockingIOError:
        return
