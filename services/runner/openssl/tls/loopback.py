"""TCP connections from this process to itself over 127.0.0.1, and what the kernel counts on them."""

import errno
import socket
import struct
from types import TracebackType
from typing import NamedTuple, Self

ADDRESS = "127.0.0.1"
BACKLOG = 16
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_INFO_BYTES = 160
_SEGMENTS_WITH_PAYLOAD_AT = 156
"""`tcpi_data_segs_out` in `struct tcp_info` of Linux (since 4.6)."""


class Ends(NamedTuple):
    """Both ends of one connection, non-blocking."""

    client: socket.socket
    server: socket.socket

    def close(self) -> None:
        """The client resets the connection: neither end keeps its port in TIME_WAIT, so none runs out."""
        self.client.close()
        self.server.close()


class Loopback:
    """A listening socket, open as long as this object. `mss_bytes` sets TCP_MAXSEG on both ends; 0 leaves it.

    Raises OSError where none can be opened.
    """

    def __init__(self, mss_bytes: int = 0) -> None:
        self._mss_bytes = mss_bytes
        self._client_port = 0
        self._listener = self._socket()
        try:
            self._listener.bind((ADDRESS, 0))
            self._listener.listen(BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self.address: tuple[str, int] = self._listener.getsockname()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> Ends:
        """A new connection. Raises OSError."""
        client = self._socket()
        try:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            own = self._bind(client)
            client.connect(self.address)
            server = self._accept(own)
        except OSError:
            client.close()
            raise
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.setblocking(False)
        return Ends(client, server)

    def _bind(self, client: socket.socket) -> tuple[str, int]:
        """To the port of the connection before, if it is free: a firewall that keeps a table of connections keeps one
        row of all of ours, where new ports would fill it in a train."""
        try:
            client.bind((ADDRESS, self._client_port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            client.bind((ADDRESS, 0))
        own: tuple[str, int] = client.getsockname()
        self._client_port = own[1]
        return own

    def _accept(self, expected: tuple[str, int]) -> socket.socket:
        """The connection from that address; strangers who found the port are turned away."""
        while True:
            server, peer = self._listener.accept()
            if peer == expected:
                return server
            server.close()

    def _socket(self) -> socket.socket:
        each = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if self._mss_bytes:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, self._mss_bytes)
        return each


def segments_sent(end: socket.socket) -> int | None:
    """TCP segments with payload that this end has sent; None where the system does not count them."""
    option: int | None = getattr(socket, "TCP_INFO", None)
    if option is None:
        return None
    try:
        info = end.getsockopt(socket.IPPROTO_TCP, option, _INFO_BYTES)
    except OSError:
        return None
    if len(info) < _INFO_BYTES:
        return None
    count: int = struct.unpack_from("I", info, _SEGMENTS_WITH_PAYLOAD_AT)[0]
    return count


def payload_bytes(end: socket.socket) -> int:
    """The most payload that this end puts into one segment: the MSS less TCP options such as timestamps."""
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
