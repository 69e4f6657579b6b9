"""The bus on a broker with TLS, and what is said when a certificate is not as it should be."""

import logging
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from bus import BrokerAddress, BrokerSettings, MqttBus
from bus.failures import refused
from configure import Settings, load
from errors import SettingsError
from opjoule.fleet.authority import Authority, Issued, Validity, new_authority
from opjoule.local_broker import HOST, LocalBroker, available
from opjoule.processes import Services
from schemas import OperationEvent, SampleBatch, topic_filter
from tests.bus.support import DEADLINE_S, Collect, Make, Until
from tests.deploy.fleets import NOW, free_port, make_fleet, settings_of

needs_mosquitto = pytest.mark.skipif(not available("mosquitto"), reason="mosquitto is not installed")
DAY = timedelta(days=1)


class ServiceSettings(BrokerSettings):
    """The settings of a bundle, whatever the service."""

    instance: str = ""
    dut: str = ""


def address(fleet: Path, username: str, **other: str) -> BrokerAddress:
    """Of a bundle, with other variables where given."""
    model: type[Settings] = ServiceSettings
    settings = load(model, "test", "test", [], settings_of(fleet, username) | other)
    assert isinstance(settings, BrokerSettings)
    return settings.address()


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    return make_fleet(tmp_path / "fleet", port=free_port())


@pytest.fixture
def broker(fleet: Path, tmp_path: Path) -> Iterator[LocalBroker]:
    port = int(settings_of(fleet, "lab/pi4")["OPJOULE_BROKER_URL"].rpartition(":")[2])
    with LocalBroker(tmp_path / "broker", port=port, secrets=fleet / "broker") as running:
        yield running


def show(fleet: Path, broker: LocalBroker, issued: Issued) -> None:
    """The broker starts anew with this certificate."""
    broker.stop()
    (fleet / "broker/server.key").write_bytes(issued.key)
    (fleet / "broker/server.pem").write_bytes(issued.certificate)
    broker.start()


def certificate(fleet: Path, name: str) -> Issued:
    """A pair of files in the fleet's private folder."""
    return Issued((fleet / f"private/{name}.pem").read_bytes(), (fleet / f"private/{name}.key").read_bytes())


def expired(authority: Authority) -> Issued:
    return authority.for_server((HOST,), Validity(NOW - 2 * DAY, NOW - DAY))


def not_yet_valid(authority: Authority) -> Issued:
    """What a board whose clock says 1970 sees of every certificate."""
    return authority.for_server((HOST,), Validity(NOW + DAY, NOW + 2 * DAY))


def foreign(authority: Authority) -> Issued:
    stranger = new_authority("opjoule fleet 127.0.0.1", Validity(NOW - DAY, authority.until))
    return stranger.for_server((HOST,), Validity(NOW - DAY, NOW + DAY))


def of_another_host(authority: Authority) -> Issued:
    return authority.for_server(("elsewhere", "10.1.2.3"), Validity(NOW - DAY, NOW + DAY))


TODAY = r"\d{4}-\d\d-\d\d"
TROUBLES = [
    (expired, rf"has expired by this machine's clock, which says {TODAY}: who runs the broker must renew it"),
    (not_yet_valid, rf"not valid yet by this machine's clock, which says {TODAY}: set the clock"),
    (foreign, r"of an authority that is not in \S+ca.pem: install this fleet's ca.pem there"),
]
HOST_TROUBLE = (of_another_host, r"is not for 127.0.0.1: use a name that it is for, or who runs the broker must add")


@pytest.mark.mosquitto
@needs_mosquitto
@pytest.mark.parametrize(("issue", "line"), [*TROUBLES, HOST_TROUBLE], ids=lambda each: getattr(each, "__name__", ""))
def test_a_certificate_that_is_no_good_is_one_line_that_says_who_must_act_and_a_good_one_ends_it(
    fleet: Path,
    broker: LocalBroker,
    until: Until,
    caplog: pytest.LogCaptureFixture,
    issue: Callable[[Authority], Issued],
    line: str,
) -> None:
    show(fleet, broker, issue(Authority(certificate(fleet, "ca"))))
    bus = MqttBus(address(fleet, "lab/pi4"), "runner")
    with caplog.at_level(logging.WARNING):
        assert not bus.connect(1.5)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("bus")]
    assert len(said) == 1 and said[0].count("\n") == 0
    assert said[0].startswith(f"broker mqtts://{HOST}:") and said[0].endswith("; trying again")
    assert re.search(line, bus.last_error)
    show(fleet, broker, certificate(fleet, "server"))
    until(lambda: bus.connected)
    bus.disconnect()


@pytest.mark.mosquitto
@needs_mosquitto
def test_messages_go_both_ways_with_the_settings_of_bundles(
    fleet: Path, broker: LocalBroker, make: Make, collect: Collect
) -> None:
    meter, aggregator = MqttBus(address(fleet, "lab/meter/hub"), "m"), MqttBus(address(fleet, "aggregator.main"), "a")
    aggregator.subscribe([topic_filter("samples")])
    meter.subscribe([topic_filter("journaled", "lab", dut="pi4")])
    assert aggregator.connect(DEADLINE_S) and meter.connect(DEADLINE_S)
    for seq in range(300):
        meter.publish("samples", "lab", make.batch(seq, samples=99), dut="pi4")
    got = [SampleBatch.model_validate_json(message.payload) for message in collect(aggregator, 300)]
    assert got == [make.batch(seq, samples=99) for seq in range(300)]
    aggregator.publish("journaled", "lab", make.receipt(spans=((1, 1),)), dut="pi4")
    assert len(collect(meter, 1)) == 1
    meter.disconnect()
    aggregator.disconnect()


@pytest.mark.mosquitto
@needs_mosquitto
def test_who_is_not_let_in_is_told_whom_to_ask(fleet: Path, broker: LocalBroker, until: Until) -> None:
    good = settings_of(fleet, "lab/pi4")
    no_certificate = {"OPJOULE_BROKER_CERT_FILE": "", "OPJOULE_BROKER_KEY_FILE": ""}
    wrong_password = {"OPJOULE_BROKER_PASSWORD_FILE": settings_of(fleet, "lab/pi3")["OPJOULE_BROKER_PASSWORD_FILE"]}
    no_tls = {"OPJOULE_BROKER_URL": good["OPJOULE_BROKER_URL"].replace("mqtts", "mqtt"), "OPJOULE_BROKER_CA_FILE": ""}
    for other, line in (
        (no_certificate, "does it accept this client's certificate"),
        (wrong_password, "Not authorized; who runs it must add this account (opjoule fleet add)"),
        (no_certificate | no_tls, "closed without an answer"),
    ):
        bus = MqttBus(address(fleet, "lab/pi4", **other), "runner")
        assert not bus.connect(0.3)
        until(lambda bus=bus: bus.last_error != "")  # type: ignore[misc]
        bus.disconnect()
        assert line in bus.last_error
    assert "fleet" not in refused("Server busy")


@pytest.mark.mosquitto
@needs_mosquitto
def test_tls_on_a_port_without_it_is_named(tmp_path: Path, fleet: Path) -> None:
    with LocalBroker(tmp_path / "plain", "mosquitto") as plain:
        url = {"OPJOULE_BROKER_URL": plain.url.replace("mqtt:", "mqtts:")}
        bus = MqttBus(address(fleet, "lab/pi4", **url), "runner")
        assert not bus.connect(0.5)
        bus.disconnect()
    assert "cannot agree on TLS with it" in bus.last_error


@pytest.mark.mosquitto
@needs_mosquitto
def test_nobody_without_its_password_can_take_a_session_over(
    fleet: Path, broker: LocalBroker, make: Make, collect: Collect
) -> None:
    owner = MqttBus(address(fleet, "aggregator.main"), "aggregator", persistent=True)
    owner.subscribe([topic_filter("operations")])
    assert owner.connect(DEADLINE_S)
    thief = MqttBus(address(fleet, "lab/pi4"), "aggregator")
    assert thief.connect(DEADLINE_S)
    runner = MqttBus(address(fleet, "lab/pi4"), "runner")
    assert runner.connect(DEADLINE_S)
    runner.publish("operations", "lab", make.event(1), dut="pi4")
    assert len(collect(owner, 1)) == 1
    assert owner.connected and owner.last_error == ""
    for bus in (owner, thief, runner):
        bus.disconnect()


def test_a_client_id_is_the_same_after_a_restart_and_no_secret_without_a_password() -> None:
    plain, named = BrokerAddress("hub", 1883), BrokerAddress("hub", 1883, False, "me", "secret")
    assert plain.client_id("runner") == "runner"
    assert named.client_id("runner") == named.client_id("runner") != named.client_id("meter")
    assert "secret" not in named.client_id("runner")
    assert named.client_id("runner") != BrokerAddress("hub", 1883, False, "me", "other").client_id("runner")


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"OPJOULE_BROKER_CERT_FILE": "/nowhere.pem"}, "certificate file /nowhere.pem .* cannot be used: No such file"),
        ({"OPJOULE_BROKER_CERT_FILE": ""}, "a broker key file needs a broker certificate file"),
        ({"OPJOULE_BROKER_KEY_FILE": "CA"}, "cannot be used: "),
        ({"OPJOULE_BROKER_KEY_FILE": "OTHER"}, "cannot be used: key values mismatch"),
        ({"OPJOULE_BROKER_KEY_FILE": "LOCKED"}, "cannot be used: the key must not need a passphrase"),
        ({"OPJOULE_BROKER_CA_FILE": "LOCKED"}, "CA file .* cannot be used: "),
        ({"OPJOULE_BROKER_URL": "mqtt://hub", "OPJOULE_BROKER_CA_FILE": ""}, "a certificate file needs .* mqtts://"),
    ],
)
def test_files_that_are_of_no_use_are_named(fleet: Path, tmp_path: Path, other: dict[str, str], line: str) -> None:
    locked = tmp_path / "locked.key"
    key = serialization.load_pem_private_key(certificate(fleet, "server").key, None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    files = {"CA": f"{fleet}/private/ca.pem", "OTHER": f"{fleet}/private/ca.key", "LOCKED": str(locked)}
    with pytest.raises(SettingsError, match=line) as caught:
        MqttBus(address(fleet, "lab/pi4", **{name: files.get(value, value) for name, value in other.items()}), "runner")
    assert "\n" not in str(caught.value)


# --- the runner itself -------------------------------------------------------------------------------------------


def _spooled(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as spool:
            return int(spool.execute("SELECT count(*) FROM entries").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


@pytest.mark.mosquitto
@pytest.mark.processes
@needs_mosquitto
def test_a_runner_that_does_not_trust_the_broker_says_why_once_measures_on_and_loses_nothing(
    fleet: Path, broker: LocalBroker, tmp_path: Path, until: Until, collect: Collect
) -> None:
    authority = Authority(certificate(fleet, "ca"))
    flags = {name.removeprefix("OPJOULE_").lower(): value for name, value in settings_of(fleet, "lab/pi4").items()}
    flags |= {
        "plan": "sham",
        "train_s": "2",
        "start_delay_s": "5",
        "gap_s": "0.5",
        "rounds": "0",
        "resend_s": "1",
        "busy_wait_s": "0",
    }
    with Services(tmp_path) as services:
        log_file = services.log_file("runner")
        for issue, line in TROUBLES:
            show(fleet, broker, issue(authority))
            if not log_file.exists():
                services.start("runner", {**flags, "state_dir": tmp_path})
            until(lambda line=line: re.search(line, log_file.read_text()) is not None)  # type: ignore[misc]
        until(lambda: _spooled(tmp_path / "runner-pi4.spool") > 0)
        assert services.status("runner") is None
        said = log_file.read_text()
        assert [len(re.findall(line, said)) for _, line in TROUBLES] == [1, 1, 1] and "Traceback" not in said
        show(fleet, broker, certificate(fleet, "server"))
        aggregator = MqttBus(address(fleet, "aggregator.main"), "aggregator")
        aggregator.subscribe([topic_filter("operations")])
        assert aggregator.connect(DEADLINE_S), aggregator.last_error
        event = OperationEvent.model_validate_json(collect(aggregator, 1)[0].payload)
        assert (event.dut, event.operation) == ("pi4", "sham")
        aggregator.disconnect()
