"""Debian's mosquitto takes the deployed configuration, and what `opjoule fleet` makes for it."""

from pathlib import Path

import pytest

from bus import BrokerSettings, MqttBus
from configure import load
from opjoule.local_broker import HOST, LocalBroker, available
from schemas import SampleBatch
from tests.bus.support import Make
from tests.deploy.fleets import MEMBERS, Device, make_fleet, running, settings_of

needs_mosquitto = pytest.mark.skipif(not available("mosquitto"), reason="mosquitto is not installed")


def options(text: str) -> dict[str, str]:
    """Of the listener that is not commented out."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value for name, value in lines if name != "log_type"}


@pytest.fixture
def conf(repository: Path) -> Path:
    return repository / "deploy/mosquitto/mosquitto.conf"


@pytest.mark.mosquitto
@needs_mosquitto
def test_mosquitto_starts_with_the_configuration_without_complaint_and_keeps_its_state(
    conf: Path, tmp_path: Path
) -> None:
    fleet = make_fleet(tmp_path / "fleet", MEMBERS[:1])
    with running(tmp_path / "data", conf, fleet / "broker") as broker:
        broker.stop()
    said = broker.log_file.read_text().splitlines()
    complaints = [line for line in said if "Error:" in line or "Warning:" in line or "Note:" in line]
    assert all("should not be run as root" in line for line in complaints), said
    assert (tmp_path / "data/mosquitto.db").is_file()


@pytest.mark.mosquitto
@needs_mosquitto
def test_the_listener_for_browsers_starts_when_its_lines_are_uncommented(conf: Path, tmp_path: Path) -> None:
    fleet = make_fleet(tmp_path / "fleet", MEMBERS[:1])
    text = conf.read_text("utf-8")
    start = text.index("#listener 8884")
    block, rest = text[start:].split("\n\n", 1)
    with_browsers = tmp_path / "mosquitto.conf"
    with_browsers.write_text(text[:start] + block.replace("#", "").replace("8884", f"0 {HOST}") + "\n\n" + rest)
    with running(tmp_path / "data", with_browsers, fleet / "broker") as broker:
        Device(fleet, "lab/pi4", broker.port).connect().leave()
        assert "websockets listen socket" in broker.log_file.read_text()


@pytest.mark.mosquitto
@needs_mosquitto
def test_a_service_is_told_the_limit_drops_what_is_larger_with_one_line_and_stays_connected(
    conf: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = make_fleet(tmp_path / "fleet")
    small = tmp_path / "mosquitto.conf"
    small.write_text(conf.read_text("utf-8").replace("max_packet_size 16777216", "max_packet_size 1000"))
    with running(tmp_path / "data", small, fleet / "broker") as broker:
        url = {"OPJOULE_BROKER_URL": f"mqtts://{HOST}:{broker.port}", "OPJOULE_INSTANCE": ""}
        settings = load(BrokerSettings, "meter", "", [], settings_of(fleet, "lab/meter/hub") | url)
        listener, bus = Device(fleet, "aggregator.main", broker.port).connect(), MqttBus(settings.address(), "meter")
        listener.subscribe("opjoule/v1/#")
        assert bus.connect(10)
        for seq, samples in ((1, 99), (2, 99), (3, 1)):
            bus.publish("samples", "lab", Make().batch(seq, samples), dut="pi4")
        assert listener.hears("opjoule/v1/lab/pi4/samples") and bus.connected
        assert [SampleBatch.model_validate_json(payload).seq for _, payload in listener.heard] == [3]
        bus.disconnect()
        listener.leave()
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(said) == 1 and "dropped: the broker takes at most 1000 bytes" in said[0]


def test_the_configuration_drops_nothing_and_says_how_much_a_message_may_hold(conf: Path) -> None:
    found = options(conf.read_text("utf-8"))
    assert found["persistence"] == "true"
    assert int(found["max_queued_messages"]) >= 10**9 and found["max_inflight_messages"] == "0"
    assert int(found["max_queued_bytes"]) >= 2**28
    assert found["set_tcp_nodelay"] == "true"
    assert int(found["max_packet_size"]) >= 100_000 * 110, "the largest message of schemas/"


def test_nobody_enters_unnamed_and_no_listener_is_without_tls(conf: Path) -> None:
    text = conf.read_text("utf-8")
    assert options(text)["allow_anonymous"] == "false"
    listeners = text.replace("\n#", "\n").split("\nlistener ")[1:]
    assert len(listeners) == 2
    for each in listeners:
        secured = ("require_certificate true", "tls_version tlsv1.2", "cafile ", "crlfile ", "certfile ", "keyfile ")
        assert all(f"\n{line}" in each for line in secured)


@pytest.mark.mosquitto
@needs_mosquitto
def test_the_broker_of_a_demo_is_secured_as_the_deployed_one(conf: Path, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    broker = LocalBroker(tmp_path / "broker", secrets=secrets, persistence=True)
    text = Path(broker.configuration()[-1]).read_text("utf-8")
    assert broker.url == f"mqtts://{HOST}:{broker.port}"
    here, there = options(text.replace(str(secrets), "/mosquitto/secrets")), options(conf.read_text("utf-8"))
    shared = {name for name in there if name.endswith("file") or name in ("require_certificate", "tls_version")}
    assert len(shared) == 8
    for name in (*shared, "allow_anonymous", "max_queued_messages", "max_inflight_messages"):
        assert here[name] == there[name]
