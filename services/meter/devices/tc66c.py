"""A TC66C that is not there: it speaks the real bytes on a pseudo-terminal, and can be told to misbehave. On POSIX."""

import os
import select
import threading
import time
import tty
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from meter.protocols.tc66c import (
    BLOCK_BYTES,
    BOOTLOADER,
    ENERGY_STEP_J,
    MEASURING,
    POLL,
    QUERY,
    Tc66Reply,
    encode_reply,
)

Supply = Callable[[], tuple[float, float]]
"""VBUS in V and IBUS in A at this moment."""
_WRAP = 2**32


def steady() -> tuple[float, float]:
    """5.1234 V and 0.61234 A, always."""
    return (5.1234, 0.61234)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one reply; as it stands: nothing."""

    keep_bytes: int | None = None
    """A short reply: only so many bytes of it come."""
    in_pieces: bool = False
    """Every byte is written for itself."""
    before: bytes = b""
    """Extra bytes before it."""
    wrong_crc_in: int | None = None
    """Of its three blocks."""
    order: tuple[int, int, int] = (0, 1, 2)
    delay_s: float = 0.0
    """How long the meter takes to answer; longer than the reader waits: a late reply."""
    silent: bool = False


@dataclass(slots=True)
class Tc66Device:
    """The meter itself, without a wire: commands in, bytes out. Set its fields to make it misbehave."""

    supply: Supply = steady
    serial: int = 4242
    mode: bytes = MEASURING
    temperature_c: int = 27
    group: int = 0
    energy_steps: list[int] = field(default_factory=lambda: [0, 0])
    faults: deque[Fault] = field(default_factory=deque)
    """Of the next replies, one each."""
    usual: Fault = Fault()
    """Of all replies for which none is queued."""
    answered: int = 0
    """How many times it was polled; the replies say so as their number of power-ups."""
    _energy_j: float = 0.0
    _last_s: float | None = None

    def command(self, command: bytes, now_s: float) -> tuple[Fault, bytes]:
        """What it says to a command, and how; nothing to one that it does not know."""
        if command == QUERY:
            return Fault(), self.mode
        if command != POLL or self.mode == BOOTLOADER:
            return Fault(silent=True), b""
        fault = self.faults.popleft() if self.faults else self.usual
        self.answered += 1
        return fault, _spoil(encode_reply(self._reply(now_s), fault.order), fault)

    def reset_counters(self) -> None:
        """As its user does by a long press."""
        self.energy_steps = [0, 0]

    def _reply(self, now_s: float) -> Tc66Reply:
        voltage_v, current_a = self.supply()
        self._count(voltage_v * current_a, now_s)
        return Tc66Reply(
            product="TC66",
            firmware="1.18",
            serial=self.serial,
            power_ups=self.answered,
            voltage_v=voltage_v,
            current_a=current_a,
            meter_power_w=round(1e4 * voltage_v) // 100 / 100 * current_a,
            resistance_ohm=min(voltage_v / max(current_a, 1e-5), 9999.9),
            charge_steps=(0, 0),
            energy_steps=(self.energy_steps[0], self.energy_steps[1]),
            temperature_c=self.temperature_c,
            d_plus_v=0.61,
            d_minus_v=0.6,
        )

    def _count(self, power_w: float, now_s: float) -> None:
        self._energy_j += power_w * (now_s - (self._last_s if self._last_s is not None else now_s))
        self._last_s = now_s
        steps = int(self._energy_j / ENERGY_STEP_J)
        self._energy_j -= steps * ENERGY_STEP_J
        self.energy_steps[self.group] = (self.energy_steps[self.group] + steps) % _WRAP


class Tc66OnPty:
    """A simulated TC66C at a path such as a real one has: a link to the pseudo-terminal that it is plugged into."""

    def __init__(self, path: Path, device: Tc66Device | None = None) -> None:
        self.path = path
        self.device = device or Tc66Device()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._fds: tuple[int, int] | None = None

    def plug_in(self) -> None:
        """The path appears, and the meter listens."""
        meter_fd, port_fd = os.openpty()
        tty.setraw(port_fd)  # a USB serial port does not echo
        self._fds = (meter_fd, port_fd)
        self._stop.clear()
        self.path.symlink_to(os.ttyname(port_fd))
        self._thread = threading.Thread(
            target=self._serve, args=[meter_fd], name=f"tc66c {self.path.name}", daemon=True
        )
        self._thread.start()

    def unplug(self) -> None:
        """The path vanishes, and whoever has it open gets an error."""
        if self._thread is None or self._fds is None:
            return
        self._stop.set()
        self._thread.join()
        self.path.unlink(missing_ok=True)
        for fd in self._fds:
            os.close(fd)
        self._thread = self._fds = None

    def say(self, data: bytes) -> None:
        """Send bytes that nobody asked for."""
        if self._fds is not None:
            os.write(self._fds[0], data)

    def _serve(self, fd: int) -> None:
        waiting: deque[tuple[float, Fault, bytes]] = deque()
        while not self._stop.is_set():
            if select.select([fd], [], [], 0.005)[0]:
                command = os.read(fd, 64).strip(b"\r\n")
                fault, reply = self.device.command(command, time.monotonic())
                if not fault.silent:
                    waiting.append((time.monotonic() + fault.delay_s, fault, reply))
            if waiting and time.monotonic() >= waiting[0][0]:
                _, fault, reply = waiting.popleft()
                _write(fd, reply, fault)


def _write(fd: int, reply: bytes, fault: Fault) -> None:
    pieces = [reply[at : at + 1] for at in range(len(reply))] if fault.in_pieces else [reply]
    for piece in pieces:
        os.write(fd, piece)


def _spoil(reply: bytes, fault: Fault) -> bytes:
    if fault.wrong_crc_in is not None:
        at = fault.wrong_crc_in * BLOCK_BYTES + 48  # the last of the four ciphered parts of a block: the magic stays
        reply = reply[:at] + bytes([reply[at] ^ 1]) + reply[at + 1 :]
    return fault.before + reply[: fault.keep_bytes]
