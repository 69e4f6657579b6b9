"""The kernel's counters of a process and of its network, for bench_runner_watch.py.

Packets: /proc/net/dev of the network namespace, all interfaces, received and sent. Bytes written: `wchar` in
/proc/PID/task/TID/io of all threads of the process: every write() to whatever, RAM included, but not those of its child
processes. Bytes stored: `write_bytes` in /proc/PID/io, what the process and its ended children gave the kernel to write
to storage; files in /dev/shm, where the openssl program writes its keys, are none. (proc_pid_io(5))
"""

import fcntl
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from errors import SettingsError

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
"""netdevice(7)"""


@dataclass(frozen=True, slots=True)
class Look:
    """The kernel's counters at one moment of the monotonic clock, taken between `before_ns` and `after_ns`."""

    before_ns: int
    after_ns: int
    rss_bytes: int
    most_rss_bytes: int
    own_cpu_s: float
    children_cpu_s: float
    written_bytes: int
    stored_bytes: int
    packets: int
    sockets: int


def look(pid: int) -> Look:
    """All counters of one process and of the network. Raises OSError, IndexError or KeyError when it is gone."""
    process = Path(f"/proc/{pid}")
    before_ns = time.monotonic_ns()
    threads = [_fields(each / "io") for each in (process / "task").iterdir()]
    whole = _fields(process / "io")
    packets = _packets()
    sockets = _network_sockets(process)
    status = _fields(process / "status")
    times = [int(each) / _TICKS_PER_S for each in (process / "stat").read_text().rpartition(")")[2].split()[11:15]]
    return Look(
        before_ns=before_ns,
        after_ns=time.monotonic_ns(),
        rss_bytes=status["VmRSS"] * 1024,
        most_rss_bytes=status["VmHWM"] * 1024,
        own_cpu_s=times[0] + times[1],
        children_cpu_s=times[2] + times[3],
        written_bytes=sum(each["wchar"] for each in threads),
        stored_bytes=whole["write_bytes"],
        packets=packets,
        sockets=sockets,
    )


def _network_sockets(process: Path) -> int:
    """Open sockets but those of the local domain: by one, which sends nothing, the runner holds its name."""
    links = [_link(each) for each in (process / "fd").iterdir()]
    local = {f"socket:[{line.split()[6]}]" for line in (process / "net/unix").read_text().splitlines()[1:]}
    return sum(link.startswith("socket:") and link not in local for link in links)


def raise_loopback() -> None:
    """A new network namespace has its loopback interface down. Raises SettingsError in one that others use as well."""
    names = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    if names != ["lo"]:
        raise SettingsError(f"needs a network namespace of its own (unshare -Urn), here are {', '.join(names)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as each:
        answer = fcntl.ioctl(each, _SIOCGIFFLAGS, struct.pack("16sH22x", b"lo", 0))
        flags = struct.unpack("16sH22x", answer)[1]
        fcntl.ioctl(each, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))


def packets_seen_of_one() -> int:
    """What the counter rises when one datagram is sent to a port that is open."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as each:
        each.bind(("127.0.0.1", 0))
        before = _packets()
        each.sendto(b"x", each.getsockname())
        each.recv(1)
        return _packets() - before


def bytes_seen_of_one() -> int:
    """What the counter of this process rises when it writes one byte, to nowhere."""
    with Path("/dev/null").open("wb", buffering=0) as nowhere:
        before = _written()
        nowhere.write(b"x")
        return _written() - before


def _written() -> int:
    return _fields(Path(f"/proc/self/task/{threading.get_native_id()}/io"))["wchar"]


def _packets() -> int:
    """Received and sent, all interfaces of this namespace."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(fields[index]) for line in lines for fields in [line.partition(":")[2].split()] for index in (1, 9))


def _fields(path: Path) -> dict[str, int]:
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    return {name: int(value.split()[0]) for name, _, value in pairs if value.split()[:1] and value.split()[0].isdigit()}


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""
