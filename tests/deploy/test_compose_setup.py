"""The set-up of the containers, run in a plain folder: real fleet, real broker, an InfluxDB that answers as documented.

Then every container's command, with the environment of the compose file and the volumes that the set-up filled.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from opjoule.local_broker import available
from opjoule.processes import dies_with_parent
from tests.deploy.fake_influxdb import BUCKET, Influx
from tests.deploy.fleets import HOST, running
from tests.deploy.test_compose import SERVICES, parsed

LIMIT_S = 60.0


@pytest.fixture
def influx() -> Iterator[Influx]:
    """One that was never set up."""
    server = Influx()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    """Empty, as a daemon makes them."""
    folder = tmp_path / "volumes"
    for name in parsed(Path(__file__).resolve().parents[2])["volumes"]:
        (folder / name).mkdir(parents=True, mode=0o700)
    return folder


def run_setup(
    repository: Path, volumes: Path, step: str, *flags: str, **other: str
) -> subprocess.CompletedProcess[str]:
    """The command of a one-shot container, with its environment."""
    name = {"secrets": "setup", "influxdb": "setup-influxdb"}[step]
    service = parsed(repository)["services"][name]
    assert service["command"][0] == "python" and service["command"][2:] == [step]
    script = service["command"][1].replace("/opt/opjoule/setup", str(repository / "deploy/setup"))
    return subprocess.run(
        [sys.executable, script, step, "--volumes", str(volumes), *flags],
        env=environment(service["environment"] | other), capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip


def environment(given: Mapping[str, Any]) -> dict[str, str]:
    """Nothing of ours but what is given."""
    ours = ("OPJOULE_", "XDG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        name: str(value or "") for name, value in given.items()
    }


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder but locks, in which the last process wrote its number."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def secrets_made(repository: Path, volumes: Path) -> str:
    """What the first step says when all went well."""
    done = run_setup(repository, volumes, "secrets", HUB_HOSTS="hub.example")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_set_up_gives_every_reader_its_secrets_and_nobody_else_may_read_them(
    repository: Path, volumes: Path
) -> None:
    secrets_made(repository, volumes)
    files = contents(volumes)
    for name in ("aggregator", "meter", "simulated-meter", "runner"):
        compose = parsed(repository)["services"][name]["environment"]
        for wanted in (value for value in compose.values() if str(value).startswith("/run/opjoule/")):
            made = f"{name}-secrets/{Path(wanted).name}"
            assert made in files or wanted.endswith("influx_token"), made
        bundle = files[f"{name}-secrets/opjoule.env"].decode()
        assert f"OPJOULE_BROKER_USERNAME={compose['OPJOULE_BROKER_USERNAME']}\n" in bundle
        assert f"OPJOULE_INSTANCE={compose['OPJOULE_INSTANCE']}\n" in bundle
        assert "OPJOULE_BROKER_URL=mqtts://hub.example:8883\n" in bundle
    open_to_others = [name for name in files if (volumes / name).stat().st_mode & 0o077]
    assert open_to_others == []
    assert len(files["grafana-secrets/grafana_admin_password"]) > 30
    assert not any("ca.key" in name for name in files if not name.startswith("fleet/"))


def test_a_second_set_up_changes_no_secret(repository: Path, volumes: Path) -> None:
    secrets_made(repository, volumes)
    before = contents(volumes)
    assert "new" not in secrets_made(repository, volumes)
    changed = {name for name, content in contents(volumes).items() if before.get(name) != content}
    assert changed <= {"broker-secrets/crl.pem"}, "its date is that of the set-up"


def test_other_names_of_this_host_give_the_broker_a_new_certificate_and_no_one_a_new_account(
    repository: Path, volumes: Path
) -> None:
    secrets_made(repository, volumes)
    before = contents(volumes)
    again = run_setup(repository, volumes, "secrets", HUB_HOSTS="other.example")
    assert again.returncode == 0 and "new certificate for the broker: other.example, mosquitto" in again.stdout
    after = contents(volumes)
    assert after["broker-secrets/server.pem"] != before["broker-secrets/server.pem"]
    assert after["runner-secrets/client.pem"] == before["runner-secrets/client.pem"]


def test_a_meter_that_serves_other_boards_gets_a_new_account_and_a_lost_bundle_too(
    repository: Path, volumes: Path
) -> None:
    secrets_made(repository, volumes)
    before = contents(volumes)
    shutil.rmtree(volumes / "fleet/bundles/lab.this-machine")
    again = run_setup(repository, volumes, "secrets", HUB_HOSTS="hub.example", METER_DUT="pi3,pi4")
    said = [line for line in again.stdout.splitlines() if line.startswith("new account")]
    assert sorted(said) == ["new account: lab/meter/hub", "new account: lab/this-machine"]
    after = contents(volumes)
    assert after["meter-secrets/password"] != before["meter-secrets/password"]
    assert after["aggregator-secrets/password"] == before["aggregator-secrets/password"]
    assert b"topic write opjoule/v1/lab/pi3/samples" in after["broker-secrets/acl"]


def test_without_names_of_this_host_the_set_up_says_what_that_means(repository: Path, volumes: Path) -> None:
    done = run_setup(repository, volumes, "secrets")
    assert done.returncode == 0 and done.stdout.startswith("HUB_HOSTS is empty: boards elsewhere cannot join")


@pytest.mark.parametrize("value", ["PI", "", ",", "pi,services"])
def test_boards_of_the_meter_that_cannot_be_are_one_line_before_anything_is_made(
    repository: Path, volumes: Path, value: str
) -> None:
    done = run_setup(repository, volumes, "secrets", METER_DUT=value)
    assert done.returncode == 1 and done.stderr.startswith(f"setup: METER_DUT={value} is no list of DUTs with commas: ")
    assert len(done.stderr.splitlines()) == 1 and contents(volumes) == {}


def store_made(repository: Path, volumes: Path, influx: Influx, *flags: str) -> subprocess.CompletedProcess[str]:
    """The second step."""
    return run_setup(repository, volumes, "influxdb", *flags, OPJOULE_INFLUX_URL=influx.url)


def tokens_in(volumes: Path) -> tuple[str, str]:
    """The aggregator's and Grafana's."""
    files = ("aggregator-secrets/influx_token", "grafana-secrets/grafana_influx_token")
    return (volumes / files[0]).read_text(), (volumes / files[1]).read_text()


def test_the_aggregators_token_writes_only_and_grafanas_reads_only(
    repository: Path, volumes: Path, influx: Influx
) -> None:
    done = store_made(repository, volumes, influx)
    assert done.returncode == 0, done.stderr
    writes, reads = tokens_in(volumes)
    assert influx.may(writes, "write") and not influx.may(writes, "read")
    assert influx.may(reads, "read") and not influx.may(reads, "write")
    assert influx.admin not in (writes, reads) and influx.admin not in done.stdout
    assert (volumes / "influxdb-admin/influxdb_admin_token").read_text() == influx.admin


def test_the_second_set_up_of_influxdb_makes_nothing(repository: Path, volumes: Path, influx: Influx) -> None:
    store_made(repository, volumes, influx)
    before = tokens_in(volumes)
    assert store_made(repository, volumes, influx).stdout == "InfluxDB is ready\n"
    assert tokens_in(volumes) == before and influx.made == 2


def test_a_token_that_is_gone_from_either_side_is_made_anew_and_the_old_one_ends(
    repository: Path, volumes: Path, influx: Influx
) -> None:
    store_made(repository, volumes, influx)
    (volumes / "aggregator-secrets/influx_token").unlink()
    influx.authorizations = {
        name: each for name, each in influx.authorizations.items() if "Grafana" not in each["description"]
    }
    assert store_made(repository, volumes, influx).stdout.count("new token") == 2
    assert len(influx.authorizations) == 2 and all(
        influx.may(*pair) for pair in zip(tokens_in(volumes), ("write", "read"), strict=True)
    )


def test_tokens_can_be_renewed(repository: Path, volumes: Path, influx: Influx) -> None:
    store_made(repository, volumes, influx)
    before = tokens_in(volumes)
    store_made(repository, volumes, influx, "--renew")
    assert not set(before) & set(tokens_in(volumes)) and len(influx.authorizations) == 2


def test_an_influxdb_whose_volume_was_removed_is_set_up_again_with_new_tokens(
    repository: Path, volumes: Path, influx: Influx
) -> None:
    store_made(repository, volumes, influx)
    influx.admin, influx.authorizations = "", {}
    assert store_made(repository, volumes, influx).stdout.startswith("set up InfluxDB")
    assert influx.may(tokens_in(volumes)[0], "write")


@pytest.mark.parametrize(
    ("trouble", "line"),
    [
        ("foreign", "was set up by someone else: put its administrator's token into the volume `influxdb-admin`"),
        ("bucket", "has no bucket 'gone': make it there, or correct its name"),
        ("org", "has no organisation 'gone': make it there, or correct its name"),
        ("down", "does not answer"),
    ],
)
def test_every_trouble_with_influxdb_is_one_line_that_says_who_must_act(
    repository: Path, volumes: Path, influx: Influx, trouble: str, line: str
) -> None:
    other = {"OPJOULE_INFLUX_URL": influx.url}
    if trouble == "foreign":
        influx.admin = "theirs"
    else:
        store_made(repository, volumes, influx)
        other |= {"bucket": {"OPJOULE_INFLUX_BUCKET": "gone"}, "org": {"OPJOULE_INFLUX_ORG": "gone"}}.get(trouble, {})
    if trouble == "down":
        with socket.socket() as unused:
            unused.bind((HOST, 0))
            other = {"OPJOULE_INFLUX_URL": f"http://{HOST}:{unused.getsockname()[1]}"}
    done = run_setup(repository, volumes, "influxdb", **other)
    assert done.returncode == 1 and line in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr


def inside(compose: Mapping[str, Any], name: str, volumes: Path, port: int, influx: Influx) -> dict[str, str]:
    """The environment of a container, with its mounts and the names of its network as they are in the test."""
    text = {key: str(value or "") for key, value in compose["services"][name]["environment"].items()}
    changes = {
        "/run/opjoule": str(volumes / f"{name}-secrets"),
        "mqtts://mosquitto:8883": f"mqtts://localhost:{port}",
        "http://influxdb:8086": influx.url,
    }
    for old, new in changes.items():
        text = {key: value.replace(old, new) for key, value in text.items()}
    return environment(text | {"OPJOULE_STATE_DIR": str(volumes / f"{name}-state")})


def is_healthy(name: str, variables: Mapping[str, str]) -> bool:
    """The health check of our image, where process 1 is not the service."""
    check = [sys.executable, "-m", "opjoule", "health", SERVICES[name]]
    return subprocess.run(check, env=variables, capture_output=True, check=False, timeout=30).returncode == 0


@pytest.mark.mosquitto
@pytest.mark.processes
@pytest.mark.skipif(not available("mosquitto"), reason="mosquitto is not installed")
def test_every_command_of_the_compose_file_runs_with_what_the_set_up_made(
    repository: Path, volumes: Path, influx: Influx, tmp_path: Path
) -> None:
    secrets_made(repository, volumes)
    assert store_made(repository, volumes, influx).returncode == 0
    compose, started = parsed(repository), dict[str, subprocess.Popen[bytes]]()
    conf, broker_files = repository / "deploy/mosquitto/mosquitto.conf", volumes / "broker-secrets"
    with running(tmp_path / "mosquitto", conf, broker_files) as broker:
        variables = {
            name: inside(compose, name, volumes, broker.port, influx)
            for name in ("aggregator", "simulated-meter", "runner")
        }
        try:
            for name, given in variables.items():
                command = [sys.executable, *compose["services"][name]["command"][1:]]
                with (tmp_path / f"{name}.log").open("wb") as log:
                    started[name] = subprocess.Popen(dies_with_parent(command), env=given, stdout=log, stderr=log)
            deadline_s = time.monotonic() + LIMIT_S
            waiting = set(variables)
            while waiting or not influx.written:
                waiting -= {name for name in waiting if is_healthy(name, variables[name])}
                assert time.monotonic() < deadline_s, {
                    name: (tmp_path / f"{name}.log").read_text() for name in variables
                }
        finally:
            for process in started.values():
                process.terminate()
            ends = {name: process.wait(20) for name, process in started.items()}
        assert ends == dict.fromkeys(variables, 0)
        assert {token for token, _ in influx.written} == {tokens_in(volumes)[0]}
        assert all(f"bucket={BUCKET}" in path for _, path in influx.written)


@pytest.mark.mosquitto
@pytest.mark.skipif(
    not available("mosquitto") or shutil.which("mosquitto_sub") is None, reason="mosquitto_sub is not installed"
)
def test_the_health_check_of_the_broker_passes_and_fails_without_its_certificate(
    repository: Path, volumes: Path, tmp_path: Path
) -> None:
    secrets_made(repository, volumes)
    service = parsed(repository)["services"]["mosquitto"]
    check = service["healthcheck"]["test"]
    assert check[0] == "CMD" and service["environment"]["XDG_CONFIG_HOME"] == "/mosquitto/secrets/health"
    options = volumes / "broker-secrets/health/mosquitto_sub"
    with running(
        tmp_path / "data", repository / "deploy/mosquitto/mosquitto.conf", volumes / "broker-secrets"
    ) as broker:
        text = options.read_text().replace("/mosquitto/secrets", str(volumes / "broker-secrets"))
        options.write_text(text.replace("-p 8883", f"-p {broker.port}"))
        given = environment({"XDG_CONFIG_HOME": str(options.parent)})
        good = subprocess.run(check[1:], env=given, capture_output=True, text=True, check=False, timeout=30)
        assert (good.returncode, good.stderr) == (0, "")
        options.write_text("".join(line for line in options.read_text().splitlines(True) if "--cert" not in line))
        assert subprocess.run(check[1:], env=given, capture_output=True, check=False, timeout=30).returncode != 0
