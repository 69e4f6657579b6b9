"""What docker-compose.yml and the Dockerfile say fits the services, without a container daemon."""

import re
from fnmatch import fnmatch
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from configure import PREFIX, Settings, load, variable_of

OURS = ("aggregator", "meter", "runner")


@pytest.fixture(scope="module")
def compose(repository: Path) -> dict[str, Any]:
    """The compose file, parsed."""
    parsed: dict[str, Any] = yaml.safe_load((repository / "docker-compose.yml").read_text(encoding="utf-8"))
    return parsed


def settings_model(service: str) -> type[Settings]:
    """The settings model of a service: `MeterSettings` in `meter.settings`."""
    model: type[Settings] = getattr(import_module(f"{service}.settings"), f"{service.title()}Settings")
    return model


def test_the_compose_file_has_the_broker_and_every_service(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {"mosquitto", *OURS}


@pytest.mark.parametrize("service", OURS)
def test_every_service_is_started_as_a_module_that_exists(compose: dict[str, Any], service: str) -> None:
    assert compose["services"][service]["command"] == ["python", "-m", service]
    assert find_spec(f"{service}.__main__") is not None


@pytest.mark.parametrize("service", OURS)
def test_the_environment_holds_settings_of_the_service_and_is_enough_to_start_it(
    compose: dict[str, Any], service: str
) -> None:
    environment = compose["services"][service]["environment"]
    model = settings_model(service)
    known = {variable_of(name) for name in model.model_fields}
    assert {name for name in environment if name.startswith(PREFIX)} - known == set()
    settings = load(model, service, "", [], environment)
    assert getattr(settings, "broker_url") == "mqtt://mosquitto:1883"  # noqa: B009
    assert "OPJOULE_INSTANCE" in environment, "the health check needs it"


def test_a_meter_and_a_runner_of_the_compose_file_serve_the_same_board(compose: dict[str, Any]) -> None:
    duts = {compose["services"][service]["environment"]["OPJOULE_DUT"] for service in ("meter", "runner")}
    assert len(duts) == 1


def test_the_broker_is_published_to_this_host_only_while_it_has_no_credentials(
    compose: dict[str, Any], repository: Path
) -> None:
    assert "allow_anonymous true" in (repository / "deploy/mosquitto/mosquitto.conf").read_text(encoding="utf-8")
    ports = [port for each in compose["services"].values() for port in each.get("ports", [])]
    assert ports == ["127.0.0.1:1883:1883"]


def test_images_are_pinned_and_ours_has_the_version_of_the_project(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        tag = service["image"].rpartition(":")[2]
        assert re.fullmatch(r"\d+\.\d+\.\d+", tag), service["image"]
        assert name not in OURS or tag == version("opjoule")


def test_every_service_starts_again_waits_for_the_broker_and_keeps_its_state(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["restart"] == "unless-stopped"
        volumes = [volume.split(":")[0] for volume in service["volumes"] if not volume.startswith(".")]
        assert len(volumes) == 1 and volumes[0] in compose["volumes"]
        if name in OURS:
            assert service["depends_on"] == {"mosquitto": {"condition": "service_healthy"}}
    assert (compose["services"]["mosquitto"]["healthcheck"]["test"])[1] == "mosquitto_sub"


def test_what_is_mounted_from_the_repository_is_there(compose: dict[str, Any], repository: Path) -> None:
    mounts = [volume for each in compose["services"].values() for volume in each["volumes"] if volume.startswith("./")]
    assert len(mounts) == 1
    assert all((repository / mount.split(":")[0]).is_file() for mount in mounts)
    dockerfiles = {compose["services"][name]["build"]["dockerfile"] for name in OURS}
    assert dockerfiles == {"deploy/Dockerfile"} and (repository / "deploy/Dockerfile").is_file()


def copied(dockerfile: str) -> list[str]:
    """The sources of every COPY line."""
    return [source for line in re.findall(r"^COPY (.+)$", dockerfile, re.MULTILINE) for source in line.split()[:-1]]


def test_what_the_image_copies_is_there_and_is_not_ignored(repository: Path) -> None:
    sources = copied((repository / "deploy/Dockerfile").read_text(encoding="utf-8"))
    lines = (repository / "deploy/Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert {"services", "schemas", "pyproject.toml", "constraints.txt"} <= set(sources)
    assert all((repository / source).exists() for source in sources)
    assert let_through == set(sources)


def test_the_image_installs_dependencies_before_code_and_drops_root(repository: Path) -> None:
    text = (repository / "deploy/Dockerfile").read_text(encoding="utf-8")
    steps = ["--constraint constraints.txt", "COPY services", "--no-deps .", "USER opjoule", "HEALTHCHECK", "CMD"]
    assert sorted(steps, key=text.index) == steps
    assert fnmatch(text.splitlines()[2], "FROM python:3.*-slim-trixie"), "Debian 13 has OpenSSL 3.5"


def test_the_dependencies_of_the_image_are_those_of_the_project(repository: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "dependencies"}
    exec((repository / "deploy/dependencies.py").read_text(encoding="utf-8"), namespace)
    needs: list[str] = namespace["requirements"](repository / "pyproject.toml", ["meter", "aggregator"])
    names = [re.split(r"[<>=;\[ ]", need)[0] for need in needs]
    assert names[:2] == ["paho-mqtt", "pydantic"]
    assert {"pyserial", "numpy", "scipy"} <= set(names)
    assert "pytest" not in names
