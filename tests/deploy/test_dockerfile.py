"""The image: what it copies and installs, and that a linter finds nothing."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def copied(dockerfile: str) -> list[str]:
    """The sources of every COPY line."""
    return [source for line in re.findall(r"^COPY (.+)$", dockerfile, re.MULTILINE) for source in line.split()[:-1]]


@pytest.fixture
def dockerfile(repository: Path) -> str:
    """Its text."""
    return (repository / "deploy/Dockerfile").read_text(encoding="utf-8")


def test_what_the_image_copies_is_there_and_is_not_ignored(repository: Path, dockerfile: str) -> None:
    sources = copied(dockerfile)
    lines = (repository / "deploy/Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert {"services", "schemas", "pyproject.toml", "constraints.txt", "deploy/setup"} <= set(sources)
    assert all((repository / source).exists() for source in sources)
    assert let_through == set(sources)


def test_the_image_installs_dependencies_before_code_and_drops_root(dockerfile: str) -> None:
    steps = ["--constraint constraints.txt", "COPY services", "--no-deps .", "USER 10001:10001", "HEALTHCHECK", "CMD ["]
    assert sorted(steps, key=dockerfile.index) == steps
    assert "USER root" not in dockerfile
    assert re.search(r"^FROM python:3\.\d+-slim-trixie$", dockerfile, re.M), "Debian 13 has OpenSSL 3.5"


def test_nothing_in_the_image_depends_on_the_processor(dockerfile: str) -> None:
    assert not re.search(r"amd64|x86_64|--platform|TARGETARCH", dockerfile.replace("linux/amd64 and linux/arm64", ""))


def test_the_dependencies_of_the_image_are_those_of_the_project(repository: Path, dockerfile: str) -> None:
    namespace: dict[str, Any] = {"__name__": "dependencies"}
    exec((repository / "deploy/dependencies.py").read_text(encoding="utf-8"), namespace)
    line = re.search(r"dependencies\.py ([a-z ]+) >", dockerfile)
    assert line is not None
    needs: list[str] = namespace["requirements"](repository / "pyproject.toml", line[1].split())
    names = [re.split(r"[<>=;\[ ]", need)[0] for need in needs]
    assert names[:2] == ["paho-mqtt", "pydantic"]
    assert {"pyserial", "numpy", "scipy", "influxdb-client", "rich", "cryptography", "grafana-api"} <= set(names)
    assert "pytest" not in names


HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed (there is no wheel for this machine)")
def test_the_linter_finds_nothing_in_the_dockerfile(repository: Path) -> None:
    said = subprocess.run(
        [HADOLINT or "", str(repository / "deploy/Dockerfile")], capture_output=True, text=True, check=False, timeout=60
    )
    assert (said.returncode, said.stdout + said.stderr) == (0, "")
