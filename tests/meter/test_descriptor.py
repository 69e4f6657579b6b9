"""Reports through a bare descriptor: a socket that keeps their boundaries, as a hidraw node does."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from meter.protocols.fnirsi import Command, command
from meter.transports.descriptor import DescriptorTransport


@pytest.fixture
def pair() -> Iterator[tuple[DescriptorTransport, socket.socket]]:
    """The host's side and the meter's."""
    host, meter = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    transport = DescriptorTransport(host.detach())
    yield transport, meter
    transport.close()
    meter.close()


Pair = tuple[DescriptorTransport, socket.socket]


def test_reports_keep_their_boundaries_even_short_ones(pair: Pair) -> None:
    transport, meter = pair
    for report in (bytes(range(64)), b"\xaa" * 30, bytes(64)):
        meter.send(report)
    assert [transport.read(1.0) for _ in range(3)] == [bytes(range(64)), b"\xaa" * 30, bytes(64)]
    assert transport.read(0) == b""
    assert transport.read(0.001) == b""


def test_a_command_goes_out_with_65_bytes_that_begin_00_aa(pair: Pair) -> None:
    transport, meter = pair
    transport.write(command(Command.IDENTIFY))
    assert meter.recv(100) == b"\0" + command(Command.IDENTIFY)


def test_a_meter_that_is_pulled_out_is_an_os_error_to_reader_and_writer(pair: Pair) -> None:
    transport, meter = pair
    meter.send(bytes(64))
    meter.close()
    assert transport.read(1.0) == bytes(64)  # what came before is still there
    with pytest.raises(OSError, match="has closed"):
        transport.read(1.0)
    with pytest.raises(OSError):
        transport.write(bytes(64))


def test_a_meter_that_reads_nothing_does_not_block_the_writer(pair: Pair) -> None:
    transport, _ = pair
    with pytest.raises(BlockingIOError):
        for _ in range(100_000):
            transport.write(bytes(64))


def test_a_closed_transport_says_so_and_may_be_closed_again(pair: Pair) -> None:
    transport, _ = pair
    transport.close()
    transport.close()
    with pytest.raises(OSError, match="closed"):
        transport.read(0)
    with pytest.raises(OSError, match="closed"):
        transport.write(bytes(64))


def test_closing_leaves_no_descriptor_behind() -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    before = count()
    host, meter = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    transport = DescriptorTransport(host.detach())
    meter.close()
    transport.close()
    assert count() == before


def test_a_path_is_opened_and_a_missing_one_is_an_os_error(tmp_path: Path) -> None:
    node = tmp_path / "hidraw0"
    with pytest.raises(FileNotFoundError):
        DescriptorTransport.open(node)
    os.mkfifo(node)
    transport = DescriptorTransport.open(node)
    assert transport.device.node == str(node)
    transport.write(bytes(64))
    assert transport.read(1.0) == bytes(64)  # 64 of the 65: a pipe has no boundaries
    transport.close()
