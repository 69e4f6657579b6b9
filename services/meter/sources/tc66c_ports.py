"""Which serial port the wanted TC66 is plugged into. No vendor number of it is published: ports have to be asked.

A port is asked with the word `query`, which a TC66 answers in 4 bytes; ports of FNIRSI meters are never opened. One
that does not answer is left alone until it is plugged in anew, or the meter is still missing after `ASK_AGAIN_NS`.
"""

import errno
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from errors import FrameError, SettingsError
from meter.protocols.tc66c_dialogue import QUIET_NS, Tc66Dialogue
from meter.sources.pacing import Pacing
from meter.transports import ReportTransport, UsbDevice, UsbTransport
from meter.transports.serial_port import ListPorts, SerialPort, is_fnirsi, may_be_asked, node_identity, serial_ports

log = logging.getLogger(__name__)

ASK_AGAIN_NS = 600_000_000_000
OpenPort = Callable[[UsbDevice], UsbTransport]
"""Opens a port; raises OSError."""


@dataclass(frozen=True, slots=True)
class _Answer:
    serial: str | None
    """Of a TC66; None: what is there is no TC66, or one that waits for firmware."""
    at_ns: int


class GivenTransport:
    """Where nothing has to be found: a recording that is played, a port that is recorded."""

    def __init__(self, open_transport: Callable[[], ReportTransport], node: str | None = None) -> None:
        self.open = open_transport
        self.node = node

    def identity(self) -> object:
        """Always the same."""
        return None

    def is_wanted(self, serial: str) -> bool:
        """Whatever is there."""
        return True


class Tc66Finder:
    """Opens the TC66 at a path, with a serial number (its own or that of its USB port), or the only one there is."""

    def __init__(
        self,
        path: str | None = None,
        serial: str | None = None,
        list_ports: ListPorts = serial_ports,
        open_port: OpenPort = SerialPort,
        pacing: Pacing | None = None,
    ) -> None:
        self._path = path
        self._serial = serial
        self._list_ports = list_ports
        self._open_port = open_port
        self._pacing = pacing or Pacing()
        self._answers: dict[UsbDevice, _Answer] = {}
        self._last: UsbDevice | None = None
        self.node: str | None = path

    def open(self) -> UsbTransport:
        """The port of the meter, opened. Asks at most one unknown port per call, so it takes 6 s at most.

        Raises OSError while the meter is missing, SettingsError when the operator must say which one is meant.
        """
        ports = self._list_ports()
        self._last = self._find_path(ports) if self._path is not None else self._find(ports)
        self.node = self._last.node
        return self._open_port(self._last)

    def identity(self) -> object:
        """Another one when another device is at the path; never, where the meter is looked for by its number."""
        return node_identity(self._path) if self._path is not None else None

    def is_wanted(self, serial: str) -> bool:
        """Whether a meter that calls itself so at the port opened last is the wanted one."""
        return self._serial is None or self._serial == serial or (self._last is not None and self._has_usb(self._last))

    def _has_usb(self, port: UsbDevice) -> bool:
        return self._serial is not None and port.serial == self._serial

    def _find_path(self, ports: list[UsbDevice]) -> UsbDevice:
        path = str(self._path)
        real = str(Path(path).resolve())
        port = next((port for port in ports if port.node in (path, real)), UsbDevice(path))
        if is_fnirsi(port):
            raise SettingsError(f"{path} is a FNIRSI meter, which says nothing on its serial port: use --source fnirsi")
        return replace(port, node=path)

    def _find(self, ports: list[UsbDevice]) -> UsbDevice:
        candidates = [port for port in ports if may_be_asked(port)]
        by_usb = [port for port in candidates if self._has_usb(port)]
        if len(by_usb) == 1:
            return by_usb[0]
        self._forget(candidates)
        self._ask_next(by_usb or candidates)
        meters = {port: answer.serial for port, answer in self._answers.items() if answer.serial is not None}
        chosen = [port for port, serial in meters.items() if self._serial in (None, serial, port.serial)]
        if len(chosen) > 1:
            found = ", ".join(f"{meters[port]} at {port.node}" for port in chosen)
            raise SettingsError(f"several TC66 are plugged in; say which one with --serial: {found}")
        if not chosen or (self._serial is None and len(self._answers) < len(candidates)):
            raise OSError(errno.ENODEV, self._missing(meters, candidates))
        return chosen[0]

    def _forget(self, candidates: list[UsbDevice]) -> None:
        """Ports that have gone, the one that was given out and failed, and old refusals."""
        oldest_ns = self._pacing.monotonic_ns() - ASK_AGAIN_NS
        self._answers = {
            port: answer
            for port, answer in self._answers.items()
            if port in candidates and port != self._last and (answer.serial is not None or answer.at_ns > oldest_ns)
        }
        self._last = None

    def _ask_next(self, candidates: list[UsbDevice]) -> None:
        for port in candidates:
            if port in self._answers:
                continue
            try:
                serial = self._ask(port)
            except OSError as error:  # in use, perhaps by another meter of this service: it may be free later
                log.debug("%s not asked: %s", port.node, error)
                continue
            self._answers[port] = _Answer(serial, self._pacing.monotonic_ns())
            return

    def _ask(self, port: UsbDevice) -> str | None:
        transport = self._open_port(port)
        try:
            return ask_serial(transport, self._pacing)
        except FrameError as error:
            log.warning("%s (%s): %s", port.node, port.product or "serial port", error)
            return None
        finally:
            transport.close()

    def _missing(self, meters: Mapping[UsbDevice, str | None], candidates: list[UsbDevice]) -> str:
        which = "TC66" if self._serial is None else f"TC66 with serial number {self._serial}"
        unasked = [port.node for port in candidates if port not in self._answers]
        there = [f"TC66 {serial} at {port.node}" for port, serial in meters.items()]
        there += [f"{path} not asked yet" for path in unasked]
        return f"no {which} is plugged in; " + (", ".join(there) or "no serial port answers as one")


def ask_serial(transport: ReportTransport, pacing: Pacing) -> str:
    """The serial number of the TC66 at an open port, in 6 s at most. Raises FrameError where there is none; OSError."""
    dialogue = Tc66Dialogue(pacing.monotonic_ns(), QUIET_NS, Counter())
    while dialogue.identity is None:
        now_ns = pacing.monotonic_ns()
        request = dialogue.request(now_ns)
        if request:
            transport.write(request)
        data = transport.read(max(0, dialogue.wake_ns - now_ns) / 1e9)
        if data:
            dialogue.hear(data, pacing.monotonic_ns())
    return str(dialogue.identity.serial)
