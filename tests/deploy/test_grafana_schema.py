"""The dashboards are checked by the TypeScript compiler against the types that Grafana publishes (@grafana/schema)."""

import copy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opjoule.dashboards import DASHBOARDS

Json = dict[str, Any]
NO_NETWORK = re.compile(r"ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH")
BROKEN: dict[str, Callable[[Json], object]] = {
    "a panel of a kind that there is not": lambda d: d["panels"][0].update(type="timeserie"),
    "an option that there is not": lambda d: d["panels"][0]["options"].update(legends=True),
    "a number for a text": lambda d: d.update(title=7),
    "a word that an enum does not have": lambda d: _custom(d).update(drawStyle="dots"),
    "a field setting that there is not": lambda d: _custom(d).update(spanNull=False),
    "a query without its text": lambda d: d["panels"][0]["targets"][0].pop("query"),
    "a variable of a kind that there is not": lambda d: d["templating"]["list"][0].update(type="querry"),
    "a transformation that there is not": lambda d: d["panels"][3]["transformations"][0].update(id="organise"),
    "an override of a setting that there is not": lambda d: _override(d).update(id="custom.fillBelow"),
    "a grid position without width": lambda d: d["panels"][0]["gridPos"].pop("w"),
}
"""Ways to break *Fleet live* that the types must notice."""


def _custom(dashboard: Json) -> Json:
    custom: Json = dashboard["panels"][0]["fieldConfig"]["defaults"]["custom"]
    return custom


def _override(dashboard: Json) -> Json:
    changed: Json = dashboard["panels"][2]["fieldConfig"]["overrides"][0]["properties"][0]
    return changed


@pytest.fixture(scope="module")
def types(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the types and the compiler, as the lock file has them."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("types") / "grafana_schema"
    shutil.copytree(repository / "tests/grafana_schema", folder, ignore=shutil.ignore_patterns("node_modules"))
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode and (reason := NO_NETWORK.search(done.stderr)):
        pytest.skip(f"npm cannot reach its registry: {reason[0]}")
    assert done.returncode == 0, done.stderr
    return folder


def test_every_dashboard_has_the_types_of_grafana_and_a_broken_one_has_not(types: Path) -> None:
    whole = [f"export const {name}: OurDashboard = {_literal(made)};" for name, made in DASHBOARDS.items()]
    broken = [_expected_error(f"broken{number}", change) for number, change in enumerate(BROKEN.values())]
    header = "import type { OurDashboard } from './types';"
    (types / "dashboards.ts").write_text("\n".join([header, *whole]), "utf-8")
    (types / "broken.ts").write_text("\n".join([header, *broken]), "utf-8")
    compiler = ["node", "node_modules/typescript/bin/tsc", "--project", "."]
    environment = {**os.environ, "NODE_OPTIONS": "--max-old-space-size=1024"}
    done = subprocess.run(
        compiler, cwd=types, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout


def _expected_error(name: str, change: Callable[[Json], object]) -> str:
    """The compiler complains where no error follows `@ts-expect-error`: the dashboard is on the one next line."""
    dashboard = copy.deepcopy(DASHBOARDS["fleet_live"])
    change(dashboard)
    return f"// @ts-expect-error\nexport const {name}: OurDashboard = {_literal(dashboard)};"


def _literal(dashboard: Json) -> str:
    return json.dumps(dashboard, ensure_ascii=False)


def test_the_lock_file_names_versions_and_no_addresses(repository: Path) -> None:
    lock = (repository / "tests/grafana_schema/package-lock.json").read_text("utf-8")
    wanted = json.loads((repository / "tests/grafana_schema/package.json").read_text("utf-8"))["devDependencies"]
    packages = json.loads(lock)["packages"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert "://" not in lock
