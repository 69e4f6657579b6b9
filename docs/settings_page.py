"""Writes docs/settings.md from the settings models: `python docs/settings_page.py`. A test fails when it is stale."""

from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from pydantic.fields import FieldInfo

from aggregator.settings import AggregatorSettings
from bus.settings import BrokerSettings
from configure import Settings, flag_of, variable_of
from meter.settings import MeterSettings
from runner.settings import RunnerSettings

PAGE = Path(__file__).with_name("settings.md")
SERVICES: dict[str, type[Settings]] = {
    "aggregator": AggregatorSettings,
    "meter": MeterSettings,
    "runner": RunnerSettings,
}

INTRODUCTION = """\
# Settings

Each service is started with `python -m aggregator`, `python -m meter` or `python -m runner`. Every setting is a flag
and an environment variable; the flag wins, an empty variable counts as not set. `--help` of a service prints the same.
A wrong setting ends the service with one line that names it, and exit status 2. A setting that takes several values
takes them with commas between.

This page is written by `python docs/settings_page.py` from the models that the services read; a test holds it to them.
"""


def page() -> str:
    """The whole page."""
    shared = BrokerSettings.model_fields
    parts = [INTRODUCTION, "## All three services", _table(shared.items())]
    for name, model in SERVICES.items():
        own = [(field, info) for field, info in model.model_fields.items() if field not in shared]
        parts += [f"## {name}", _table(own)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(fields: Iterable[tuple[str, FieldInfo]]) -> str:
    rows = [
        f"| `{flag_of(name)}` | `{variable_of(name)}` | {_default(info)} | {_meaning(info)} |" for name, info in fields
    ]
    return "\n".join(["| flag | variable | default | meaning |", "| --- | --- | --- | --- |", *rows])


def _meaning(info: FieldInfo) -> str:
    choices = [str(choice) for choice in get_args(info.annotation) if isinstance(choice, str)]
    listed = f" ({', '.join(f'`{choice}`' for choice in choices)})" if choices else ""
    return f"{info.description}{listed}".replace("|", "\\|")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "must be given"
    if info.default_factory is not None:
        return (info.default_factory.__doc__ or "").partition(" (")[0]
    if info.default is None or info.default == ():
        return "none"
    return f"`{info.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
