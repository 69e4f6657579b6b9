"""Debian's mosquitto takes the configuration of the compose network."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEADLINE_S = 10.0


@pytest.fixture(scope="module")
def mosquitto() -> str:
    """The broker's program."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("mosquitto is not installed")
    return program


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Whether someone listens on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(program: str, conf: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """The broker, listening; ended whatever happens."""
    with subprocess.Popen(
        [program, "-c", str(conf)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as broker:
        try:
            deadline_s = time.monotonic() + DEADLINE_S
            while not answers(port) and broker.poll() is None and time.monotonic() < deadline_s:
                time.sleep(0.02)
            yield broker
        finally:
            broker.kill()


@pytest.mark.mosquitto
def test_mosquitto_starts_with_the_configuration_and_keeps_its_state(
    mosquitto: str, repository: Path, tmp_path: Path
) -> None:
    text = (repository / "deploy/mosquitto/mosquitto.conf").read_text(encoding="utf-8")
    port = free_port()
    here = text.replace("listener 1883", f"listener {port} 127.0.0.1").replace("/mosquitto/data", str(tmp_path))
    assert here.count(str(port)) == 1 and here.count(str(tmp_path)) == 1
    conf = tmp_path / "mosquitto.conf"
    conf.write_text(here + ("user root\n" if os.geteuid() == 0 else ""))
    with running(mosquitto, conf, port) as broker:
        assert broker.poll() is None, broker.communicate()[0]
        assert answers(port)
        broker.terminate()
        said = broker.communicate(timeout=DEADLINE_S)[0]
    assert broker.returncode == 0
    complaints = [line for line in said.splitlines() if "Error:" in line or "Warning:" in line]
    assert all("should not be run as root" in line for line in complaints), said
    assert (tmp_path / "mosquitto.db").is_file()


def test_the_configuration_drops_nothing_and_says_how_much_a_message_may_hold(repository: Path) -> None:
    lines = (repository / "deploy/mosquitto/mosquitto.conf").read_text(encoding="utf-8").splitlines()
    options = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert options["persistence"] == "true"
    assert options["max_queued_messages"] == options["max_inflight_messages"] == "0"
    assert options["set_tcp_nodelay"] == "true"
    assert int(options["message_size_limit"]) >= 100_000 * 110, "the largest message of schemas/"
