"""Debian's mosquitto with the deployed configuration: each role can do what it must, and nothing else."""

import re
import shutil
import ssl
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from opjoule.fleet.fleet import opened
from opjoule.fleet.passwords import password_hash
from opjoule.local_broker import available
from schemas.topics import TOPICS, parse_topic
from tests.deploy.fleets import HOST, MEMBERS, NOW, Device, Mosquitto, context_of, make_fleet, running

pytestmark = [
    pytest.mark.mosquitto,
    pytest.mark.skipif(not available("mosquitto"), reason="mosquitto is not installed"),
]

ROOT = "everything"
"""An account of these tests only, that may do all: it sends what others must not hear, hears what they must not say."""
ROOT_PASSWORD = "of a test"
OF_A_DUT = (
    "samples",
    "operations",
    "device",
    "results",
    "results/latest/cli/sign/ml-dsa-65",
    "pooled/cli/sign/ml-dsa-65/none",
    "journaled",
    "command",
)
OF_A_SERVICE = ("status", "clock/ping", "clock/pong")
CONTRACT = [
    *(f"opjoule/v1/{dut}/{each}" for dut in ("lab/pi4", "lab/pi3", "lab/zero", "barn/pi4") for each in OF_A_DUT),
    *(
        f"opjoule/v1/{site}/services/{service}/{each}"
        for site, service in (
            ("lab", "runner/pi4"),
            ("lab", "runner/pi3"),
            ("lab", "meter/hub"),
            ("lab", "meter/other"),
            ("lab", "aggregator/main"),
            ("barn", "runner/pi4"),
            ("barn", "aggregator/barn"),
            ("barn", "aggregator/main"),
        )
        for each in OF_A_SERVICE
    ),
    *(f"opjoule/v1/{site}/{each}" for site in ("lab", "barn") for each in ("comparisons/one", "rejected")),
]
DISCOVERY, HOME_ASSISTANT = "homeassistant/sensor/opjoule/pi4/config", "homeassistant/status"
OUTSIDE = [DISCOVERY, HOME_ASSISTANT, "opjoule/v2/lab/pi4/samples", "opjoule/v1/lab", "elsewhere"]
_RESULT = "(results|results/latest/cli/sign/ml-dsa-65|pooled/cli/sign/ml-dsa-65/none)"
_ANY = "opjoule/v1/[a-z]+"


def _writes_of_aggregator(site: str, name: str) -> str:
    return (
        f"{site}/[a-z0-9]+/({_RESULT}|journaled)|{site}/comparisons/one|{site}/rejected|"
        f"{site}/services/[a-z]+/[a-z0-9]+/clock/ping|{site}/services/aggregator/{name}/status"
    )


def _reads_of_aggregator(site: str) -> str:
    return f"{site}/[a-z0-9]+/(samples|operations|device)|{site}/services/[a-z]+/[a-z0-9]+/(status|clock/pong)"


def _promised(site: str) -> str:
    return f"{site}/[a-z0-9]+/({_RESULT}|device)|{site}/comparisons/one|{site}/services/[a-z]+/[a-z0-9]+/status"


def _of_runner(site: str, dut: str) -> tuple[str, str]:
    own, service = f"opjoule/v1/{site}/{dut}", f"opjoule/v1/{site}/services/runner/{dut}"
    return (
        f"{own}/(operations|device)|{service}/(status|clock/pong)",
        f"{own}/({_RESULT}|command|journaled)|{service}/(status|clock/ping)",
    )


MAY: dict[str, tuple[str, str]] = {
    "lab/pi4": _of_runner("lab", "pi4"),
    "lab/pi3": _of_runner("lab", "pi3"),
    "barn/pi4": _of_runner("barn", "pi4"),
    "lab/meter/hub": (
        "opjoule/v1/lab/(pi4|zero)/samples|opjoule/v1/lab/services/meter/hub/(status|clock/pong)",
        "opjoule/v1/lab/(pi4|zero)/journaled|opjoule/v1/lab/services/meter/hub/(status|clock/ping)",
    ),
    "aggregator.main": (
        f"{_writes_of_aggregator(_ANY, 'main')}|{DISCOVERY}",
        f"{_reads_of_aggregator(_ANY)}|{HOME_ASSISTANT}",
    ),
    "aggregator.barn": (_writes_of_aggregator("opjoule/v1/barn", "barn"), _reads_of_aggregator("opjoule/v1/barn")),
    "reader.grafana": ("nothing", _promised(_ANY)),
    "reader.home": (HOME_ASSISTANT, f"{_promised(_ANY)}|{_ANY}/[a-z0-9]+/samples|{DISCOVERY}"),
    "reader.barn": ("nothing", _promised("opjoule/v1/barn")),
    "operator.ann": (f"{_ANY}/[a-z0-9]+/command", "opjoule/v1/(lab|barn)(/.*)?"),
}
"""DESIGN in a second hand: what each account may write, and may read, as expressions for topics."""


def _allowed(expression: str) -> set[str]:
    """Of all topics, by DESIGN; own status is read by `opjoule health`."""
    found = {topic for topic in [*CONTRACT, *OUTSIDE] if re.fullmatch(expression, topic)}
    if expression == MAY["aggregator.main"][1]:
        found |= {topic for topic in CONTRACT if topic.endswith("/status")}
    return found


@dataclass(frozen=True)
class Site:
    """The fleet's folder and its broker."""

    fleet: Path
    broker: Mosquitto

    def device(self, member: str, **other: object) -> Device:
        """A client with this account's bundle, not connected."""
        return Device(self.fleet, member, self.broker.port, **other)

    def root(self, name: str) -> Device:
        """A client that may do everything; `name` is its client id."""
        return self.device("reader.grafana", username=ROOT, password=ROOT_PASSWORD, client_id=name).connect()


@pytest.fixture(scope="module")
def conf(repository: Path) -> Path:
    return repository / "deploy/mosquitto/mosquitto.conf"


def _let_root_in(fleet: Path) -> None:
    with (fleet / "broker/passwords").open("a") as file:
        file.write(f"{ROOT}:{password_hash(ROOT_PASSWORD)}\n")
    with (fleet / "broker/acl").open("a") as file:
        file.write(f"\nuser {ROOT}\ntopic readwrite #\n")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, conf: Path) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("security")
    fleet = make_fleet(folder / "fleet")
    _let_root_in(fleet)
    with running(folder / "data", conf, fleet / "broker") as broker:
        yield Site(fleet, broker)


# --- everything by everyone --------------------------------------------------------------------------------------


def test_the_table_of_this_test_holds_every_role_and_every_kind_of_topic() -> None:
    kinds = {address.kind for topic in CONTRACT if (address := parse_topic(topic))}
    assert kinds == set(TOPICS)
    assert set(MAY) == {member.username for member in MEMBERS}
    assert {member.role for member in MEMBERS} == {"runner", "meter", "aggregator", "reader", "operator"}


@pytest.mark.parametrize("username", MAY)
def test_an_account_writes_its_own_topics_and_no_other(site: Site, username: str) -> None:
    device, listener = site.device(username).connect(), site.root("listener")
    listener.subscribe("#")
    listener.heard.clear()
    payload = username.encode()
    answers = {topic: device.publish(topic, payload) for topic in [*CONTRACT, *OUTSIDE]}
    listener.publish("elsewhere", b"all said")
    while (b"all said") not in [payload for _, payload in listener.heard]:
        assert listener.hears("elsewhere")
    arrived = {topic for topic, content in listener.heard if content == payload}
    accepted = {topic for topic, answer in answers.items() if answer != "Not authorized"}
    assert arrived == accepted == _allowed(MAY[username][0])
    device.leave()
    listener.leave()


@pytest.mark.parametrize("retain", [False, True], ids=["live", "retained"])
def test_accounts_that_subscribe_to_everything_hear_what_they_may_and_no_more(site: Site, retain: bool) -> None:
    speaker = site.root("speaker")
    devices = {username: site.device(username).connect() for username in MAY}
    topics = [*CONTRACT, *OUTSIDE]
    if retain:
        for topic in topics:
            speaker.publish(topic, b"kept", retain=True)
    for device in devices.values():
        device.subscribe("#")
    if not retain:
        for topic in topics:
            speaker.publish(topic, b"live")
    last = {username: sorted(_allowed(may[1])) for username, may in MAY.items()}
    for username, device in devices.items():
        assert all(device.hears(topic) for topic in last[username])
        assert device.is_in()  # and nothing more has come meanwhile
        assert sorted({topic for topic, _ in device.heard}) == last[username], username
        device.leave()
    for topic in topics if retain else []:
        speaker.publish(topic, b"", retain=True)
    speaker.leave()


# --- forbidden acts, one by one ----------------------------------------------------------------------------------

PI4, PI3 = "opjoule/v1/lab/pi4", "opjoule/v1/lab/pi3"
RUNNER, METER = "opjoule/v1/lab/services/runner", "opjoule/v1/lab/services/meter"
FORBIDDEN_WRITES = [
    ("a runner publishes operations as another DUT", "lab/pi4", f"{PI3}/operations"),
    ("a runner describes another DUT", "lab/pi4", f"{PI3}/device"),
    ("a runner publishes samples of its own DUT", "lab/pi4", f"{PI4}/samples"),
    ("a runner forges a result", "lab/pi4", f"{PI4}/results"),
    ("a runner forges the latest result", "lab/pi4", f"{PI4}/results/latest/cli/sign/ml-dsa-65"),
    ("a runner forges a pooled mean", "lab/pi4", f"{PI4}/pooled/cli/sign/ml-dsa-65/none"),
    ("a runner forges a receipt", "lab/pi4", f"{PI4}/journaled"),
    ("a runner commands itself", "lab/pi4", f"{PI4}/command"),
    ("a runner commands another", "lab/pi4", f"{PI3}/command"),
    ("a runner speaks for the same DUT of another site", "lab/pi4", "opjoule/v1/barn/pi4/operations"),
    ("a runner says that another runner is offline", "lab/pi4", f"{RUNNER}/pi3/status"),
    ("a runner says that a meter is offline", "lab/pi4", f"{METER}/hub/status"),
    ("a runner answers another's ping", "lab/pi4", f"{RUNNER}/pi3/clock/pong"),
    ("a runner sends a ping", "lab/pi4", f"{RUNNER}/pi4/clock/ping"),
    ("a meter publishes samples of a DUT that it does not serve", "lab/meter/hub", f"{PI3}/samples"),
    ("a meter publishes operations", "lab/meter/hub", f"{PI4}/operations"),
    ("a meter forges a receipt", "lab/meter/hub", f"{PI4}/journaled"),
    ("a meter takes another meter's status", "lab/meter/hub", f"{METER}/other/status"),
    ("a meter commands a runner", "lab/meter/hub", f"{PI4}/command"),
    ("a reader forges a result", "reader.grafana", f"{PI4}/results"),
    ("a reader writes a comparison", "reader.grafana", "opjoule/v1/lab/comparisons/one"),
    ("a reader commands a runner", "reader.grafana", f"{PI4}/command"),
    ("an operator forges a result", "operator.ann", f"{PI4}/results"),
    ("an operator publishes samples", "operator.ann", f"{PI4}/samples"),
    ("an aggregator publishes samples", "aggregator.main", f"{PI4}/samples"),
    ("an aggregator commands a runner", "aggregator.main", f"{PI4}/command"),
    ("an aggregator of one site writes results of another", "aggregator.barn", f"{PI4}/results"),
    ("a runner writes below the broker's own topics", "lab/pi4", "$SYS/broker/version"),
]
FORBIDDEN_READS = [
    ("a runner reads another's commands", "lab/pi4", f"{PI3}/command", f"{PI4}/command"),
    ("a runner reads another's receipts", "lab/pi4", f"{PI3}/journaled", f"{PI4}/journaled"),
    ("a runner reads another's results", "lab/pi4", f"{PI3}/results", f"{PI4}/results"),
    (
        "a runner reads another's pooled means",
        "lab/pi4",
        f"{PI3}/pooled/lib/handshake/x25519/certificate-rsa-2048",
        f"{PI4}/pooled/lib/handshake/x25519/certificate-rsa-2048",
    ),
    ("a runner reads its own power samples", "lab/pi4", f"{PI4}/samples", f"{PI4}/results"),
    ("a runner reads what was rejected", "lab/pi4", "opjoule/v1/lab/rejected", f"{PI4}/results"),
    ("a meter reads commands", "lab/meter/hub", f"{PI4}/command", f"{PI4}/journaled"),
    ("a meter reads receipts of a DUT that it does not serve", "lab/meter/hub", f"{PI3}/journaled", f"{PI4}/journaled"),
    ("a meter reads operations", "lab/meter/hub", f"{PI4}/operations", f"{PI4}/journaled"),
    ("a reader reads samples", "reader.grafana", f"{PI4}/samples", f"{PI4}/results"),
    ("a reader reads commands", "reader.grafana", f"{PI4}/command", f"{PI4}/results"),
    ("a reader reads what was rejected", "reader.grafana", "opjoule/v1/lab/rejected", f"{PI4}/results"),
    ("a reader of one site reads another", "reader.barn", f"{PI4}/results", "opjoule/v1/barn/pi4/results"),
    ("an aggregator of one site reads another", "aggregator.barn", f"{PI4}/samples", "opjoule/v1/barn/pi4/samples"),
]


def _named(acts: list[tuple[str, ...]]) -> list[object]:
    return [pytest.param(*act[1:], id=act[0]) for act in acts]


@pytest.mark.parametrize("retain", [False, True], ids=["live", "retained"])
@pytest.mark.parametrize(("username", "topic"), _named([*FORBIDDEN_WRITES]))
def test_the_broker_refuses_and_nobody_hears(site: Site, username: str, topic: str, retain: bool) -> None:
    device, listener = site.device(username).connect(), site.root("listener")
    listener.subscribe("#")
    listener.heard.clear()
    answer = device.publish(topic, b"forged", retain)
    listener.publish("elsewhere", b"afterwards")
    assert listener.hears("elsewhere")
    assert answer == "Not authorized" and b"forged" not in [payload for _, payload in listener.heard]
    late = site.root("late")
    late.subscribe(topic)
    late.publish("elsewhere", b"afterwards")
    assert b"forged" not in [payload for _, payload in late.heard]
    for each in (device, listener, late):
        each.leave()


@pytest.mark.parametrize(("username", "topic", "own"), _named([*FORBIDDEN_READS]))
@pytest.mark.parametrize("wide", [False, True], ids=["by name", "by a shared wildcard"])
def test_the_broker_delivers_nothing_of_it(site: Site, username: str, topic: str, own: str, wide: bool) -> None:
    device, speaker = site.device(username).connect(), site.root("speaker")
    device.subscribe("$share/thieves/opjoule/#" if wide else topic, own)
    speaker.publish(topic, b"secret")
    speaker.publish(own, b"its own")
    assert device.hears(own)
    assert topic not in {each for each, _ in device.heard}
    device.leave()
    speaker.leave()


def test_a_last_will_on_anothers_status_never_comes(site: Site) -> None:
    listener = site.root("listener")
    listener.subscribe(f"{RUNNER}/+/status")
    for topic, comes in ((f"{RUNNER}/pi3/status", False), (f"{RUNNER}/pi4/status", True)):
        device = site.device("lab/pi4", will=topic).connect()
        device.vanish()
        assert listener.hears(topic, within_s=10 if comes else 0.5) == comes
    listener.publish(f"{RUNNER}/pi4/status", b"", retain=True)
    listener.leave()


def test_a_session_is_not_handed_over_with_what_waits_in_it(site: Site) -> None:
    """Whoever knows a client id takes the session, not what only its owner may read."""
    aggregator = site.device("aggregator.main", client_id="known", session_s=60).connect()
    aggregator.subscribe("opjoule/v1/#")
    aggregator.leave()
    speaker = site.root("speaker")
    speaker.publish(f"{PI3}/operations", b"secret")
    thief = site.device("lab/pi4", client_id="known", session_s=60).connect()
    thief.subscribe(f"{PI4}/command")
    speaker.publish(f"{PI4}/command", b"its own")
    assert thief.hears(f"{PI4}/command")
    assert f"{PI3}/operations" not in {topic for topic, _ in thief.heard}
    thief.leave()
    speaker.leave()


def test_a_shared_group_can_be_thinned_by_anyone_as_the_page_on_security_says(site: Site, repository: Path) -> None:
    group = f"$share/group/{PI4}/command"
    owner, stranger = site.device("lab/pi4").connect(), site.device("lab/pi3").connect()
    speaker = site.root("speaker")
    for each in (owner, stranger):
        each.subscribe(group)
    for number in range(10):
        speaker.publish(f"{PI4}/command", str(number).encode())
    assert 0 < len(owner.listen(0.5)) < 10 and stranger.listen(0.2) == []
    for each in (owner, stranger, speaker):
        each.leave()
    assert "any account may join any `$share/GROUP/`" in (repository / "docs/security.md").read_text("utf-8")


# --- at the door -------------------------------------------------------------------------------------------------


SHUT_BY_TLS = ("no answer", "[Errno 104] Connection reset by peer")
"""Of TLS 1.3 the client learns that its certificate was refused when it has spoken already."""


def _knock(device: Device) -> str:
    """What keeps a client out; empty where it is let in."""
    try:
        device.connect()
    except OSError as error:
        return str(error)
    except AssertionError as error:
        return str(error).partition("\n")[0]
    finally:
        device.leave()
    return ""


def test_a_member_is_let_in(site: Site) -> None:
    assert _knock(site.device("lab/pi4")) == ""


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"username": None}, id="without a name"),
        pytest.param({"password": None}, id="without a password"),
        pytest.param({"password": "wrong"}, id="with a wrong password"),
        pytest.param({"password": ""}, id="with an empty password"),
        pytest.param({"username": "lab/pi3"}, id="with another's name"),
        pytest.param({"username": "nobody"}, id="with an unknown name"),
    ],
)
def test_nobody_enters_without_the_right_name_and_password(site: Site, other: dict[str, object]) -> None:
    assert re.search("Not authorized|Bad user name", _knock(site.device("lab/pi4", **other)))


def test_nobody_enters_without_tls(site: Site) -> None:
    assert _knock(site.device("lab/pi4", tls=False)) in SHUT_BY_TLS


def test_nobody_enters_without_a_certificate(site: Site) -> None:
    context = ssl.create_default_context(cafile=site.fleet / "broker/ca.pem")
    assert _knock(site.device("lab/pi4", context=context)) in SHUT_BY_TLS


def test_nobody_enters_with_a_certificate_of_another_authority(site: Site, tmp_path: Path) -> None:
    stranger = make_fleet(tmp_path / "other", MEMBERS[:1]) / "bundles/lab.pi4"
    context = ssl.create_default_context(cafile=site.fleet / "broker/ca.pem")
    context.load_cert_chain(stranger / "client.pem", stranger / "client.key")
    assert _knock(site.device("lab/pi4", context=context)) in SHUT_BY_TLS


def test_the_broker_refuses_tls_1_1(site: Site) -> None:
    context = context_of(site.fleet / "bundles/lab.pi4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
    assert "alert protocol version" in _knock(site.device("lab/pi4", context=context)), "the broker's own word"
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        modern = context_of(site.fleet / "bundles/lab.pi4")
        modern.minimum_version = modern.maximum_version = version
        assert _knock(site.device("lab/pi4", context=modern)) == ""


def test_a_client_that_sends_an_oversized_message_is_put_out_and_nobody_gets_it(site: Site) -> None:
    device, listener = site.device("lab/meter/hub").connect(), site.root("listener")
    listener.subscribe(f"{PI4}/samples")
    assert device.publish(f"{PI4}/samples", bytes(15 * 2**20)) == "Success"
    with pytest.raises(AssertionError, match="no answer to a PUBLISH"):
        device.publish(f"{PI4}/samples", bytes(17 * 2**20))
    assert device.is_put_out()
    device.leave()
    listener.publish("opjoule/v1/lab/pi4/samples", b"afterwards")
    while len(listener.heard) < 2:
        assert listener.hears(f"{PI4}/samples") and listener.is_in()
    assert [len(payload) for _, payload in listener.heard] == [15 * 2**20, len(b"afterwards")]
    listener.leave()


# --- what changes while the broker runs --------------------------------------------------------------------------


def test_who_is_revoked_is_put_out_at_the_reload_by_password_and_by_certificate(tmp_path: Path, conf: Path) -> None:
    fleet = make_fleet(tmp_path / "fleet")
    stolen = shutil.copytree(fleet / "bundles/lab.pi4", tmp_path / "stolen/bundles/lab.pi4").parent.parent
    with running(tmp_path / "data", conf, fleet / "broker") as broker:
        inside, neighbour = Site(fleet, broker).device("lab/pi4").connect(), Site(fleet, broker).device("lab/pi3")
        neighbour.connect()
        with opened(fleet) as register:
            assert register.revoke("lab/pi4", NOW)
        assert inside.is_in()
        broker.reload()
        assert inside.is_put_out() and neighbour.is_in()
        inside.leave()
        neighbour.leave()
        thief = Site(stolen, broker)
        assert _knock(thief.device("lab/pi4")) != ""
        others = {"username": "lab/pi3", "password": _password(fleet, "lab.pi3")}
        assert _knock(thief.device("lab/pi4", **others)) in SHUT_BY_TLS
        good = context_of(fleet / "bundles/lab.pi3")
        assert _knock(thief.device("lab/pi4", context=good)) == "Not authorized"
        assert _knock(Site(fleet, broker).device("lab/pi3")) == ""


def test_a_renewed_certificate_is_shown_after_a_reload(tmp_path: Path, conf: Path) -> None:
    fleet = make_fleet(tmp_path / "fleet", MEMBERS[:1])
    with running(tmp_path / "data", conf, fleet / "broker") as broker:
        before = ssl.get_server_certificate((HOST, broker.port))
        with opened(fleet) as register:
            register.renew((), NOW)
        broker.reload()
        after = ssl.get_server_certificate((HOST, broker.port))
        assert after.strip() == (fleet / "broker/server.pem").read_text().strip() != before.strip()
        assert _knock(Site(fleet, broker).device("lab/pi4")) == ""


def _password(fleet: Path, bundle: str) -> str:
    return (fleet / "bundles" / bundle / "password").read_text().strip()


def test_who_is_added_is_let_in_after_a_reload(tmp_path: Path, conf: Path) -> None:
    fleet = make_fleet(tmp_path / "fleet", MEMBERS[:1])
    with running(tmp_path / "data", conf, fleet / "broker") as broker:
        here = Site(fleet, broker)
        with opened(fleet) as register:
            register.add(MEMBERS[1], PurePosixPath("/etc/opjoule"), NOW)
        assert _knock(here.device("lab/pi3")) != ""
        broker.reload()
        assert _knock(here.device("lab/pi3")) == ""
