"""The command `opjoule study DIR --published FILE`."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from errors import SettingsError
from opjoule.study.commands import try_commands
from opjoule.study.folder import StudyRecording, Unreadable, read_folder
from opjoule.study.layout import Replay, lay_out
from opjoule.study.names import Subject
from opjoule.study.published import BadRow, PublishedRow, read_published
from opjoule.study.replay import replay
from opjoule.study.table import StudyRow, bad_row, counted, for_terminal, published_row, recorded_row, write
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
    rows = _rows(published, recordings, unreadable, plan, results, commands)
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    console.print(for_terminal(rows, {str(result.event_id): result for result in results}, args.try_commands))
    _explain(rows, recordings, unreadable, errors)
    for said, count in counted(rows):
        console.print(f"{count:5} {said}", soft_wrap=True, highlight=False)
    if args.out is not None:
        write(rows, args.out)
    return int(any(is_failure(row.verdict) for row in rows) or any(each.subject is None for each in unreadable))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--out {folder}: {error.strerror}") from None


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
            shutil.copyfile(Path(name) / "journal.sqlite", args.out / "journal.sqlite")
    return results


def _tried(published: Sequence[PublishedRow], bar: Progress) -> dict[tuple[str, str], str]:
    task = bar.add_task("trying the published commands", total=None)
    subjects = [row.subject for row in published]
    return try_commands(subjects, lambda done, total: bar.update(task, completed=done, total=total))


def _rows(
    published: Sequence[PublishedRow | BadRow],
    recordings: Mapping[Subject, StudyRecording],
    unreadable: Sequence[Unreadable],
    plan: Replay,
    results: Sequence[EnergyResult],
    commands: Mapping[tuple[str, str], str],
) -> list[StudyRow]:
    """Published rows in their order, then recordings without one, then files that tell nothing."""
    by_id = {result.event_id: result for result in results}
    reasons = {each.subject: each for each in unreadable if each.subject is not None}
    rows: list[StudyRow] = []
    for row in published:
        if isinstance(row, BadRow):
            rows.append(bad_row(row))
            continue
        subject = row.subject
        idle = reasons.get(Subject(subject.board, None, ""))
        bad = reasons.get(subject) or (idle if subject in recordings else None)
        event_id = plan.event_ids.get(subject)
        result = by_id.get(event_id) if event_id else None
        command = commands.get((str(subject.operation), subject.parameter_set), "")
        rows.append(published_row(row, result, _name(recordings, subject, bad), _why(bad), command))
    known = {row.subject for row in published if isinstance(row, PublishedRow)}
    for subject in sorted(recordings.keys() | reasons.keys(), key=str):
        bad = reasons.get(subject)
        if subject not in known and (subject.operation is not None or bad is not None):
            result = by_id.get(plan.event_ids[subject]) if subject in plan.event_ids else None
            rows.append(recorded_row(subject, result, _name(recordings, subject, bad), _why(bad)))
    return rows


def _why(bad: Unreadable | None) -> str:
    return f"{bad.path.name}: {bad.reason}" if bad else ""


def _name(recordings: Mapping[Subject, StudyRecording], subject: Subject, bad: Unreadable | None) -> str:
    found = recordings.get(subject)
    return found.path.name if found else bad.path.name if bad else ""


def _explain(
    rows: Sequence[StudyRow],
    recordings: Mapping[Subject, StudyRecording],
    unreadable: Sequence[Unreadable],
    errors: Console,
) -> None:
    """One line for everything that was left out or odd: what, where, who must act."""
    for each in unreadable:
        errors.print(f"{each.path}: {each.reason}", highlight=False)
    for recording in recordings.values():
        if recording.remarks:
            errors.print(f"{recording.path}: used, but {', '.join(recording.remarks)}", highlight=False)
    boards = {row.board for row in rows if is_failure(row.verdict)}
    for board in sorted(boards):
        mine = {subject for subject in recordings if subject.board == board}
        missing = sum(row.verdict == "not recorded" for row in rows if row.board == board)
        if missing and not mine:
            errors.print(f"{board}: {missing} published rows and no recording; add its folder", highlight=False)
        elif missing and Subject(board, None, "") not in mine:
            errors.print(f"{board}: no idle recording (like 01_{board}_baseline.cfn); add it", highlight=False)
        elif missing:
            errors.print(f"{board}: {missing} published rows have no recording; add them", highlight=False)
