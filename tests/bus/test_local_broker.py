"""A broker of one's own: it says what is wrong, and leaves no orphan."""

import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bus import BrokerAddress, MqttBus
from errors import SettingsError
from opjoule import local_broker
from opjoule.local_broker import Kind, LocalBroker
from schemas import topic_filter
from tests.bus.support import Collect, Make, Until


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def test_a_broker_starts_stops_and_starts_again_on_its_port(kind: Kind, tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "not" / "yet", kind) as broker:
        assert listens(broker.port) and broker.kind == kind and broker.url == f"mqtt://127.0.0.1:{broker.port}"
        broker.kill()
        assert not listens(broker.port)
        broker.start()
        assert listens(broker.port)
    assert not listens(broker.port)
    broker.stop()


def test_the_broker_dies_with_its_parent_even_when_that_is_killed(kind: Kind, tmp_path: Path, until: Until) -> None:
    script = f"""
        import sys
        from pathlib import Path
        from opjoule.local_broker import LocalBroker
        broker = LocalBroker(Path({str(tmp_path)!r}), {kind!r})
        broker.start()
        print(broker.port, flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        assert listens(port)
        parent.kill()
    until(lambda: not listens(port))


def test_a_port_in_use_is_named(kind: Kind, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port} is in use on 127.0.0.1: stop the other program"):
            LocalBroker(tmp_path, kind, port).start()


def test_a_broker_that_dies_at_its_start_says_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mosquitto"
    program.write_text("#!/bin/sh\necho first\necho 'Error: no luck today'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(local_broker, "mosquitto_program", lambda: str(program))
    with pytest.raises(SettingsError, match="mosquitto ended at its start: Error: no luck today"):
        LocalBroker(tmp_path, "mosquitto").start()


def test_a_machine_without_a_broker_hears_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_broker, "available", lambda kind: False)
    with pytest.raises(SettingsError, match="install the program mosquitto, or the Python package iotcore"):
        LocalBroker(tmp_path)
    with pytest.raises(SettingsError, match="mosquitto is not installed"):
        LocalBroker(tmp_path, "mosquitto")
    monkeypatch.setattr(local_broker, "available", lambda kind: kind == "iotcore")
    assert LocalBroker(tmp_path).kind == "iotcore"


@pytest.mark.mosquitto
def test_mosquitto_with_persistence_keeps_retained_messages_over_a_restart(
    tmp_path: Path, make: Make, collect: Collect
) -> None:
    if not local_broker.available("mosquitto"):
        pytest.skip("mosquitto is not installed")
    with LocalBroker(tmp_path, "mosquitto", persistence=True) as broker:
        bus = MqttBus(BrokerAddress.parse(broker.url), "meter")
        bus.set_status("lab", make.status())
        assert bus.connect(10.0)
        bus.disconnect()
        broker.stop()
        broker.start()
        watcher = MqttBus(BrokerAddress.parse(broker.url), "watcher")
        watcher.subscribe([topic_filter("status", "lab")])
        assert watcher.connect(10.0)
        assert collect(watcher, 1)[0].retained
        watcher.disconnect()
