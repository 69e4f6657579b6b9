"""Puts ours beside the published: one row per published figure, and per recording without one. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from opjoule.study.folder import StudyRecording, Unreadable
from opjoule.study.layout import Replay
from opjoule.study.names import Subject
from opjoule.study.published import BadRow, PublishedRow
from opjoule.study.table import StudyRow
from opjoule.study.verdicts import AGREES, NOT_PUBLISHED, NOT_RECORDED, TIMING_ONLY, UNREADABLE, Recorded, verdict
from schemas import EnergyResult


def study_rows(
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
    boards = {row.subject.board: row.machine for row in reversed(published) if isinstance(row, PublishedRow)}
    rows: list[StudyRow] = []
    for row in published:
        if isinstance(row, BadRow):
            rows.append(_bad_row(row))
            continue
        subject = row.subject
        bad = reasons.get(subject) or (reasons.get(subject.idle) if subject in recordings else None)
        result = _result(by_id, plan, subject, row.line)
        command = commands.get((str(subject.operation), subject.parameter_set), "")
        why = _why(bad) or _damage(recordings, subject)
        made = _published_row(row, result, _name(recordings, subject, bad), why, command)
        rows.append(replace(made, remarks=_remarks(recordings, subject)))
    known = {row.subject for row in published if isinstance(row, PublishedRow)}
    for subject in sorted((recordings.keys() | reasons.keys()) - known, key=str):
        bad = reasons.get(subject)
        if subject.operation is not None or bad is not None:
            board = boards.get(subject.board, subject.board)
            name = _name(recordings, subject, bad)
            made = _recorded_row(board, subject, _result(by_id, plan, subject, None), name, _why(bad))
            rows.append(replace(made, remarks=_remarks(recordings, subject)))
    return rows + list(_nameless(unreadable))


def _result(
    by_id: Mapping[UUID, EnergyResult], plan: Replay, subject: Subject, line: int | None
) -> EnergyResult | None:
    event_id = plan.event_ids.get((subject, line))
    return by_id.get(event_id) if event_id else None


def _used(recordings: Mapping[Subject, StudyRecording], subject: Subject) -> Iterator[StudyRecording]:
    """The recordings that a figure is made of: its own and the board's idle one."""
    for each in dict.fromkeys((subject, subject.idle)):
        if subject in recordings and each in recordings:
            yield recordings[each]


def _damage(recordings: Mapping[Subject, StudyRecording], subject: Subject) -> str:
    """Why a figure that does not agree is no judgement of the published one; empty where it is."""
    return next((f"{each.path.name}: {each.damage}" for each in _used(recordings, subject) if each.damage), "")


def _remarks(recordings: Mapping[Subject, StudyRecording], subject: Subject) -> str:
    return "; ".join(f"{each.path.name}: {said}" for each in _used(recordings, subject) for said in each.remarks)


def _why(bad: Unreadable | None) -> str:
    return f"{bad.path.name}: {bad.reason}" if bad else ""


def _name(recordings: Mapping[Subject, StudyRecording], subject: Subject, bad: Unreadable | None) -> str:
    found = recordings.get(subject)
    return found.path.name if found else bad.path.name if bad else ""


def _bad_row(row: BadRow) -> StudyRow:
    """A published row that cannot be used."""
    return StudyRow(
        board=row.machine, operation="", parameter_set="", verdict=f"{UNREADABLE}: line {row.line}: {row.reason}"
    )


def _published_row(
    published: PublishedRow, result: EnergyResult | None, recording: str, unreadable: str, command: str
) -> StudyRow:
    """A published figure beside ours. `unreadable` is why its recording, or the idle one, cannot be relied on."""
    subject = published.subject
    theirs = {
        "published_j_per_op": published.j_per_op,
        "published_idle_w": published.idle_w,
        "published_load_w": published.load_w,
        "published_s_per_op": published.s_per_op,
        "published_command": command,
        "recording": recording,
    }
    recorded = _recorded(result)
    if not published.has_power:
        said = TIMING_ONLY
    elif recorded is not None:
        said = verdict(published, recorded)
        if unreadable and said != AGREES:
            said = f"{UNREADABLE}: {unreadable}"
    elif result is not None:
        said = f"{UNREADABLE}: {recording}: {result.reason}"
    else:
        said = f"{UNREADABLE}: {unreadable}" if unreadable else NOT_RECORDED
    judged = recorded if not said.startswith(UNREADABLE) else None
    ratio = judged.j_per_op / published.j_per_op if judged and published.j_per_op else None
    return StudyRow(
        board=published.machine,
        operation=str(subject.operation),
        parameter_set=subject.parameter_set,
        ratio=ratio,
        verdict=said,
        **_ours(result),  # type: ignore[arg-type]
        **theirs,  # type: ignore[arg-type]
    )


def _recorded_row(
    board: str, subject: Subject, result: EnergyResult | None, recording: str, unreadable: str
) -> StudyRow:
    """A recording that the published table has no row for: without a time per operation it has no energy of one."""
    return StudyRow(
        board=board,
        operation=subject.operation or "idle",
        parameter_set=subject.parameter_set,
        verdict=f"{UNREADABLE}: {unreadable}" if unreadable else NOT_PUBLISHED,
        recording=recording,
        **_ours(result),  # type: ignore[arg-type]
    )


def _nameless(unreadable: Sequence[Unreadable]) -> Iterator[StudyRow]:
    """Files whose name does not tell what they are of."""
    for each in unreadable:
        if each.subject is None:
            yield StudyRow(
                board="",
                operation="",
                parameter_set="",
                verdict=f"{UNREADABLE}: {_why(each)}",
                recording=each.path.name,
            )


def _ours(result: EnergyResult | None) -> dict[str, object]:
    if result is None:
        return {}
    energy = result.net_j_per_op
    return {
        "net_j_per_op": energy.value if energy else None,
        "u95_j_per_op": energy.u95 if energy else None,
        "idle_w": result.baseline_w,
        "load_w": result.load_w,
        "quality": result.quality,
        "flags": " ".join(result.flags),
        "event_id": str(result.event_id),
    }


def _recorded(result: EnergyResult | None) -> Recorded | None:
    if result is None or result.net_j_per_op is None or result.baseline_w is None or result.load_w is None:
        return None
    return Recorded(result.baseline_w, result.load_w, result.net_j_per_op.value)
