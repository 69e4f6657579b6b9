"""What handshakes took by end, counted outside trains: payload, TCP segments, CPU time."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from runner.openssl.tls.handshake import ROUNDS_AT_ONCE, Handshaker, Sessions, wait
from runner.openssl.tls.loopback import Ends, Loopback, payload_bytes, segments_sent
from runner.timing import median

MSS_BYTES = (1460, 536)
"""What RFC 9293 section 3.7.1 gives for Ethernet (1500 bytes of MTU) and for the least that every IPv4 host takes
(576), each less 40 bytes of headers. TCP timestamps take 12 bytes more from every segment."""
LEAST_COUNTED, MOST_COUNTED, COUNTED_S = 5, 200, 0.5


class Counted(NamedTuple):
    """One handshake: TCP payload in bytes and CPU time in ns by sender; sizes of the flights in their order."""

    client_bytes: int
    server_bytes: int
    client_cpu_ns: int
    server_cpu_ns: int
    flights_bytes: tuple[int, ...]


class Means(NamedTuple):
    """Many handshakes: median payload in bytes and mean CPU time in s, by sender."""

    client_bytes: int
    server_bytes: int
    client_cpu_s: float
    server_cpu_s: float


def count_many(handshaker: Handshaker, limit_s: float) -> Means:
    """Some handshakes, for half a second or five of them. Raises TlsError and OSError.

    CPU time is that of this thread while it drives an end, with the kernel's part of sending and receiving, without
    that of the connection. A median of payload, because DER signatures of ECDSA vary by some bytes.
    """
    counted: list[Counted] = []
    end_s = time.monotonic() + COUNTED_S
    while len(counted) < LEAST_COUNTED or (len(counted) < MOST_COUNTED and time.monotonic() < end_s):
        ends = handshaker.loopback.connect()
        try:
            counted.append(count_one(handshaker, ends, limit_s))
        finally:
            ends.close()
    return Means(
        round(median(sorted(each.client_bytes for each in counted))),
        round(median(sorted(each.server_bytes for each in counted))),
        sum(each.client_cpu_ns for each in counted) / len(counted) / 1e9,
        sum(each.server_cpu_ns for each in counted) / len(counted) / 1e9,
    )


def segments(handshaker: Handshaker, limit_s: float) -> dict[str, int]:
    """TCP segments with payload of one handshake, both ends together, by maximum segment size in bytes.

    The kernel counts them; where it does not, they are the least that the flights need. Raises TlsError and OSError.
    """
    found: dict[str, int] = {}
    for mss_bytes in MSS_BYTES:
        with Loopback(mss_bytes) as loopback:
            ends = loopback.connect()
            try:
                counted = count_one(handshaker, ends, limit_s)
                sent = [segments_sent(end) for end in ends]
                least = least_segments(counted.flights_bytes, payload_bytes(ends.client))
            finally:
                ends.close()
        found[str(mss_bytes)] = least if None in sent else sum(each or 0 for each in sent)
    return found


def least_segments(flights_bytes: tuple[int, ...], payload_bytes: int) -> int:
    """Segments of flights that are sent whole: each fills all of its segments but the last."""
    return sum(-(-each // payload_bytes) for each in flights_bytes)


def count_one(handshaker: Handshaker, ends: Ends, limit_s: float) -> Counted:
    """One handshake on a connection that the caller closes. Raises TlsError."""
    sessions = handshaker.open(ends)
    try:
        return _counted(handshaker, sessions, ends, time.monotonic() + limit_s)
    finally:
        handshaker.free(sessions)


def _counted(handshaker: Handshaker, sessions: Sessions, ends: Ends, deadline_s: float) -> Counted:
    sides = (_Side(handshaker, sessions[0], "client"), _Side(handshaker, sessions[1], "server"))
    flights_bytes: list[int] = []
    for turn in count():
        if turn >= ROUNDS_AT_ONCE:
            wait(ends, deadline_s)
        flights_bytes += [side.step() for side in sides if not side.done]
        if all(side.done for side in sides):
            break
    handshaker.hold(sessions[0])
    client, server = sides
    flights = tuple(each for each in flights_bytes if each)
    return Counted(client.sent_bytes, server.sent_bytes, client.cpu_ns, server.cpu_ns, flights)


class _Side:
    """One end while it is driven: what it has sent and what it took."""

    def __init__(self, handshaker: Handshaker, session: int, end: str) -> None:
        self._handshaker, self._session, self._end = handshaker, session, end
        self._go: Callable[[int], Any] = handshaker.connect if end == "client" else handshaker.accept
        self.done = False
        self.sent_bytes = self.cpu_ns = 0

    def step(self) -> int:
        """As far as it can; the bytes that it sent by that."""
        library, before_bytes = self._handshaker.library, self.sent_bytes
        start_ns = time.thread_time_ns()
        self.done = self._handshaker.step(self._go, self._session, self._end)
        self.cpu_ns += time.thread_time_ns() - start_ns
        self.sent_bytes = library["BIO_number_written"](library["SSL_get_wbio"](self._session))
        return self.sent_bytes - before_bytes
