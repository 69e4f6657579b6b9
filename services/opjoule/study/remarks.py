"""One line for everything that was left out or odd: what, where, who must act. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from opjoule.study.folder import AGAIN, StudyRecording, Unreadable
from opjoule.study.names import Subject, board_of
from opjoule.study.table import StudyRow
from opjoule.study.verdicts import NOT_RECORDED, UNREADABLE


def remarks(
    rows: Sequence[StudyRow],
    published: Path,
    recordings: Mapping[Subject, StudyRecording],
    unreadable: Sequence[Unreadable],
) -> Iterator[str]:
    """Files that cannot be used, files used with a reservation, lines of the table, missing recordings."""
    for each in unreadable:
        yield f"{each.path}: {each.reason}"
    for recording in recordings.values():
        if recording.remarks:
            yield f"{recording.path}: used, but {', '.join(recording.remarks)}"
    said = f"{UNREADABLE}: "
    for row in rows:
        if row.verdict.startswith(said) and not row.operation and not row.recording:
            yield f"{published}: {row.verdict.removeprefix(said)}; correct it"
        elif row.verdict.startswith(said) and row.event_id and not row.verdict.endswith(AGAIN):
            yield f"{row.board}: {row.verdict.removeprefix(said)}; record it again"
    here = {*recordings, *(each.subject for each in unreadable if each.subject is not None)}
    yield from _missing(rows, here)


def _missing(rows: Sequence[StudyRow], here: set[Subject]) -> Iterator[str]:
    for board in dict.fromkeys(row.board for row in rows if row.verdict == NOT_RECORDED):
        count = sum(row.verdict == NOT_RECORDED for row in rows if row.board == board)
        name = board_of(board)
        if not any(subject.board == name for subject in here):
            yield f"{board}: {_rows(count)} and no recording; add its folder"
        elif Subject(name, None, "") not in here:
            yield f"{board}: no idle recording (like 01_{board}_baseline.cfn) for {_rows(count)}; add it"
        else:
            yield f"{board}: {_rows(count)} without a recording; add what is missing"


def _rows(count: int) -> str:
    return f"{count} published row{'s' * (count != 1)}"
