"""What docker-compose.yml says fits the services and what the set-up makes, without a container daemon."""

import json
import re
import subprocess
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from configure import PREFIX, Settings, load, variable_of
from errors import SettingsError
from runner.openssl.debian13 import fetch_packages
from runner.openssl.locate import cache_folder

SERVICES = {"aggregator": "aggregator", "meter": "meter", "simulated-meter": "meter", "runner": "runner"}
"""Our services, with the module that each runs."""
ONE_SHOT = ("setup", "setup-influxdb")
FOREIGN = ("mosquitto", "influxdb", "grafana")
ALL = (*SERVICES, *ONE_SHOT, *FOREIGN)
SETTLED = re.compile(r"\$\{\w+:-([^}]*)\}")


def parsed(repository: Path) -> dict[str, Any]:
    """The compose file with its defaults put in."""
    text = SETTLED.sub(lambda match: match[1], (repository / "docker-compose.yml").read_text("utf-8"))
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@pytest.fixture(scope="module")
def compose(repository: Path) -> dict[str, Any]:
    """The compose file, parsed."""
    return parsed(repository)


def settings_model(module: str) -> type[Settings]:
    """The settings model of a service: `MeterSettings` in `meter.settings`."""
    model: type[Settings] = getattr(import_module(f"{module}.settings"), f"{module.title()}Settings")
    return model


def volume_name(volume: Any) -> str:
    """The named volume of a mount; empty for a folder of the host."""
    name = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
    return "" if name.startswith((".", "/")) else str(name)


def test_the_stack_is_whole(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == set(ALL)
    without_profile = {name for name, service in compose["services"].items() if "profiles" not in service}
    assert without_profile == {"aggregator", *ONE_SHOT, *FOREIGN}
    assert [compose["services"][name]["profiles"] for name in ("simulated-meter", "runner")] == [["demo"]] * 2


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_started_as_a_module_that_exists(compose: dict[str, Any], name: str) -> None:
    assert compose["services"][name]["command"] == ["python", "-m", SERVICES[name]]
    assert find_spec(f"{SERVICES[name]}.__main__") is not None


@pytest.mark.parametrize("name", SERVICES)
def test_the_environment_holds_settings_of_the_service_and_is_enough_to_start_it(
    compose: dict[str, Any], name: str
) -> None:
    environment = {key: str(value or "") for key, value in compose["services"][name]["environment"].items()}
    model = settings_model(SERVICES[name])
    known = {variable_of(field) for field in model.model_fields}
    assert {key for key in environment if key.startswith(PREFIX)} - known == set()
    settings = load(model, name, "", [], environment)
    assert getattr(settings, "broker_url") == "mqtts://mosquitto:8883"  # noqa: B009
    assert "OPJOULE_INSTANCE" in environment, "the health check needs it"


def test_the_demo_measures_one_board_and_says_that_its_meter_is_simulated(compose: dict[str, Any]) -> None:
    meter, runner = (compose["services"][name]["environment"] for name in ("simulated-meter", "runner"))
    assert meter["OPJOULE_DUT"] == runner["OPJOULE_DUT"] == compose["services"]["setup"]["environment"]["DEMO_DUT"]
    assert meter["OPJOULE_SOURCE"] == meter["OPJOULE_METER"] == "simulated"


def test_images_are_pinned_and_ours_has_the_version_of_the_project(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        repository, _, tag = service["image"].rpartition(":")
        assert re.fullmatch(r"\d+\.\d+(\.\d+)?", tag), service["image"]
        assert (repository == "opjoule" and tag == version("opjoule")) == (name not in FOREIGN)
    assert compose["services"]["influxdb"]["image"] == "influxdb:2.9"


@pytest.mark.parametrize("name", ALL)
def test_every_container_is_confined_and_bounded(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    assert service["user"] == "10001:10001" and service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service and "cap_add" not in service
    assert service["mem_limit"] and service["cpus"] and service["pids_limit"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert any(each.startswith("/tmp") for each in service["tmpfs"])


@pytest.mark.parametrize("name", (*SERVICES, *FOREIGN))
def test_every_lasting_container_starts_again_has_a_health_check_and_keeps_its_state(
    compose: dict[str, Any], name: str
) -> None:
    service = compose["services"][name]
    assert service["restart"] == "unless-stopped"
    assert "healthcheck" in service if name in FOREIGN else "healthcheck" not in service  # ours is in the image
    writable = [each for each in service["volumes"] if isinstance(each, dict) and not each.get("read_only")]
    assert len(writable) == 1 and volume_name(writable[0]) in compose["volumes"]


def test_what_needs_secrets_waits_for_them_and_services_wait_for_the_broker(compose: dict[str, Any]) -> None:
    awaited = {name: service.get("depends_on", {}) for name, service in compose["services"].items()}
    done, healthy = {"condition": "service_completed_successfully"}, {"condition": "service_healthy"}
    assert awaited["setup"] == {}
    assert awaited["mosquitto"] == awaited["influxdb"] == {"setup": done}
    assert awaited["setup-influxdb"] == {"setup": done, "influxdb": healthy}
    assert awaited["grafana"] == {"setup-influxdb": done}
    assert awaited["aggregator"] == {"mosquitto": healthy, "setup-influxdb": done}
    assert all(awaited[name] == {"mosquitto": healthy} for name in ("meter", "simulated-meter", "runner"))


def test_a_volume_takes_its_owner_from_the_set_up_alone(compose: dict[str, Any], repository: Path) -> None:
    mounted = {volume_name(each): each for each in compose["services"]["setup"]["volumes"]}
    assert set(mounted) == set(compose["volumes"])
    assert all(mount == f"{name}:/volumes/{name}" for name, mount in mounted.items())
    made = re.search(r"for volume in ([^;]+);", (repository / "deploy/Dockerfile").read_text("utf-8"))
    assert made is not None and set(made[1].replace("\\", "").split()) == set(compose["volumes"])
    others = [each for name in (*SERVICES, *FOREIGN) for each in compose["services"][name]["volumes"]]
    named = [each for each in others if volume_name(each)]
    assert all(isinstance(each, dict) and each["volume"] == {"nocopy": True} for each in named)


def test_secrets_are_read_by_their_one_reader_and_cannot_be_written_by_it(compose: dict[str, Any]) -> None:
    readers: dict[str, list[str]] = {}
    for name in (*SERVICES, *FOREIGN):
        for each in compose["services"][name]["volumes"]:
            if volume_name(each).endswith("-secrets") or volume_name(each) == "fleet":
                assert each["read_only"] is True
                readers.setdefault(volume_name(each), []).append(name)
    assert "fleet" not in readers, "the authority's key is for the set-up only"
    assert all(len(names) == 1 for names in readers.values()), readers
    assert set(readers) == {name for name in compose["volumes"] if name.endswith("-secrets")}


def test_the_step_that_talks_to_influxdb_sees_no_key_of_the_authority(compose: dict[str, Any]) -> None:
    mounted = [volume_name(each) for each in compose["services"]["setup-influxdb"]["volumes"]]
    assert mounted == ["influxdb-admin", "aggregator-secrets", "grafana-secrets"]


def test_the_broker_is_made_anew_when_the_set_up_gives_it_other_files(compose: dict[str, Any]) -> None:
    setup, broker = (compose["services"][name]["environment"] for name in ("setup", "mosquitto"))
    assert all(broker[name] == setup[name] for name in ("HUB_HOSTS", "METER_DUT"))


def test_two_full_queues_fit_into_the_memory_of_the_broker(compose: dict[str, Any], repository: Path) -> None:
    conf = (repository / "deploy/mosquitto/mosquitto.conf").read_text("utf-8")
    queue = re.search(r"^max_queued_bytes (\d+)$", conf, re.M)
    limit = re.fullmatch(r"(\d+)g", compose["services"]["mosquitto"]["mem_limit"])
    assert queue is not None and limit is not None and 4 * int(queue[1]) <= int(limit[1]) * 2**30


def test_no_secret_stands_in_the_file(compose: dict[str, Any]) -> None:
    words = re.compile("password|token|secret|key", re.IGNORECASE)
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not words.search(name) or str(value).startswith("/run/"), name


def test_only_the_broker_with_its_tls_port_is_open_to_other_hosts(compose: dict[str, Any]) -> None:
    ports = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert ports == {"mosquitto": ["0.0.0.0:8883:8883"], "grafana": ["127.0.0.1:3000:3000"]}


def test_what_is_mounted_from_the_repository_is_there(compose: dict[str, Any], repository: Path) -> None:
    mounts = [each for name in FOREIGN for each in compose["services"][name]["volumes"] if not volume_name(each)]
    assert len(mounts) == 3
    assert all((repository / mount.split(":")[0]).exists() and mount.endswith(":ro") for mount in mounts)


def test_grafana_finds_what_its_provisioning_names(compose: dict[str, Any], repository: Path) -> None:
    grafana = compose["services"]["grafana"]
    folder = repository / "deploy/grafana/provisioning"
    text = "".join(file.read_text("utf-8") for file in sorted(folder.rglob("*.yaml")))
    variables = set(re.findall(r"\$\{?(OPJOULE_\w+)", text))
    assert variables and variables <= set(grafana["environment"])
    assert re.findall(r"\$__file\{([^}]+)\}", text) == ["/run/secrets/grafana_influx_token"]
    dashboards = [path for path in re.findall(r"path: (\S+)", text) if path.startswith("/")]
    assert dashboards and all(any(f":{path}:ro" in str(each) for each in grafana["volumes"]) for path in dashboards)


def test_the_broker_finds_what_its_configuration_names(compose: dict[str, Any], repository: Path) -> None:
    conf = (repository / "deploy/mosquitto/mosquitto.conf").read_text("utf-8")
    targets = [each["target"] for each in compose["services"]["mosquitto"]["volumes"] if isinstance(each, dict)]
    paths = re.findall(r"^(?:\w+file|\w+_file|persistence_location) (\S+)", conf, re.M)
    assert len(paths) >= 6 and all(path.startswith(tuple(targets)) for path in paths)
    assert re.search(r"^listener 8883$", conf, re.M) and "allow_anonymous false" in conf


@pytest.fixture(scope="module")
def docker_compose() -> str:
    """Debian 13's docker-compose: one program, unpacked from its package. It needs no daemon to read a file."""
    folder = cache_folder().with_name("docker-compose-of-debian-13")
    if not folder.is_dir():
        try:
            fetch_packages(("docker-compose",), folder, limit_s=100.0)
        except SettingsError as error:
            pytest.skip(f"Debian 13's packages cannot be had here: {error}")
    return str(folder / "usr/libexec/docker/cli-plugins/docker-compose")


@pytest.mark.parametrize("profiles", [(), ("demo",), ("demo", "meter")], ids=["no profile", "demo", "all"])
def test_docker_compose_accepts_the_file(docker_compose: str, repository: Path, profiles: tuple[str, ...]) -> None:
    chosen = [part for profile in profiles for part in ("--profile", profile)]
    command = [docker_compose, "-f", str(repository / "docker-compose.yml"), *chosen, "config", "--format", "json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert shown.returncode == 0 and not shown.stderr, shown.stderr
    expected = {"aggregator", *ONE_SHOT, *FOREIGN} | ({"simulated-meter", "runner"} if "demo" in profiles else set())
    assert set(json.loads(shown.stdout)["services"]) == expected | ({"meter"} if "meter" in profiles else set())
