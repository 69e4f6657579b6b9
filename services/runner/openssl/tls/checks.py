"""Whether handshakes are what they should be, looked at outside trains."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import create_string_buffer
from dataclasses import replace

from errors import SettingsError
from runner.openssl.tls.binding import TlsError
from runner.openssl.tls.contexts import new_context
from runner.openssl.tls.handshake import Handshaker, Sessions, wait
from runner.openssl.tls.loopback import Ends


def check_error(handshaker: Handshaker, limit_s: float) -> str | None:
    """One line unless a good client ends up with what was asked for, and two that must not be served are not.

    The good one agrees on group and signature scheme, and one byte of application data arrives each way. One that does
    not trust the certificate, and one that expects another name, must give up.
    """
    try:
        with handshaker.finished(limit_s) as (sessions, ends):
            error = agreement_error(handshaker, sessions[0]) or _exchange_error(handshaker, sessions, ends, limit_s)
        if error is not None:
            return error
        with _untrusting(handshaker) as other:
            if _succeeds(other, limit_s):
                return "a client that does not trust the certificate finishes its handshake"
        stranger = Handshaker(handshaker.contexts, handshaker.loopback, host="elsewhere.invalid")
        if _succeeds(stranger, limit_s):
            return "a client that expects another name finishes its handshake"
    except (TlsError, SettingsError) as failure:
        return str(failure)
    return None


def agreement_error(handshaker: Handshaker, client: int) -> str | None:
    """One line where a finished handshake agreed on something else than was asked for."""
    group, asked = handshaker.library.group(client), handshaker.contexts.group
    if group.lower() != asked.lower():
        return f"the group is {group}, not {asked}"
    scheme = handshaker.library.peer_scheme(client)
    if scheme is not None and scheme.lower() != handshaker.contexts.scheme.lower():
        return f"the server signed with {scheme}, not {handshaker.contexts.scheme}"
    return None


def _exchange_error(handshaker: Handshaker, sessions: Sessions, ends: Ends, limit_s: float) -> str | None:
    client, server = sessions
    deadline_s = time.monotonic() + limit_s
    for sender, receiver, byte in ((client, server, b"c"), (server, client, b"s")):
        if handshaker.library["SSL_write"](sender, byte, 1) != 1:
            handshaker.library.fail(sender, "application data cannot be sent")
        if _receive(handshaker, receiver, ends, deadline_s) != byte:
            return "application data does not arrive as it was sent"
    return None


def _receive(handshaker: Handshaker, session: int, ends: Ends, deadline_s: float) -> bytes:
    buffer = create_string_buffer(1)
    read = handshaker.library["SSL_read"]
    while not handshaker.step(lambda each: read(each, buffer, 1), session, "application data"):
        wait(ends, deadline_s)
    return buffer.raw


@contextmanager
def _untrusting(handshaker: Handshaker) -> Iterator[Handshaker]:
    contexts = handshaker.contexts
    client = new_context(contexts.library, contexts.group, contexts.scheme, server=False)
    try:
        yield Handshaker(replace(contexts, client=client), handshaker.loopback)
    finally:
        contexts.library["SSL_CTX_free"](client)


def _succeeds(handshaker: Handshaker, limit_s: float) -> bool:
    try:
        handshaker.once(limit_s)
    except TlsError:
        return False
    return True
