"""Every command of install, operate, subscribe and security is run as far as it can be; NOT_RUN says why not."""

import argparse
import importlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest
import yaml

from aggregator.clocks import Timeline
from aggregator.result import MeterView, of_train
from bus import BrokerAddress, MqttBus
from opjoule.__main__ import SUBCOMMANDS
from opjoule.fleet.fleet import SERVER_LIFE
from opjoule.fleet.members import Member
from opjoule.local_broker import available
from schemas import EnergyResult
from schemas.topics import TOPICS
from tests.aggregator.trains import event, segments, steps, trace
from tests.deploy.fleets import HOST, Mosquitto, make_fleet, running, settings_of
from tests.deploy.test_compose import parsed
from tests.deploy.test_compose_setup import run_setup
from tests.deploy.test_pi_install import Board

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(ROOT / "docs" / f"{name}.md" for name in ("install", "operate", "subscribe", "security"))
NOT_RUN = {
    "git": "needs the published repository",
    "scp": "needs another machine",
    "cd": "changes the folder of the shell",
    "echo": "a setting, whose name is checked",
    "deploy/pi/openssl-bundle": "fetches packages: shellcheck and its words are checked",
}
COMPOSE_WITHOUT_A_CONTAINER = {"up", "down", "stop", "ps", "logs", "kill", "restart", "rm"}
"""They need Docker's daemon: their services, profiles and words are checked."""


@dataclass(frozen=True)
class Line:
    """One command of an `sh` block."""

    page: Path
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.stem}: {' '.join(self.words)[:70]}"


def commands() -> list[Line]:
    """Of all pages, without redirections."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.S | re.M):
            for line in block.splitlines():
                words = shlex.split(re.sub(r" [<>] \S+$", "", line))
                found.append(Line(page, tuple(words)))
    return found


ALL = commands()


def having(*beginning: str) -> list[Line]:
    """Commands that begin so."""
    return [line for line in ALL if line.words[: len(beginning)] == beginning]


def in_containers() -> list[Line]:
    """What is run by `docker compose run ... setup`, without what stands before it."""
    found = []
    for line in having("docker", "compose", "run"):
        at = next(number for number, word in enumerate(line.words) if word in ("setup", "setup-influxdb"))
        assert set(line.words[3:at]) <= {"--rm", "--no-deps", "-T"}
        found.append(Line(line.page, line.words[at + 1 :]))
    return found


def test_every_command_is_run_here_or_has_a_reason_why_not() -> None:
    known = {("docker", "compose"), ("sudo", "deploy/pi/install"), ("deploy/pi/install", "runner")}
    others = [line for line in ALL if line.words[:2] not in known and line.words[0] not in NOT_RUN]
    assert len(ALL) > 40
    assert {line.words[0] for line in others} == {"opjoule", "mosquitto_sub"}
    assert {line.words[0] for line in ALL if line.words[0] in NOT_RUN} == set(NOT_RUN)


@pytest.mark.parametrize("line", having("docker", "compose"), ids=str)
def test_docker_compose_is_asked_for_services_and_profiles_that_exist(line: Line) -> None:
    compose = parsed(ROOT)
    words = list(line.words[2:])
    while words[0] == "--profile":
        assert any(words[1] in service.get("profiles", []) for service in compose["services"].values())
        words = words[2:]
    action, *rest = words
    assert action in COMPOSE_WITHOUT_A_CONTAINER | {"run"}
    if action == "rm":
        assert rest[:2] == ["--stop", "--force"] and all("profiles" in compose["services"][name] for name in rest[2:])
    elif action in ("kill", "restart", "logs"):
        named = [word for word in rest if word in compose["services"]]
        assert named and set(rest) - set(named) <= {"--signal", "SIGHUP", "--tail", "20"}
    elif action != "run":
        assert set(rest) <= {"--build", "--detach", "--volumes", "--force-recreate"}


def test_what_is_put_into_env_is_what_the_compose_file_asks_for() -> None:
    names = [line.words[1].partition("=")[0] for line in having("echo")]
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    assert names == ["HUB_HOSTS"] and all(f"${{{name}:-" in text for name in names)
    spoken = {
        name for page in PAGES for name in re.findall(r"\b(?:HUB|GRAFANA|HOME|WITHOUT)_[A-Z]+\b", page.read_text())
    }
    assert spoken == {"HUB_HOSTS", "GRAFANA_BIND", "HOME_ASSISTANT", "WITHOUT_METER"}
    assert all(f"${{{name}:-" in text for name in spoken)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the hub's volumes hold after the first start."""
    folder = tmp_path_factory.mktemp("hub") / "volumes"
    for name in parsed(ROOT)["volumes"]:
        (folder / name).mkdir(parents=True)
    assert run_setup(ROOT, folder, "secrets", HUB_HOSTS="hub.local,192.168.1.10").returncode == 0
    return folder


def test_the_commands_in_containers_do_what_the_pages_say_in_their_order(volumes: Path, tmp_path: Path) -> None:
    ran, backup = 0, tmp_path / "backup.tar"
    for line in in_containers():
        words = [word.replace("/volumes", str(volumes)) for word in line.words]
        if words[0] == "python":
            continue  # test_compose_setup.py renews tokens
        if words[0] == "opjoule":
            words = [sys.executable, "-m", *words]
        given = backup.read_bytes() if "-xf" in words else b""
        done = subprocess.run(words, input=given, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, (line, done.stderr)
        if words[0] == "sh":
            backup.write_bytes(done.stdout)
        ran += 1
    assert ran >= 12
    accounts = {file.name for file in (volumes / "fleet/bundles").iterdir()}
    assert {"lab.pi4", "lab.meter.bench", "reader.ann", "operator.ann", "reader.home"} <= accounts
    with tarfile.open(backup) as archive:
        inside = {name.partition("/")[0] for name in archive.getnames()}
    assert inside == set(parsed(ROOT)["volumes"]), (
        "not the folder that holds them: it is root's, and tar would set its time"
    )


def test_taking_the_demo_away_leaves_the_hub() -> None:
    section = (ROOT / "docs/install.md").read_text("utf-8").partition("## The hub")[2].partition("\n## ")[0]
    away = [line for line in section.splitlines() if line.startswith("docker compose --profile demo ")][1:]
    assert away == ["docker compose --profile demo rm --stop --force runner simulated-meter"]


def test_the_life_of_the_brokers_certificate_is_the_one_on_the_page() -> None:
    text = (ROOT / "docs/operate.md").read_text("utf-8")
    margin = re.search(
        r"^RENEW_BEFORE = timedelta\(days=(\d+)\)$", (ROOT / "deploy/setup/setup.py").read_text("utf-8"), re.M
    )
    assert margin is not None and f"less than {margin[1]} days are left" in text
    assert f"ends after {SERVER_LIFE.days} days" in text


def test_the_limits_of_the_broker_are_those_on_the_page() -> None:
    text = (ROOT / "docs/security.md").read_text("utf-8")
    conf = (ROOT / "deploy/mosquitto/mosquitto.conf").read_text("utf-8")
    queue = re.search(r"^max_queued_bytes (\d+)$", conf, re.M)
    limit = parsed(ROOT)["services"]["mosquitto"]["mem_limit"]
    assert queue is not None and f"{int(queue[1]) // 2**20} MiB (`max_queued_bytes`)" in text
    assert f"limit of memory ({limit.removesuffix('g')} GB" in text


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """A board with an old OpenSSL, and what the pages say lies there."""
    made = Board(tmp_path, ROOT)
    made.has("12", "arm64", "aarch64", "3.0.16")
    return made


@pytest.mark.parametrize("line", [line for line in ALL if "deploy/pi/install" in line.words[:2]], ids=str)
def test_the_installer_understands_what_the_pages_tell_it(line: Line, board: Board, tmp_path: Path) -> None:
    fleet = make_fleet(tmp_path / "fleet")
    files = {"~/pi4.tar": "lab.pi4", "~/bench.tar": "lab.meter.hub"}
    for name in ("openssl-arm64.tar", "openssl-3.5.7.tar.gz"):
        (tmp_path / name).touch()
    (board.root / "etc/opjoule/runner").mkdir(parents=True)
    (board.root / "etc/opjoule/runner/opjoule.env").touch()  # from the first time
    words = line.words[line.words.index("deploy/pi/install") + 1 :]
    given = [
        str(fleet / "bundles" / files[word]) if word in files else str(tmp_path / word) if ".tar" in word else word
        for word in words
    ]
    done = board.install(*given, *([] if "--dry-run" in given else ["--dry-run"]))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", having("deploy/pi/openssl-bundle"), ids=str)
def test_the_bundle_of_openssl_is_asked_for_in_words_that_it_takes(line: Line) -> None:
    text = (ROOT / line.words[0]).read_text("utf-8")
    choices = re.search(r"^    ([\w| ]+)\) ;;$", text, re.M)
    assert choices is not None and line.words[1] in choices[1].split(" | ") and len(line.words) == 3


@pytest.mark.parametrize("line", having("opjoule"), ids=str)
def test_the_command_line_tools_understand_what_the_pages_tell_them(line: Line) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(SUBCOMMANDS[line.words[1]].module).add_arguments(parser)
    assert parser.parse_args(line.words[2:])


def test_the_alerts_that_are_explained_are_those_that_grafana_has() -> None:
    text = (ROOT / "deploy/grafana/provisioning/alerting/opjoule.yaml").read_text("utf-8")
    titles = [rule["title"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    section = (
        (ROOT / "docs/operate.md").read_text("utf-8").partition("## What each alert means")[2].partition("\n## ")[0]
    )
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]
    assert [row[0] for row in rows] == titles and all(len(row) == 3 and all(row) for row in rows)


def test_the_promised_topics_of_the_page_are_those_of_the_contract() -> None:
    section = (ROOT / "docs/subscribe.md").read_text("utf-8").partition("\n\nSET is")[0]
    rows = [re.findall(r"^\| `opjoule/v1/SITE/([^`]+)` \| (yes|no) ", line) for line in section.splitlines()]
    shown = {re.sub(r"[A-Z]+", "+", row[0][0]): row[0][1] == "yes" for row in rows if row}
    wanted = {re.sub(r"\{\w+\}", "+", spec.pattern): spec.retain for spec in TOPICS.values() if spec.promised}
    assert shown == wanted


@pytest.mark.parametrize(("page", "role"), [("security", "runner"), ("security", "meter")])
def test_the_rating_of_the_services_is_what_systemd_says(page: str, role: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = ROOT / f"deploy/pi/opjoule-{role}.service"
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    rated = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
    said = re.search(rf"([\d.]+) for the {role}", (ROOT / f"docs/{page}.md").read_text("utf-8"))
    found = re.search(r"exposure level for \S+: ([\d.]+)", rated)
    assert said is not None and found is not None and float(said[1]) == pytest.approx(float(found[1]), abs=0.3)


@dataclass(frozen=True)
class Reading:
    """A reader's folder as the page unpacks it, and the broker."""

    folder: Path
    broker: Mosquitto


def result() -> EnergyResult:
    """One that is worth reading."""
    parts = segments(5, load_s=1.0, idle_s=1.0)
    samples = trace(steps(parts, 2.0, 3.0), 11)
    return of_train(
        event(parts), MeterView("m1", "FNB58", "measured", Timeline("shared", None), samples), 1, "opjoule 0"
    )


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    """A broker with TLS that keeps one result, and the bundle of a reader in a folder `reader`."""
    if not available("mosquitto"):
        pytest.skip("mosquitto is not installed")
    folder = tmp_path_factory.mktemp("reading")
    members = (Member(role="aggregator", name="main"), Member(role="reader", name="ann"))
    fleet = make_fleet(folder / "fleet", members)
    shutil.copytree(fleet / "bundles/reader.ann", folder / "reader")
    with running(folder / "data", ROOT / "deploy/mosquitto/mosquitto.conf", fleet / "broker") as broker:
        given = settings_of(fleet, "aggregator.main")
        place = PurePosixPath(fleet / "bundles/aggregator.main")
        address = BrokerAddress.parse(
            f"mqtts://{HOST}:{broker.port}", given["OPJOULE_BROKER_USERNAME"],
            (Path(place) / "password").read_text().strip(), Path(place / "ca.pem"), Path(place / "client.pem"),
            Path(place / "client.key"),
        )  # fmt: skip
        bus = MqttBus(address, "aggregator")
        assert bus.connect(10), bus.last_error
        made = result()
        bus.publish("latest", "lab", made, dut="pi4", backend="cli", operation="keygen", slug="ml-kem-768")
        assert bus.flush(5)
        bus.disconnect()
        yield Reading(folder, broker)


@pytest.mark.mosquitto
@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="mosquitto_sub is not installed")
def test_the_shell_example_prints_the_last_result(reading: Reading) -> None:
    line = having("mosquitto_sub")[0]
    text = re.search(r"^mosquitto_sub .*$", line.page.read_text("utf-8"), re.M)
    assert text is not None
    command = text[0].replace("hub.local", HOST).replace("8883", str(reading.broker.port)) + " -C 1 -W 20"
    shown = subprocess.run(
        ["sh", "-c", command], cwd=reading.folder, capture_output=True, text=True, check=False, timeout=60
    )
    topic, _, payload = shown.stdout.partition(" ")
    assert topic == "opjoule/v1/lab/pi4/results/latest/cli/keygen/ml-kem-768", shown.stderr
    assert EnergyResult.model_validate_json(payload) == result()


@pytest.mark.mosquitto
def test_the_python_example_prints_the_last_result(reading: Reading) -> None:
    text = (ROOT / "docs/subscribe.md").read_text("utf-8")
    example = text.partition("```python\n")[2].partition("```")[0]
    program = example.replace("hub.local", HOST).replace("8883", str(reading.broker.port))
    process = subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-c", program], cwd=reading.folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
    quantity = result().net_j_per_op
    assert quantity is not None
    assert (
        line.startswith("pi4 keygen ML-KEM-768 {") and f"'value': {quantity.value}" in line and line.endswith("good\n")
    )


def test_the_quantity_that_is_shown_has_the_fields_of_the_contract() -> None:
    shown = re.search(r"`(\{\"value\".*?\})`", (ROOT / "docs/subscribe.md").read_text("utf-8"))
    quantity = result().net_j_per_op
    assert shown is not None and quantity is not None
    assert set(json.loads(shown[1])) == set(quantity.model_dump())
