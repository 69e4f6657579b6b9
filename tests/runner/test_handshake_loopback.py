"""The TCP connections of handshakes, and their null train, without any OpenSSL."""

import socket
import time

import pytest

from runner.openssl import OpenSsl
from runner.openssl.tls.binding import TlsError
from runner.openssl.tls.counting import least_segments
from runner.openssl.tls.handshake import wait
from runner.openssl.tls.loopback import Loopback, payload_bytes, segments_sent
from runner.operations.handshake import prepare_connection
from tests.runner.conftest import MakeBench


def test_a_stranger_who_finds_the_port_is_turned_away() -> None:
    with Loopback() as loopback, socket.create_connection(loopback.address) as stranger:
        ends = loopback.connect()
        assert ends.server.getpeername() == ends.client.getsockname() != stranger.getsockname()
        assert stranger.recv(1) == b""
        ends.close()


def test_one_connection_after_the_other_has_the_same_port_and_two_at_once_have_their_own() -> None:
    with Loopback() as loopback:
        ports = set()
        for _ in range(100):
            ends = loopback.connect()
            ports.add(ends.client.getsockname()[1])
            ends.close()
        assert len(ports) == 1
        first, second = loopback.connect(), loopback.connect()
        assert first.client.getsockname() != second.client.getsockname()
        for ends in (first, second):
            ends.client.send(b"x")
            assert ends.server.recv(1) == b"x"
            ends.close()


@pytest.mark.not_emulated
def test_segments_with_payload_are_counted_by_the_kernel_at_the_size_that_was_asked_for() -> None:
    with Loopback(536) as loopback:
        ends = loopback.connect()
        room = payload_bytes(ends.client)
        ends.client.send(bytes(3 * room + 1))
        sent = (segments_sent(ends.client), segments_sent(ends.server))
        ends.close()
    assert 536 - 40 <= room <= 536
    assert sent == (4, 0)


def test_flights_fill_all_their_segments_but_the_last() -> None:
    assert least_segments((1, 536, 537, 1072), 536) == 1 + 1 + 2 + 2
    assert least_segments((), 536) == 0


def test_a_silent_peer_is_waited_for_until_the_deadline_and_no_longer() -> None:
    with Loopback() as loopback:
        ends = loopback.connect()
        with pytest.raises(TlsError, match="within its time"):
            wait(ends, time.monotonic())
        ends.server.send(b"x")
        wait(ends, time.monotonic() + 10)
        ends.close()


def test_the_null_train_makes_and_closes_the_connection_alone(make_bench: MakeBench, system_openssl: OpenSsl) -> None:
    work = prepare_connection(make_bench(system_openssl))
    assert (work.variant, work.processes, work.null_variant) == ("connection", 0, "")
    assert work.begin is not None
    repeat = work.begin(1.0)
    assert repeat().error is None
    work.close()
    assert repeat().error == "no connection on loopback: Connection refused"
