"""Who may import what, and the other house rules a program can check. Each rule is shown to catch bad examples."""

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeGuard

import pytest

from schemas import CATALOGUE, slugs

SERVICES = ("meter", "runner", "aggregator")
ONE_DOOR = {
    "ctypes": ("services/runner/openssl/*",),
    "paho": ("services/bus/*",),
    "sqlite3": ("services/bus/*", "services/aggregator/journal*.py"),
    "serial": ("services/meter/transports/*",),
    "hid": ("services/meter/transports/hidraw.py",),
    "hidraw": ("services/meter/transports/hidraw.py",),
    "numpy": ("services/aggregator/*", "services/opjoule/*"),
    "scipy": ("services/aggregator/*", "services/opjoule/*"),
    "iotcore": ("services/opjoule/local_broker.py",),
    "rich": ("services/opjoule/*",),
    "yaml": ("services/opjoule/schema_export.py", "services/opjoule/dashboards/command.py"),
    "grafana_api": ("services/opjoule/grafana_api_client.py",),
    "requests": ("services/opjoule/grafana_api_client.py",),
    "cryptography": ("services/opjoule/fleet/authority.py", "services/meter/protocols/tc66c.py"),
    "influxdb_client": ("services/aggregator/sinks/influx.py",),
}
"""A library from outside, and the only files that may import it."""

PURE = (
    "services/meter/protocols/*",
    "services/meter/devices/faults.py",
    "services/meter/devices/fnb58.py",
    "services/meter/devices/fnb58_reports.py",
    "services/meter/devices/power.py",
    "services/meter/envelope.py",
    "services/meter/folding.py",
    "services/meter/ranges.py",
    "services/meter/rates.py",
    "services/meter/sources/fnirsi_intake.py",
    "services/meter/recovery.py",
    "services/meter/timeline.py",
    "services/meter/batching.py",
    "services/meter/cadence.py",
    "services/meter/feed.py",
    "services/meter/status.py",
    "services/runner/campaign_file.py",
    "services/runner/campaign_text.py",
    "services/runner/estimate.py",
    "services/runner/expansion.py",
    "services/runner/job.py",
    "services/runner/nulls.py",
    "services/runner/plan_items.py",
    "services/runner/procedures.py",
    "services/runner/rounds.py",
    "services/runner/segments.py",
    "services/runner/suggest.py",
    "services/runner/timing.py",
    "services/runner/identifiers.py",
    "services/runner/openssl/commands.py",
    "services/runner/openssl/der.py",
    "services/runner/openssl/listing.py",
    "services/runner/openssl/masks.py",
    "services/runner/openssl/tls_names.py",
    "services/runner/openssl/apt_sources.py",
    "services/aggregator/align.py",
    "services/aggregator/clocks.py",
    "services/aggregator/counter.py",
    "services/aggregator/crypto.py",
    "services/aggregator/energy.py",
    "services/aggregator/exchange.py",
    "services/aggregator/flags.py",
    "services/aggregator/intake.py",
    "services/aggregator/join.py",
    "services/aggregator/meters.py",
    "services/aggregator/pooling.py",
    "services/aggregator/receipts.py",
    "services/aggregator/result.py",
    "services/aggregator/robust.py",
    "services/aggregator/trace.py",
    "services/aggregator/uncertainty.py",
    "services/opjoule/meter/findings.py",
    "services/opjoule/run/asked.py",
    "services/opjoule/run/boards_view.py",
    "services/opjoule/run/view.py",
    "services/opjoule/run/words.py",
    "services/opjoule/study/layout.py",
    "services/opjoule/study/names.py",
    "services/opjoule/study/verdicts.py",
)
"""Files that compute and do nothing else. (Those that later issues bring are named already.)"""

NOT_PURE = ("time", "logging", "os", "io", "socket", "ssl", "subprocess", "threading", "asyncio", "bus", "clock")
CALLS_NOT_PURE = ("open", "print", "input")
MAY_BE_PURE = ("clock.rfc3339",)
"""Though its module reads clocks, it only writes out the time that it is given."""
STARTERS = ("services/runner/openssl/*", "services/opjoule/processes.py", "services/opjoule/local_broker.py")
"""Files that may start other programs: OpenSSL; the services; a broker."""
STARTING_MODULES = ("subprocess", "multiprocessing", "pty", "concurrent.futures.ProcessPoolExecutor")
STARTING_CALLS = ("os.posix_spawn", "os.spawn", "os.exec", "os.fork", "os.system", "os.popen", "os.startfile")
"""The beginnings of their names."""
MOST_LINES = 300


@dataclass(frozen=True)
class Source:
    """A file of the repository, by its path below the root."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        """The file, parsed."""
        return ast.parse(self.text, self.path)

    def is_one_of(self, patterns: tuple[str, ...]) -> bool:
        """Whether the path matches one of the patterns."""
        return any(fnmatch(self.path, pattern) for pattern in patterns)


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is imported, with leading dots where relative."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            names = [each.value for each in node.args[:1] if isinstance(each, ast.Constant)]
            yield from ((node.lineno, str(name)) for name in names)


def top(name: str) -> str:
    """The first part of a dotted name."""
    return name.partition(".")[0]


def schemas_import_only_pydantic(source: Source) -> Iterator[str]:
    """The contract can be installed anywhere: schemas/ imports pydantic, the standard library and itself."""
    if source.path.startswith("schemas/"):
        for line, name in imports(source):
            if top(name) not in {"pydantic", "schemas", *sys.stdlib_module_names}:
                yield f"line {line}: schemas/ may import pydantic and the standard library, not {name}"


def outside_things_have_one_door(source: Source) -> Iterator[str]:
    """Each library from outside is imported in one place."""
    for line, name in imports(source):
        doors = ONE_DOOR.get(top(name))
        if doors and not source.is_one_of(doors):
            yield f"line {line}: {top(name)} may be imported only in {' and '.join(doors)}"


def services_do_not_know_each_other(source: Source) -> Iterator[str]:
    """Services speak by messages; what they share (bus, clock, configure, errors) knows none of them."""
    owner = source.path.split("/")[1] if source.path.startswith("services/") else "schemas"
    if owner != "opjoule":
        for line, name in imports(source):
            if top(name) in {*SERVICES, "opjoule"} - {owner}:
                yield f"line {line}: {owner} may not import {name}: services speak by messages"


def packages_are_named_by_their_folder(source: Source) -> Iterator[str]:
    """No relative imports and no `services.`: a file must not load twice under two names."""
    for line, name in imports(source):
        if name.startswith(".") or top(name) == "services":
            yield f"line {line}: write the package's own name, not {name}"


def pure_modules_only_compute(source: Source) -> Iterator[str]:
    """The pure middle imports no client, no clock, no logger, and opens nothing."""
    if not source.is_one_of(PURE):
        return
    for line, name in imports(source):
        if top(name) in NOT_PURE and name not in MAY_BE_PURE:
            yield f"line {line}: a pure module may not import {name}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS_NOT_PURE:
            yield f"line {node.lineno}: a pure module may not call {node.func.id}"


def programs_are_started_in_few_places(source: Source) -> Iterator[str]:
    """Only runner/openssl starts the openssl program, and only two files of opjoule start anything else."""
    if source.is_one_of(STARTERS):
        return
    for line, name in imports(source):
        if f"{name}.".startswith(tuple(f"{each}." for each in STARTING_MODULES)) or name.startswith(STARTING_CALLS):
            yield f"line {line}: {name} may be used only in {', '.join(STARTERS)}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(STARTING_CALLS):
            yield f"line {node.lineno}: {ast.unparse(node.func)} may be called only in {', '.join(STARTERS)}"


def errors_are_caught_by_name(source: Source) -> Iterator[str]:
    """No bare or broad except but in `__main__`, and `BaseException` to undo a thing; both must raise again."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type):
            may = source.path.endswith("/__main__.py") or (node.type and ast.unparse(node.type) == "BaseException")
            if not (may and isinstance(node.body[-1], ast.Raise)):
                yield f"line {node.lineno}: catch the narrow error; only __main__ may catch all, and raises it again"
        if _suppresses(node) and any(_is_broad(each) for each in node.args):
            yield f"line {node.lineno}: suppress the narrow error"


def _suppresses(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "contextlib.suppress")


def _is_broad(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(_is_broad(each) for each in caught.elts)
    return caught is None or ast.unparse(caught) in ("Exception", "BaseException")


def files_are_small(source: Source) -> Iterator[str]:
    """A file that outgrows the limit has two subjects."""
    lines = source.text.count("\n")
    if lines > MOST_LINES:
        yield f"{lines} lines, more than {MOST_LINES}: split it by subject"


Rule = Callable[[Source], Iterator[str]]
RULES: dict[Rule, list[tuple[str, str]]] = {
    schemas_import_only_pydantic: [
        ("schemas/samples.py", "import numpy"),
        ("schemas/samples.py", "from clock import rfc3339"),
        ("schemas/samples.py", "def f():\n    import paho.mqtt.client"),
    ],
    outside_things_have_one_door: [
        ("services/meter/__main__.py", "import paho.mqtt.client as mqtt"),
        ("services/runner/operations/lib/keygen.py", "import ctypes"),
        ("services/aggregator/intake.py", "from sqlite3 import connect"),
        ("services/meter/sources/tc66c.py", "import serial"),
        ("services/runner/train.py", "def f():\n    import numpy"),
        ("services/meter/batching.py", "from scipy import stats"),
        ("services/opjoule/demo.py", "import importlib\nimportlib.import_module('iotcore')"),
        ("services/runner/__main__.py", "from rich.table import Table"),
        ("services/opjoule/demo.py", "import yaml"),
        ("services/opjoule/grafana.py", "from grafana_api.grafana_face import GrafanaFace"),
        ("services/opjoule/grafana.py", "import requests"),
        ("services/aggregator/sinks/sender.py", "from influxdb_client import InfluxDBClient"),
        ("services/opjoule/fleet/fleet.py", "from cryptography import x509"),
    ],
    services_do_not_know_each_other: [
        ("services/meter/__main__.py", "from runner.train import Train"),
        ("services/runner/train.py", "import aggregator.energy"),
        ("services/aggregator/intake.py", "from opjoule import demo"),
        ("services/bus/mqtt.py", "from meter.settings import MeterSettings"),
        ("services/clock.py", "import opjoule.demo"),
        ("schemas/topics.py", "import aggregator"),
    ],
    packages_are_named_by_their_folder: [
        ("services/meter/batching.py", "from services.meter import timeline"),
        ("services/meter/batching.py", "import services.clock"),
        ("services/meter/batching.py", "from . import timeline"),
        ("services/meter/sources/recording.py", "from ..protocols import cfn"),
    ],
    pure_modules_only_compute: [
        ("services/meter/protocols/cfn.py", "import logging"),
        ("services/meter/timeline.py", "from time import monotonic_ns"),
        ("services/meter/batching.py", "from bus import MqttBus"),
        ("services/runner/expansion.py", "def f(path):\n    return open(path).read()"),
        ("services/aggregator/clocks.py", "from clock import ServiceClock"),
        ("services/aggregator/join.py", "import socket"),
        ("services/aggregator/energy.py", "print(1)"),
        ("services/aggregator/uncertainty.py", "import clock"),
        ("services/aggregator/align.py", "import os.path"),
        ("services/aggregator/result.py", "from clock import ServiceClock, rfc3339"),
        ("services/runner/openssl/commands.py", "import subprocess"),
        ("services/opjoule/study/layout.py", "from bus import Spool"),
    ],
    programs_are_started_in_few_places: [
        ("services/runner/machine.py", "import subprocess"),
        ("services/opjoule/demo.py", "from subprocess import run"),
        ("services/runner/train.py", "import os\nos.posix_spawn('openssl', [], {})"),
        ("services/runner/train.py", "from os import execv"),
        ("services/meter/service.py", "import os\nos.system('openssl version')"),
        ("services/aggregator/service.py", "from multiprocessing import Process"),
    ],
    errors_are_caught_by_name: [
        ("services/meter/__main__.py", "try:\n    f()\nexcept Exception:\n    pass"),
        ("services/meter/batching.py", "try:\n    f()\nexcept Exception:\n    raise"),
        ("services/aggregator/journal.py", "try:\n    f()\nexcept BaseException:\n    undo()"),
        ("services/meter/batching.py", "try:\n    f()\nexcept:\n    pass"),
        ("services/bus/mqtt.py", "try:\n    f()\nexcept (OSError, BaseException) as error:\n    pass"),
        ("services/bus/mqtt.py", "with contextlib.suppress(Exception):\n    f()"),
    ],
    files_are_small: [("services/meter/batching.py", "x = 1\n" * (MOST_LINES + 1))],
}
"""Every rule, with files that break it."""

GOOD = [
    ("schemas/samples.py", "import re\nfrom pydantic import Field\nfrom schemas.base import Model"),
    ("services/bus/mqtt.py", "import paho.mqtt.client\nimport sqlite3\nfrom errors import SettingsError"),
    ("services/aggregator/journal.py", "import sqlite3"),
    ("services/aggregator/journal_rows.py", "import sqlite3"),
    ("services/aggregator/energy.py", "import math\nimport numpy\nfrom clock import rfc3339"),
    ("services/meter/transports/serial_port.py", "import serial"),
    ("services/meter/__main__.py", "import time\nfrom meter.batching import Batcher\nprint(time.time())"),
    ("services/meter/__main__.py", "try:\n    f()\nexcept Exception:\n    log()\n    raise"),
    ("services/aggregator/journal.py", "try:\n    f()\nexcept BaseException:\n    undo()\n    raise"),
    ("services/meter/batching.py", "try:\n    f()\nexcept (OSError, ValueError):\n    pass\n" + "x = 1\n" * 200),
    ("services/opjoule/demo.py", "import rich\nfrom meter.settings import MeterSettings"),
    ("services/opjoule/local_broker.py", "import iotcore\nimport subprocess"),
    ("services/aggregator/result.py", "from clock import rfc3339"),
    ("services/runner/openssl/cli.py", "import os\nos.posix_spawn('openssl', [], {})"),
    ("services/runner/openssl/lib/binding.py", "from ctypes import c_void_p"),
    ("services/runner/machine.py", "import os\nos.getloadavg()"),
]
"""Files that break no rule."""


def sources_below(root: Path) -> list[Source]:
    """Every Python file of the product."""
    paths = sorted([*root.glob("services/**/*.py"), *root.glob("schemas/**/*.py")])
    return [Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_rule_holds_in_every_file(rule: Rule, repository: Path) -> None:
    sources = sources_below(repository)
    assert {"services/clock.py", "schemas/topics.py"} <= {source.path for source in sources}
    broken = [f"{source.path}: {message}" for source in sources for message in rule(source)]
    assert not broken, "\n".join([rule.__doc__ or "", *broken])


@pytest.mark.parametrize(("rule", "example"), [(rule, bad) for rule, examples in RULES.items() for bad in examples])
def test_a_rule_catches_what_it_is_for(rule: Rule, example: tuple[str, str]) -> None:
    found = list(rule(Source(*example)))
    assert len(found) == 1, found


@pytest.mark.parametrize("example", GOOD)
def test_what_the_house_allows_breaks_no_rule(example: tuple[str, str]) -> None:
    assert [message for rule in RULES for message in rule(Source(*example))] == []


def test_no_two_parameter_sets_share_a_slug() -> None:
    assert len(set(slugs(list(CATALOGUE)).values())) == len(CATALOGUE)


def test_neither_the_folder_of_services_nor_that_of_tests_is_a_package(repository: Path) -> None:
    assert not (repository / "services/__init__.py").exists()
    assert list((repository / "tests").rglob("__init__.py")) == []
