"""`opjoule influx check`: whether InfluxDB is as the aggregator and the panels need it, and who must do what.

`opjoule influx resend` has the aggregator send the last revision of every result again, to a store that lost them or
refused them. Both take the aggregator's own flags and variables.
"""

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from aggregator.journal import Journal
from aggregator.settings import InfluxSettings
from aggregator.sinks.influx import InfluxStore
from bus.settings import default_state_dir
from configure import flag_of, load, variable_of
from errors import SettingsError
from opjoule.influx_api import Api, Bucket, Server

SUMMARY = "Whether InfluxDB is as the aggregator and the panels need it; send results to it again."
YEAR_S = 365 * 86_400
FIRST_VERSION = (1, 8)
"""The first InfluxDB that has `/api/v2/write`."""


class CommandSettings(InfluxSettings):
    """The aggregator's settings that matter here."""

    journal: Path | None = Field(None, description="the journal file; by default journal.sqlite in the state directory")
    state_dir: Path = Field(default_factory=default_state_dir, description="folder of the journal")

    @property
    def journal_path(self) -> Path:
        """Where the journal lies."""
        return self.journal or self.state_dir / "journal.sqlite"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    level: Literal["ok", "unknown", "warning", "error"]
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.level:8} {self.subject:10} {self.text}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule influx`."""
    parser.add_argument("action", choices=("check", "resend"), help="look, change nothing / send all results again")
    for name, field in CommandSettings.model_fields.items():
        parser.add_argument(flag_of(name), dest=name, help=f"{field.description} [{variable_of(name)}]")


def run(args: argparse.Namespace) -> int:
    """Exit status of `check`: 0 where nothing is wrong, 1 where somebody must act."""
    given = [part for name in CommandSettings.model_fields if getattr(args, name) for part in _flag(args, name)]
    settings = load(CommandSettings, "opjoule influx", SUMMARY, given, os.environ)
    if args.action == "resend":
        print(resend(settings.journal_path))
        return 0
    findings = check(settings, _oldest_ns(settings.journal_path), time.time_ns())
    for finding in findings:
        print(finding)
    return int(any(finding.level == "error" for finding in findings))


def _flag(args: argparse.Namespace, name: str) -> tuple[str, str]:
    return flag_of(name), str(getattr(args, name))


def resend(path: Path) -> str:
    """Mark all results as not sent; what that means, in one line. The aggregator must not be running."""
    if not path.is_file():
        raise SettingsError(f"there is no journal {path}")
    journal = Journal(path)
    try:
        with journal.outbox.transaction():
            journal.outbox.set_results_row(0)
        return f"at its next start the aggregator sends the last revisions in {path} again"
    finally:
        journal.close()


def check(settings: CommandSettings, oldest_ns: int | None, now_ns: int) -> list[Finding]:
    """All findings, in order; what cannot be reached ends them."""
    if settings.influx_url is None:
        raise SettingsError(f"{flag_of('influx_url')} ({variable_of('influx_url')}) must be given")
    api = Api(settings.influx_url, settings.influx_token(), settings.influx_timeout_s)
    try:
        server = api.server()
    except OSError as error:
        reason = getattr(error, "reason", error)
        text = (
            f"nothing answers at {settings.influx_url} ({reason}): the operator must start it or correct --influx-url"
        )
        return [Finding("error", "URL", text)]
    found = [_url(settings.influx_url, server)]
    if found[0].level == "error":
        return found
    found.append(_token(settings))
    if found[-1].level != "ok":
        return found
    try:
        return [*found, *_store(settings, api, server, oldest_ns, now_ns)]
    except OSError as error:
        return [*found, Finding("error", "URL", f"{settings.influx_url} answers no more: {error}")]


def _url(url: str, server: Server) -> Finding:
    if server.name == "other":
        text = f"{url} does not say that it is InfluxDB; of VictoriaMetrics only numbers come back (texts become 0)"
        return Finding("warning", "URL", text)
    if server.version < FIRST_VERSION:
        text = f"{url} is {server}: it has no /api/v2/write, the operator must install 1.8 or later"
        return Finding("error", "URL", text)
    return Finding("ok", "URL", f"{url} is {server}")


def _token(settings: CommandSettings) -> Finding:
    """Whether a write would be taken: of a comment, so that nothing is written."""
    store = InfluxStore(settings)
    try:
        answer = store.write(["# opjoule influx check"])
    finally:
        store.close()
    if answer.kind in ("stored", "refused"):  # refused for want of points: after the token was looked at
        return Finding("ok", "token", f"may write to bucket {settings.influx_bucket}")
    return Finding("error", "token", answer.text)


def _store(settings: CommandSettings, api: Api, server: Server, oldest_ns: int | None, now_ns: int) -> list[Finding]:
    """Bucket, retention and InfluxQL mapping, as far as this server tells."""
    name = settings.influx_bucket
    if server.name == "other" or server.version[0] >= 3:
        mapping = _no_influxql(settings) if server.name == "other" else _native(name)
        return [Finding("unknown", "retention", "this server does not tell it: the operator must look there"), mapping]
    bucket = api.database(name) if server.version[0] == 1 else api.bucket(settings.influx_org, name)
    if bucket is None:
        return [_invisible(name), *([_mapping(settings, api, None)] if server.version[0] == 2 else [_native(name)])]
    found = [Finding("ok", "bucket", f"{name} is there"), _retention(bucket, oldest_ns, now_ns)]
    return [*found, _native(name) if server.version[0] == 1 else _mapping(settings, api, bucket)]


def _invisible(name: str) -> Finding:
    text = (
        f"{name} takes writes, and this token may not look at it: for its retention run this with one that may read it"
    )
    return Finding("unknown", "bucket", text)


def _retention(bucket: Bucket, oldest_ns: int | None, now_ns: int) -> Finding:
    if bucket.retention_s == 0:
        return Finding("ok", "retention", "points are kept for ever")
    kept = f"points are kept {bucket.retention_s / 86_400:.3g} days"
    age_s = 0.0 if oldest_ns is None else (now_ns - oldest_ns) / 1e9
    if bucket.retention_s < age_s:
        data = f"the oldest result in the journal is {age_s / 86_400:.3g} days old"
        text = f"{kept} and {data}: the operator must lengthen it, else InfluxDB refuses what is older"
        return Finding("error", "retention", text)
    if bucket.retention_s < YEAR_S:
        return Finding(
            "warning", "retention", f"{kept}, less than a year: the operator must lengthen it to keep results"
        )
    return Finding("ok", "retention", kept)


def _mapping(settings: CommandSettings, api: Api, bucket: Bucket | None) -> Finding:
    database, _, policy = settings.influx_bucket.partition("/")
    mappings = api.mappings(settings.influx_org)
    if mappings is None:
        return Finding(
            "unknown", "InfluxQL", "this token may not look at mappings: run this with one that may read them"
        )
    found = [each for each in mappings if each.database == database and (not policy or each.policy == policy)]
    wanted = f"influx v1 dbrp create --db {database} --rp {policy or 'autogen'} --default --bucket-id "
    if not found:
        text = f"no database {database} for the panels: the operator must run {wanted}{bucket.key if bucket else 'ID'}"
        return Finding("error" if bucket else "unknown", "InfluxQL", text)
    if bucket and all(each.bucket != bucket.key for each in found):
        text = f"database {database} leads to another bucket: the operator must run {wanted}{bucket.key}"
        return Finding("error", "InfluxQL", text)
    return Finding("ok", "InfluxQL", f"panels read it as database {database}")


def _native(name: str) -> Finding:
    return Finding("ok", "InfluxQL", f"panels read it as database {name.partition('/')[0]}")


def _no_influxql(settings: CommandSettings) -> Finding:
    text = f"{settings.influx_url} may have none: then the panels cannot read it, and it is a store for writing only"
    return Finding("warning", "InfluxQL", text)


def _oldest_ns(path: Path) -> int | None:
    """Start of the oldest result in the journal; None where there is no journal yet."""
    if not path.is_file():
        return None
    journal = Journal(path, read_only=True)
    try:
        return journal.results.oldest_ns()
    finally:
        journal.close()
