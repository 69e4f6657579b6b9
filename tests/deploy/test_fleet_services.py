"""The real services with bundles of `opjoule fleet add`, through a broker that lets in nobody else."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bus import BrokerSettings, MqttBus
from configure import load
from opjoule.local_broker import HOST, LocalBroker, available
from opjoule.processes import Services
from schemas import EnergyResult, ServiceStatus, parse_topic, topic_filter
from tests.deploy.fleets import free_port, settings_of

pytestmark = [
    pytest.mark.mosquitto,
    pytest.mark.processes,
    pytest.mark.skipif(not available("mosquitto"), reason="mosquitto is not installed"),
]
DEADLINE_S = 60.0


def opjoule(*arguments: str, **variables: str) -> str:
    """The command as a user gives it; what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPJOULE_")} | variables
    shown = subprocess.run(
        [sys.executable, "-m", "opjoule", *arguments],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def make_fleet(folder: Path, port: int) -> None:
    """By the commands of the documentation."""
    opjoule("fleet", "init", str(folder), "--host", HOST, "--port", str(port))
    for account, bundle in (
        (("runner", "lab", "pi4"), "lab.pi4"),
        (("meter", "lab", "hub", "--duts", "pi4,pi3"), "lab.meter.hub"),
        (("aggregator", "main"), "aggregator.main"),
        (("reader", "grafana"), "reader.grafana"),
    ):
        opjoule("fleet", "add", *account, "--dir", str(folder), "--at", str(folder / "bundles" / bundle))


def flags(fleet: Path, username: str) -> dict[str, object]:
    """A bundle's variables as the flags that mean the same."""
    return {name.removeprefix("OPJOULE_").lower(): value for name, value in settings_of(fleet, username).items()}


def test_operations_become_joules_over_tls_with_one_bundle_per_service(tmp_path: Path) -> None:
    fleet, port = tmp_path / "fleet", free_port()
    make_fleet(fleet, port)
    reader = MqttBus(load(BrokerSettings, "reader", "", [], settings_of(fleet, "reader.grafana")).address(), "reader")
    reader.subscribe([topic_filter(kind) for kind in ("results", "latest", "device", "status")])
    heard: dict[str, list[bytes]] = {}

    def wait(condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline_s, "; ".join(
                services.last_line(log.stem) for log in tmp_path.glob("*.log")
            )
            for received in reader.receive(0.05):
                found = parse_topic(received.topic)
                assert found is not None
                heard.setdefault(found.kind, []).append(received.payload)

    with LocalBroker(tmp_path / "broker", port=port, secrets=fleet / "broker"), Services(tmp_path) as services:
        assert reader.connect(10), reader.last_error
        shared = {"state_dir": tmp_path, "resend_s": 1}
        services.start("aggregator", {**flags(fleet, "aggregator.main"), "state_dir": tmp_path, "hold_s": 5})
        pid = services.start(
            "runner",
            {
                **flags(fleet, "lab/pi4"),
                **shared,
                "plan": "sham",
                "train_s": 2,
                "rounds": 1,
                "start_delay_s": 2,
                "busy_wait_s": 0,
            },
        )
        simulated = {"source": "simulated", "dut": "pi4", "meter": "m1", "simulated_pid": pid}
        services.start("meter", {**flags(fleet, "lab/meter/hub"), **shared, **simulated})
        wait(lambda: services.status("runner") is not None)
        assert services.status("runner") == 0, services.last_line("runner")
        wait(lambda: {"results", "latest", "device", "status"} <= set(heard))
        for service, bundle in (("aggregator", "aggregator.main"), ("meter", "lab/meter/hub")):
            opjoule("health", service, **settings_of(fleet, bundle))
        services.stop()
        said = "".join(log.read_text() for log in tmp_path.glob("*.log"))
    reader.disconnect()
    (result,) = {EnergyResult.model_validate_json(payload).event_id: payload for payload in heard["results"]}.values()
    sham = EnergyResult.model_validate_json(result)
    assert (sham.operation, sham.dut, sham.simulated) == ("sham", "pi4", True)
    assert sham.quality in ("good", "degraded") and sham.net_power_w is not None
    services_seen = {ServiceStatus.model_validate_json(payload).service for payload in heard["status"]}
    assert services_seen == {"aggregator", "meter", "runner"}
    assert "refuses" not in said and "Not authorized" not in said and "Traceback" not in said
