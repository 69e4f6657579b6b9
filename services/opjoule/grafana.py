"""`opjoule grafana push|check|annotate`: what a Grafana that already exists needs to show the fleet."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from aggregator.journal import Journal
from aggregator.journal_tables import ResultFilter
from configure import flag_of, load, variable_of
from errors import SettingsError
from opjoule.grafana_annotations import annotate
from opjoule.grafana_api_client import GrafanaClient
from opjoule.grafana_push import Step, Store, UnreachableError, check, push
from opjoule.grafana_settings import GrafanaSettings
from opjoule.places import journal_file

SUMMARY = "Put data source, folder and dashboards into a Grafana that is there (push), look at them (check), or mark"
SUMMARY += " the journal's campaigns in it (annotate)."

ACTIONS = ("push", "check", "annotate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule grafana`; every setting of GrafanaSettings is a flag and a variable."""
    parser.add_argument("action", choices=ACTIONS)
    for name, field in GrafanaSettings.model_fields.items():
        default = "none" if field.default is None else field.default
        text = f"{field.description} [{variable_of(name)}; default: {default}]"
        parser.add_argument(flag_of(name), metavar="VALUE", help=text)
    parser.add_argument("--overwrite", action="store_true", help="push: also dashboards that were edited by hand")
    parser.add_argument("--journal", type=Path, help="annotate: journal file [default: that of the state directory]")
    parser.add_argument("--run", help="annotate: only this run_id")
    parser.add_argument("--trains", action="store_true", help="annotate: every train too, not only the campaigns")


def run(args: argparse.Namespace) -> int:
    """Do it and say every step; 1 where something was left out or is not as it should be."""
    settings = _settings(args)
    client = GrafanaClient(settings.grafana_url, settings.auth(), settings.grafana_ca_file)
    store = Store(settings.grafana_influx_url, settings.grafana_influx_bucket, settings.influx_authorization())
    try:
        if args.action == "push":
            return _tell(push(client, store, args.overwrite), "push")
        if args.action == "check":
            return _tell(check(client, store), "check")
        return _tell(_annotate(client, args), "annotate")
    finally:
        client.close()


def _settings(args: argparse.Namespace) -> GrafanaSettings:
    given = [(name, getattr(args, name)) for name in GrafanaSettings.model_fields]
    flags = [word for name, value in given if value is not None for word in (flag_of(name), value)]
    return load(GrafanaSettings, "opjoule grafana", SUMMARY, flags, os.environ)


def _annotate(client: GrafanaClient, args: argparse.Namespace) -> Iterator[Step]:
    journal = Journal(journal_file(args.journal), read_only=True)
    try:
        yield from annotate(client, journal.results.find(ResultFilter(run_id=args.run)), args.trains)
    finally:
        journal.close()


def _tell(steps: Iterable[Step], action: str) -> int:
    """Print each step as it is done. A Grafana that goes away in between leaves what was done, and that is said."""
    done, problems = 0, 0
    try:
        for step in steps:
            print(step, file=sys.stderr if step.problem else sys.stdout, flush=True)
            done, problems = done + 1, problems + step.problem
    except UnreachableError as error:
        if not done:
            raise
        raise SettingsError(
            f"{error}; the steps above are done and stay: run `opjoule grafana {action}` again"
        ) from None
    return 1 if problems else 0
