"""What the pages say exists, and what exists is on the pages: commands, flags, variables, files, settings, figures."""

import argparse
import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import get_args
from xml.etree import ElementTree

import pytest

from aggregator.flags import DEGRADED, INFORMATION, INVALID
from aggregator.settings import AggregatorSettings
from configure import Settings, flag_of, variable_of
from meter.settings import MeterSettings
from opjoule.__main__ import SUBCOMMANDS
from opjoule.local_broker import available
from opjoule.results import COLUMNS
from runner.orders import ordered
from runner.plan import WholeCatalogue
from runner.settings import RunnerSettings
from schemas import Command, Flag, Quality, parse_topic
from schemas.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    page.relative_to(ROOT)
    for pattern in ("*.md", "docs/*.md", "schemas/*.md", "services/*/README.md")
    for page in ROOT.glob(pattern)
)
SETTINGS: dict[str, type[Settings]] = {
    "aggregator": AggregatorSettings,
    "meter": MeterSettings,
    "runner": RunnerSettings,
}
OTHER_VARIABLES = {"OPJOULE_OPENSSL_SOURCE", "OPJOULE_RECORDINGS"}
"""Of no service: read by tests and benchmarks, and by `make openssl`."""
SUDO = {"apt"}
FOREIGN = {"sudo", "git", "mosquitto_sub", "mosquitto_pub", "cd"}
"""Commands of others in bash blocks."""


@dataclass(frozen=True)
class Line:
    """One command of a bash block."""

    page: Path
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def _text(page: Path) -> str:
    return (ROOT / page).read_text("utf-8")


def _commands(page: Path) -> list[Line]:
    """Of bash blocks; `a && b` is two, assignments in front and a `&` behind are left out."""
    blocks = re.findall(r"^```bash\n(.*?)^```", _text(page), re.S | re.M)
    found = []
    for line in "".join(blocks).splitlines():
        for part in line.split("&&"):
            words = [word for word in shlex.split(part, comments=True) if word != "&"]
            while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                words.pop(0)
            if words:
                found.append(Line(page, tuple(words)))
    return found


def _code_spans(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", _text(page), flags=re.S | re.M)
    return re.findall(r"`([^`\n]+)`", text)


def _make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.M))


def _flags_of_subcommand(name: str) -> set[str]:
    parser = argparse.ArgumentParser()
    importlib.import_module(SUBCOMMANDS[name].module).add_arguments(parser)
    return _flags_of_parser(parser)


def _flags_of_parser(parser: argparse.ArgumentParser) -> set[str]:
    """With those of the subcommands below it."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    own = {option for action in parser._actions for option in action.option_strings}
    return own.union(*(_flags_of_parser(each) for action in below for each in action.choices.values()))


def _flags_of_service(name: str) -> set[str]:
    return {"--help", *(flag_of(field) for field in SETTINGS[name].model_fields)}


def _all_flags() -> set[str]:
    services = set().union(*(_flags_of_service(name) for name in SETTINGS))
    return services.union({"--version"}, *(_flags_of_subcommand(name) for name in SUBCOMMANDS))


def _script(name: str) -> ModuleType:
    """A script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _table(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its header."""
    section = _text(Path(page)).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


ALL_COMMANDS = [line for page in PAGES for line in _commands(page)]


def test_the_pages_are_found() -> None:
    assert {Path("README.md"), Path("CHANGELOG.md"), Path("docs/flags.md"), Path("docs/settings.md")} <= set(PAGES)
    assert len([line for line in ALL_COMMANDS if line.page == Path("README.md")]) > 10


@pytest.mark.parametrize("line", ALL_COMMANDS, ids=str)
def test_every_command_in_a_bash_block_can_be_given(line: Line) -> None:
    program, *arguments = line.words
    flags = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    if program == "make":
        assert {word for word in arguments if "=" not in word} <= _make_targets()
    elif program.endswith("opjoule"):
        assert arguments[0] in SUBCOMMANDS or arguments[0] in ("--help", "--version")
        known = _flags_of_subcommand(arguments[0]) if arguments[0] in SUBCOMMANDS else flags
        assert flags <= known
    elif program.endswith("python"):
        assert arguments[0] == "-m" and arguments[1] in SETTINGS
        assert flags <= _flags_of_service(arguments[1])
    else:
        assert program in FOREIGN and (program != "sudo" or arguments[0] in SUDO)


@pytest.mark.parametrize(
    "line", [line for line in ALL_COMMANDS if line.words[-1] == "--help" and "opjoule" in line.words[0]], ids=str
)
def test_the_help_that_a_page_points_to_is_there(line: Line) -> None:
    command = [sys.executable, "-m", "opjoule", *line.words[1:]]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.startswith("usage: opjoule")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_target_subcommand_flag_and_variable_that_a_page_names_exists(page: Path) -> None:
    spans = "\n".join(_code_spans(page))
    assert set(re.findall(r"^make ([a-z-]+)", spans, re.M)) <= _make_targets()
    assert set(re.findall(r"^(?:\.venv/bin/)?opjoule ([a-z]+)", spans, re.M)) <= set(SUBCOMMANDS)
    foreign = set(re.findall(r"--[a-z-]+", "\n".join(re.findall(r"^docker compose.*$", spans, re.M))))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", spans)) - foreign <= _all_flags()
    variables = {variable_of(field) for model in SETTINGS.values() for field in model.model_fields}
    assert set(re.findall(r"OPJOULE_[A-Z_]+", _text(page))) <= variables | OTHER_VARIABLES


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_and_every_path_in_a_page_leads_to_a_file(page: Path) -> None:
    text = _text(page)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)\)", text) if "://" not in link]
    paths = re.findall(r"(?<![\w./-])(?:services|schemas|tests|docs|deploy|benchmarks)/[\w./-]*\w", text)
    assert [link for link in links if not (ROOT / page.parent / link).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_readme_names_the_file_of_every_step_of_the_data_flow() -> None:
    flow = _text(Path("README.md")).partition("## The way of the data")[2].partition("\n## ")[0]
    steps = re.split(r"\[\d\]", flow)[1:]
    assert len(steps) == 5
    assert all(re.search(r"services/[\w/]+\.py|services/\S+/ .*\.py", step) for step in steps)


def test_the_columns_that_the_readme_explains_are_those_of_csv_and_json() -> None:
    rows = _table("README.md", "Look again")
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert len(named) > 8 and named <= set(COLUMNS)


def test_the_parameter_sets_that_the_readme_shows_are_in_the_catalogue() -> None:
    demo = _text(Path("README.md")).partition("```text\n")[2].partition("```")[0]
    shown = re.findall(r"(?:keygen|sign|verify) +([\w-]+)", demo)
    assert len(shown) > 3 and set(shown) <= set(CATALOGUE)


def test_every_figure_of_the_demo_in_the_readme_says_simulated() -> None:
    demo = _text(Path("README.md")).partition("```text\n")[2].partition("```")[0]
    figures = [line for line in demo.splitlines() if " ± " in line and "U95" not in line]
    assert figures and all(line.rstrip().endswith("SIMULATED") for line in figures)


def test_every_command_message_on_a_page_means_something_to_a_runner_and_expires() -> None:
    lines = [line for line in ALL_COMMANDS if line.words[0] == "mosquitto_pub"]
    settings = RunnerSettings.model_validate({"dut": "pi4"})
    commands = []
    for line in lines:
        after = dict(pairwise(line.words))
        address = parse_topic(after["-t"])
        assert address is not None and (address.kind, after["-q"], "-r" in line.words) == ("command", "1", False)
        assert int(after["message-expiry-interval"]) > 0
        commands.append(Command.model_validate_json(after["-m"]))
        assert set(json.loads(after["-m"])) <= set(Command.model_fields)
        assert commands[-1].action == "stop" or ordered(commands[-1], WholeCatalogue(), settings).plan.jobs
    assert {command.action for command in commands} == {"start", "train", "stop"}
    assert len({command.command_id for command in commands}) == len(commands)


def test_every_flag_is_explained_with_what_it_does_to_quality() -> None:
    effect = dict.fromkeys(INVALID, "invalid") | dict.fromkeys(DEGRADED, "degraded")
    effect |= dict.fromkeys(INFORMATION, "information")
    assert set(effect) == set(get_args(Flag))
    rows = _table("docs/flags.md", "Flags")
    assert {row[0].strip("`"): row[1] for row in rows} == effect
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert all(len(row) == 4 and all(row) for row in rows)


def test_every_quality_is_explained() -> None:
    assert [row[0].strip("`") for row in _table("docs/flags.md", "Quality")] == list(get_args(Quality))


def test_the_page_of_settings_is_what_the_models_say() -> None:
    page: str = _script("settings_page").page()
    for model in SETTINGS.values():
        assert all(f"| `{flag_of(name)}` | `{variable_of(name)}` |" in page for name in model.model_fields)
    assert _text(Path("docs/settings.md")) == page, "stale: run `python docs/settings_page.py`"


def test_the_power_trace_is_what_its_script_draws() -> None:
    drawn: str = _script("power_trace").draw()
    assert (ROOT / "docs/power_trace.svg").read_text("utf-8") == drawn, "stale: run `python docs/power_trace.py`"


def test_the_power_trace_can_be_read_aloud_and_in_the_dark() -> None:
    picture = ElementTree.parse(ROOT / "docs/power_trace.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    style = picture.findtext(f"{space}style", "")
    assert picture.findtext(f"{space}title") and picture.findtext(f"{space}desc")
    light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
    inked = set(re.findall(r"\.([\w-]+) \{[^}]*(?:fill|stroke): #", light))
    assert inked == set(re.findall(r"\.([\w-]+) \{[^}]*(?:fill|stroke): #", dark))


def test_the_words_of_the_power_trace_are_explained_beside_it() -> None:
    picture = ElementTree.parse(ROOT / "docs/power_trace.svg").getroot()
    shown = " ".join(text.text or "" for text in picture.iter("{http://www.w3.org/2000/svg}text"))
    beside = _text(Path("README.md")).partition("## Two commands")[0]
    for word in ("train", "load", "idle", "guard", "null train", "sham train", "repetition", "baseline", "net"):
        assert word in shown and re.search(rf"\*\*{word}( segment)?\*\*", beside), word


@pytest.mark.recordings
@pytest.mark.processes
@pytest.mark.skipif(not (available("mosquitto") or available("iotcore")), reason="needs mosquitto or the iotcore wheel")
def test_the_readme_shows_what_the_study_of_three_boards_comes_to(recordings: Path) -> None:
    published = recordings / "published_results.csv"
    command = [sys.executable, "-m", "opjoule", "study", str(recordings), "--published", str(published)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
    counts = re.findall(r"^ +(\d+) (\D.*?)\s*$", shown, re.M)
    section = _text(Path("README.md")).partition("## Check a published study")[2]
    summary = section.partition("```text\n")[2].partition("```")[0]
    assert counts == re.findall(r"^ +(\d+) (.*)$", summary, re.M)
    idle = [count for count, said in counts if said.startswith("published idle power")]
    assert f"in {idle[0]} rows" in section.partition("What it finds")[2].partition("\n## ")[0].replace("\n", " ")
