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
LATEST_START_S = 4_102_444_800.0
"""The year 2100: a later start time is a typing error."""
_NAMESPACE = uuid5(NAMESPACE_URL, "opjoule/study")
_PROCESSES = {"keygen": 2, "sign": 1, "verify": 1}
"""Processes per repetition of the published commands."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What is played, what is published, and the event of each recording and line of the published table (or None)."""

    playlist: tuple[PlaylistEntry, ...]
    events: tuple[OperationEvent, ...]
    event_ids: Mapping[tuple[Subject, int | None], UUID]
    samples: int


def lay_out(recordings: Mapping[Subject, StudyRecording], published: Iterable[PublishedRow]) -> Replay:
    """Every recording of a board that has an idle recording, in the order of their names."""
    rows: dict[Subject, list[PublishedRow]] = {}
    for row in published:
        rows.setdefault(row.subject, []).append(row)
    boards = sorted({subject.board for subject in recordings})
    playlist: list[PlaylistEntry] = []
    events: dict[tuple[Subject, int | None], OperationEvent] = {}
    for board in boards:
        mine = sorted((each for each in recordings.values() if each.subject.board == board), key=_order)
        if mine[0].subject.operation is None:
            start_ns = _board_start_ns(row for each in rows.values() for row in each if row.subject.board == board)
            entries, made = _board(mine, rows, start_ns)
            playlist += entries
            events |= made
    played = {entry.path for entry in playlist}
    samples = sum(each.samples for each in recordings.values() if each.path.resolve() in played)
    ids = {key: event.event_id for key, event in events.items()}
    return Replay(tuple(playlist), tuple(events.values()), ids, samples)


def _order(recording: StudyRecording) -> tuple[bool, str]:
    """The idle recording first."""
    return recording.subject.operation is not None, recording.path.name


def _board_start_ns(rows: Iterable[PublishedRow]) -> int:
    starts = [row.start_s for row in rows if row.start_s is not None and 0 < row.start_s < LATEST_START_S]
    return int(min(starts)) * 1_000_000_000 if starts else START_NS


def _board(
    recordings: Sequence[StudyRecording], rows: Mapping[Subject, Sequence[PublishedRow]], start_ns: int
) -> tuple[list[PlaylistEntry], dict[tuple[Subject, int | None], OperationEvent]]:
    board, timeline_id = recordings[0].subject.board, f"study-{recordings[0].digest[:16]}"
    playlist: list[PlaylistEntry] = []
    events: dict[tuple[Subject, int | None], OperationEvent] = {}
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
            continue
        published: Sequence[PublishedRow | None] = rows.get(recording.subject, ())
        for row in published or (None,):
            key = (recording.subject, row.line if row else None)
            events[key] = _event(recording, row, (idle, segment), timeline_id)
    return playlist, events


def _whole(recording: StudyRecording, at_ns: int) -> Segment:
    """The segment that is all of a recording: half a period before its first sample to half a period after its last."""
    half_ns = recording.period_ns // 2
    kind = "idle" if recording.subject.operation is None else "load"
    end_ns = at_ns + round(recording.last_s * 1e9) + recording.period_ns - half_ns
    return Segment.model_validate({"kind": kind, "start_ns": at_ns - half_ns, "end_ns": end_ns})


def _event(
    recording: StudyRecording, row: PublishedRow | None, segments: tuple[Segment, Segment], timeline_id: str
) -> OperationEvent:
    subject = recording.subject
    times = TimeStatistics(count=row.iterations, mean_s=row.s_per_op) if row else None
    return OperationEvent.model_validate(
        {
            "event_id": uuid5(_NAMESPACE, f"{subject.board}:{recording.digest}:{row.line if row else 'not published'}"),
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
                model=row.machine[:256] if row else subject.board, architecture="unknown", bits=None, openssl="unknown"
            ),
        }
    )
