"""Full TLS 1.3 handshakes between two ends in this process, driven in turn in one thread, without memory that grows."""

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_void_p, cast
from itertools import count
from typing import Any

from runner.openssl.tls import binding
from runner.openssl.tls.binding import TlsError
from runner.openssl.tls.contexts import HOST, Contexts
from runner.openssl.tls.loopback import Ends, Loopback

ROUNDS_AT_ONCE = 2
"""A TLS 1.3 handshake is two turns of client and server where the kernel delivers at once, as loopback does."""
_RETRY = (binding.SSL_ERROR_WANT_READ, binding.SSL_ERROR_WANT_WRITE)
Sessions = tuple[int, int]
"""Client and server, `SSL *` each."""


class Handshaker:
    """Handshakes between the two ends of `contexts`, each over a new connection of `loopback`.

    The group of the first handshake is held against every later one. Methods raise TlsError, and OSError where the
    system gives no connection.
    """

    def __init__(self, contexts: Contexts, loopback: Loopback, host: str = HOST) -> None:
        library = contexts.library
        self.contexts, self.library = contexts, library
        self.loopback = loopback
        self._new, self._free, self._ctrl = library["SSL_new"], library["SSL_free"], library["SSL_ctrl"]
        self._set_fd, self._set_host = library["SSL_set_fd"], library["SSL_set1_host"]
        self.connect, self.accept = library["SSL_connect"], library["SSL_accept"]
        self._error, self._clear = library["SSL_get_error"], library["ERR_clear_error"]
        self._reused, self._verification = library["SSL_session_reused"], library["SSL_get_verify_result"]
        self._host = host.encode()
        self._host_pointer = cast(c_char_p(self._host), c_void_p)
        self._group_number = 0

    def once(self, limit_s: float) -> None:
        """One connection, one full handshake, everything closed and freed."""
        ends = self.loopback.connect()
        try:
            sessions = self.open(ends)
            try:
                self.drive(sessions, ends, limit_s)
            finally:
                self.free(sessions)
        finally:
            ends.close()

    @contextmanager
    def finished(self, limit_s: float) -> Iterator[tuple[Sessions, Ends]]:
        """As `once`, with both ends to look at before they are closed."""
        ends = self.loopback.connect()
        try:
            sessions = self.open(ends)
            try:
                self.drive(sessions, ends, limit_s)
                yield sessions, ends
            finally:
                self.free(sessions)
        finally:
            ends.close()

    def open(self, ends: Ends) -> Sessions:
        """Fresh sessions on a connection: the client asks for the server's name and will check it."""
        self._clear()
        client, server = self._new(self.contexts.client), self._new(self.contexts.server)
        if not client or not server:
            self.free((client, server))
            raise TlsError(f"no session can be opened: {self.library.reason()}")
        self._set_fd(client, ends.client.fileno())
        self._set_fd(server, ends.server.fileno())
        self._set_host(client, self._host)
        self._ctrl(client, binding.SSL_CTRL_SET_TLSEXT_HOSTNAME, 0, self._host_pointer)
        return client, server

    def free(self, sessions: Sessions) -> None:
        """Give both sessions back."""
        for each in sessions:
            self._free(each)

    def drive(self, sessions: Sessions, ends: Ends, limit_s: float) -> None:
        """Both ends in turn until they are finished, with what was asked for."""
        client, server = sessions
        deadline_s = time.monotonic() + limit_s
        client_done = server_done = False
        for turn in count():
            if turn >= ROUNDS_AT_ONCE:
                wait(ends, deadline_s)
            client_done = client_done or self.step(self.connect, client, "client")
            server_done = server_done or self.step(self.accept, server, "server")
            if client_done and server_done:
                break
        self.hold(client)

    def step(self, go: Callable[[int], Any], session: int, end: str) -> bool:
        """Let one end go as far as it can; whether it is finished."""
        result = go(session)
        if result == 1:
            return True
        if self._error(session, result) in _RETRY:
            return False
        self.library.fail(session, end)

    def hold(self, client: int) -> None:
        """The peer is verified, nothing was resumed, the group is the one of the first handshake."""
        if self._verification(client):
            self.library.fail(client, "the server is not verified")
        if self._reused(client):
            raise TlsError("a session was resumed")
        number = self._ctrl(client, binding.SSL_CTRL_GET_NEGOTIATED_GROUP, 0, None)
        if self._group_number and number != self._group_number:
            raise TlsError(f"the group changed to {self.library.group(client)}")
        self._group_number = number


def wait(ends: Ends, deadline_s: float) -> None:
    """Until there is something to read at either end. Raises TlsError past the deadline (monotonic, s)."""
    poll = select.poll()
    for each in ends:
        poll.register(each, select.POLLIN)
    if not poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
        raise TlsError("no end of the handshake within its time")
