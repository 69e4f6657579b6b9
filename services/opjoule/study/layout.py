"""A study as playlist and operation events: every board has one timeline, on which its recordings follow each other.

A recording made in the middle of a load has no edges: its load segment is the whole recording, without guard, and the
board's idle recording is its only idle segment. Recordings hold no wall clock, so the times are nominal. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_URL, UUID, uuid5

from meter.playlist import PlaylistEntry
from opjoule.study.folder import StudyRecording
from opjoule.study.names import Subject
from opjoule.study.published import PublishedRow
from schemas import Board, OperationEvent, Segment, TimeStatistics

SITE = "study"
METER = "fnb58"
MODEL = "FNB58"
PAUSE_NS = 1_000_000_000
START_NS = 1_600_000_000_000_000_000
"""Where a board's timeline begins when the study gives no time at all."""
_NAMESPACE = uuid5(NAMESPACE_URL, "opjoule/study")
_PROCESSES = {"keygen": 2, "sign": 1, "verify": 1}
"""Processes per repetition of the published commands."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What is played, what is published, and which event belongs to which recording."""

    playlist: tuple[PlaylistEntry, ...]
    events: tuple[OperationEvent, ...]
    event_ids: Mapping[Subject, UUID]
    samples: int


def lay_out(recordings: Mapping[Subject, StudyRecording], published: Iterable[PublishedRow]) -> Replay:
    """Every recording of a board that has an idle recording, in the order of their names."""
    rows = {row.subject: row for row in published}
    boards = sorted({subject.board for subject in recordings})
    playlist: list[PlaylistEntry] = []
    events: list[OperationEvent] = []
    for board in boards:
        mine = sorted((each for each in recordings.values() if each.subject.board == board), key=_order)
        if mine[0].subject.operation is None:
            start_ns = _board_start_ns(row for subject, row in rows.items() if subject.board == board)
            entries, made = _board(mine, rows, start_ns)
            playlist += entries
            events += made
    ids = {Subject(event.dut, event.operation, event.parameter_set): event.event_id for event in events}
    samples = sum(each.samples for each in recordings.values())
    return Replay(tuple(playlist), tuple(events), ids, samples)


def _order(recording: StudyRecording) -> tuple[bool, str]:
    """The idle recording first."""
    return recording.subject.operation is not None, recording.path.name


def _board_start_ns(rows: Iterable[PublishedRow]) -> int:
    starts = [row.start_s for row in rows if row.start_s is not None and row.start_s > 0]
    return int(min(starts)) * 1_000_000_000 if starts else START_NS


def _board(
    recordings: Sequence[StudyRecording], rows: Mapping[Subject, PublishedRow], start_ns: int
) -> tuple[list[PlaylistEntry], list[OperationEvent]]:
    board, timeline_id = recordings[0].subject.board, f"study-{recordings[0].digest[:16]}"
    playlist: list[PlaylistEntry] = []
    events: list[OperationEvent] = []
    idle: Segment | None = None
    at_ns = start_ns
    for recording in recordings:
        playlist.append(
            PlaylistEntry(
                path=recording.path.resolve(),
                dut=board,
                meter=METER,
                meter_model=MODEL,
                timeline_id=timeline_id,
                start_ns=at_ns,
            )
        )
        segment = _whole(recording, at_ns)
        at_ns = segment.end_ns + PAUSE_NS
        if idle is None:
            idle = segment
        else:
            events.append(_event(recording, rows.get(recording.subject), (idle, segment), timeline_id))
    return playlist, events


def _whole(recording: StudyRecording, at_ns: int) -> Segment:
    """The segment that is all of a recording: half a period before its first sample to half a period after its last."""
    half_ns = recording.period_ns // 2
    kind = "idle" if recording.subject.operation is None else "load"
    end_ns = at_ns + round(recording.last_s * 1e9) + half_ns
    return Segment.model_validate({"kind": kind, "start_ns": at_ns - half_ns, "end_ns": end_ns})


def _event(
    recording: StudyRecording, row: PublishedRow | None, segments: tuple[Segment, Segment], timeline_id: str
) -> OperationEvent:
    subject = recording.subject
    times = TimeStatistics(count=row.iterations, mean_s=row.s_per_op) if row else None
    return OperationEvent.model_validate(
        {
            "event_id": uuid5(_NAMESPACE, f"{recording.digest}:{row.line if row else 'not published'}"),
            "site": SITE,
            "dut": subject.board,
            "run_id": "study",
            "origin": "import",
            "operation": subject.operation,
            "parameter_set": subject.parameter_set,
            "variant": "as-published",
            "backend": "cli",
            "processes_per_repetition": _PROCESSES.get(subject.operation or "", 0),
            "timeline_id": timeline_id,
            "segments": segments,
            "guard_s": 0.0,
            "repetitions_verified": 0,
            "separate_timing_s": row.s_per_op if row else None,
            "time_per_repetition": times,
            "board": Board(
                model=row.machine if row else subject.board, architecture="unknown", bits=None, openssl="unknown"
            ),
        }
    )
