"""What a service's thread and its connection's thread share."""

import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass, field
from queue import SimpleQueue

from bus.address import BrokerAddress
from bus.interface import Received
from bus.outbox import Outbox, Outgoing
from bus.pings import PingAnswerer


@dataclass(frozen=True, slots=True)
class Status:
    """The retained status and what the broker shall say once the connection is lost."""

    present: Outgoing
    last_will: Outgoing


@dataclass
class Shared:
    """What outlives a connection: written by the service's thread, read by the connection's, or the other way."""

    address: BrokerAddress
    client_id: str
    persistent: bool
    tls: ssl.SSLContext | None
    retain_as_published: bool = True
    quiet: bool = False
    outbox: Outbox = field(default_factory=Outbox)
    inbox: SimpleQueue[Received] = field(default_factory=SimpleQueue)
    acknowledged: SimpleQueue[int] = field(default_factory=SimpleQueue)
    filters: list[str] = field(default_factory=list)
    status: Status | None = None
    pings: PingAnswerer | None = None
    connected: threading.Event = field(default_factory=threading.Event)
    last_error: str = ""
    reported: str = ""
    unread_dropped: int = 0
    lost: int = 0


class Waker:
    """Interrupts the connection's wait for its socket."""

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)

    def wake(self) -> None:
        """The connection looks at what is shared, now."""
        with contextlib.suppress(BlockingIOError):  # full: it is being woken
            self._writer.send(b"\0")

    def clear(self) -> None:
        """Called by the connection before it looks."""
        with contextlib.suppress(BlockingIOError):
            self.reader.recv(4096)

    def close(self) -> None:
        """Of no use after."""
        self.reader.close()
        self._writer.close()
