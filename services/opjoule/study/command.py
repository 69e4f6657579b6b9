"""The command `opjoule study DIR --published FILE`."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from errors import SettingsError
from opjoule.printing import print_table
from opjoule.study.commands import try_commands
from opjoule.study.folder import read_folder
from opjoule.study.layout import Replay, lay_out
from opjoule.study.published import PublishedRow, read_published
from opjoule.study.remarks import remarks
from opjoule.study.replay import replay
from opjoule.study.rows import study_rows
from opjoule.study.table import counted, for_terminal, write
from opjoule.study.verdicts import is_failure
from schemas import EnergyResult

SUMMARY = "Recompute a published study from its FNB58 recordings, and say what is wrong with which figure."
WIDE = 200
"""Columns where the output is not a terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule study`."""
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="recordings (.cfn, or .csv made from them), in any subfolders"
    )
    parser.add_argument("--published", type=Path, required=True, metavar="FILE", help="CSV of the published results")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write study.csv, study.json and the journal there")
    parser.add_argument("--try-commands", action="store_true", help="run each published command once on OpenSSL here")
    parser.add_argument("--broker", choices=("mosquitto", "iotcore"), help="[default: mosquitto where it is installed]")


def run(args: argparse.Namespace) -> int:
    """Exit status 1 where a recording is missing or unreadable, else 0, whatever the verdicts are."""
    published = read_published(args.published)
    if args.out is not None:
        _make(args.out)
    recordings, unreadable = read_folder(args.folder, [args.published, *_own_files(args.out)])
    good = [row for row in published if isinstance(row, PublishedRow)]
    plan = lay_out(recordings, good)
    errors = Console(stderr=True, soft_wrap=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=errors
    ) as bar:
        results = _replayed(plan, args, bar)
        commands = _tried(good, bar) if args.try_commands else {}
    rows = study_rows(published, recordings, unreadable, plan, results, commands)
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    by_id = {str(result.event_id): result for result in results}
    print_table(console, for_terminal(rows, by_id, args.try_commands))
    for line in remarks(rows, args.published, recordings, unreadable):
        errors.print(line, highlight=False, markup=False)
    for said, count in counted(rows):
        console.print(f"{count:5} {said}", soft_wrap=True, highlight=False, markup=False)
    if args.out is not None:
        with _writing(args.out):
            write(rows, args.out)
    return int(any(is_failure(row.verdict) for row in rows))


def _make(folder: Path) -> None:
    """Before anything long: the folder is there and can be written to."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"--out {folder} cannot be written: {error.strerror or error}") from None


def _own_files(out: Path | None) -> list[Path]:
    """What an earlier run wrote is no recording."""
    return [] if out is None else [out / "study.csv"]


def _replayed(plan: Replay, args: argparse.Namespace, bar: Progress) -> list[EnergyResult]:
    if not plan.events:
        return []
    task = bar.add_task(f"replaying {plan.samples:,} samples", total=len(plan.events))
    with tempfile.TemporaryDirectory(prefix="opjoule-study-") as name:
        results = replay(plan, Path(name), args.broker, lambda done: bar.update(task, completed=done))
        if args.out is not None:
            with _writing(args.out):
                shutil.copyfile(Path(name) / "journal.sqlite", args.out / "journal.sqlite")
    return results


def _tried(published: Sequence[PublishedRow], bar: Progress) -> dict[tuple[str, str], str]:
    task = bar.add_task("trying the published commands", total=None)
    subjects = [row.subject for row in published]
    return try_commands(subjects, lambda done, total: bar.update(task, completed=done, total=total))
