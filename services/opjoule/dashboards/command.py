"""`opjoule dashboards`: writes deploy/grafana from the Python values, or says which files there are stale."""

import argparse
import json
from pathlib import Path

from errors import SettingsError
from opjoule.dashboards import DASHBOARDS
from opjoule.dashboards.alerts import alert_rules
from opjoule.dashboards.parts import Json
from opjoule.dashboards.provisioning import dashboard_folders, datasources
from opjoule.generated import Generated

SUMMARY = (
    "Write deploy/grafana (dashboards, data source, alert rules) from the Python values, or check that it is fresh."
)

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "grafana"
"""Beside the sources; an installed wheel has no such folder."""
HEADER = "# Written by `opjoule dashboards`: change services/opjoule/dashboards, not this.\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule dashboards`."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name the files that are stale")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files lie [default: deploy/grafana]")


def run(args: argparse.Namespace) -> int:
    """Write the files, or name the stale ones."""
    folder: Path = args.folder
    if not folder.is_dir():
        raise SettingsError(f"{folder} is no folder: run this in the sources, or name one with --folder")
    return FILES.run(folder, args.check)


def generated() -> dict[str, str]:
    """Path below deploy/grafana and text of every generated file."""
    return {
        **{f"dashboards/{name}.json": dashboard_text(made) for name, made in DASHBOARDS.items()},
        "provisioning/datasources/opjoule.yaml": _yaml(datasources()),
        "provisioning/dashboards/opjoule.yaml": _yaml(dashboard_folders()),
        "provisioning/alerting/opjoule.yaml": _yaml(alert_rules()),
    }


def dashboard_text(dashboard: Json) -> str:
    """A dashboard as its file has it."""
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def _yaml(content: Json) -> str:
    import yaml  # noqa: PLC0415 - a development tool, needed for nothing else

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    text: str = yaml.dump(content, Dumper=Plain, sort_keys=False, allow_unicode=True, width=110)
    return HEADER + text


FILES = Generated("opjoule dashboards", ("dashboards/*.json", "provisioning/*/*.yaml"), generated)
write, stale = FILES.write, FILES.stale
