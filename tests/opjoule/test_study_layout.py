"""How a study lies on timelines: the idle recording first, every segment whole, nothing over something else."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opjoule.study.folder import StudyRecording
from opjoule.study.layout import Replay, lay_out
from opjoule.study.names import Subject
from opjoule.study.published import PublishedRow

PERIOD_NS = 20_000_000
IDLE = Subject("pi4", None, "")
SIGN = Subject("pi4", "sign", "ML-DSA-44")
KEYS = Subject("pi4", "keygen", "RSA-2048")


def recording(subject: Subject, last_s: float = 30.0, digest: str = "", period_ns: int = PERIOD_NS) -> StudyRecording:
    name = f"{subject.operation or 'without_load'}_{subject.parameter_set}"
    return StudyRecording(
        path=Path(f"/study/{name}.cfn"),
        subject=subject,
        digest=digest or name.encode().hex().ljust(64, "0"),
        period_ns=period_ns,
        last_s=last_s,
        samples=round(last_s * 1e9 / period_ns) + 1,
        remarks=(),
    )


def published(subject: Subject, line: int = 2, s_per_op: float = 0.25, start_s: float | None = None) -> PublishedRow:
    return PublishedRow(line, "Pi 4", subject, 100, s_per_op, start_s, 0.5, 1.5, s_per_op, "0.5", "1.5")


def plan_of(*recordings: StudyRecording, rows: tuple[PublishedRow, ...] = ()) -> Replay:
    return lay_out({each.subject: each for each in recordings}, rows)


def test_a_segment_reaches_half_a_period_beyond_the_first_and_the_last_sample() -> None:
    plan = plan_of(recording(IDLE, 600.0), recording(SIGN, 29.98), rows=(published(SIGN),))
    (event,), (idle_entry, load_entry) = plan.events, plan.playlist
    idle, load = event.segments
    assert idle.start_ns == idle_entry.start_ns - PERIOD_NS // 2
    assert idle.end_ns == idle_entry.start_ns + 600_000_000_000 + PERIOD_NS // 2
    assert load.start_ns == load_entry.start_ns - PERIOD_NS // 2
    assert load.end_ns == load_entry.start_ns + 29_980_000_000 + PERIOD_NS // 2
    assert (idle.kind, load.kind, load.duration_s) == ("idle", "load", 30.0)


def test_the_event_says_how_the_study_was_made() -> None:
    (event,) = plan_of(recording(IDLE), recording(SIGN), rows=(published(SIGN, s_per_op=0.125),)).events
    assert (event.dut, event.operation, event.parameter_set, event.board.model) == ("pi4", "sign", "ML-DSA-44", "Pi 4")
    assert (event.origin, event.guard_s, event.repetitions_verified) == ("import", 0.0, 0)
    assert event.separate_timing_s == 0.125
    assert event.time_per_repetition is not None and event.time_per_repetition.count == 100


def test_the_idle_recording_is_first_whatever_its_name() -> None:
    plan = plan_of(recording(SIGN), recording(KEYS), recording(IDLE), rows=(published(SIGN), published(KEYS)))
    assert plan.playlist[0].path.name == "without_load_.cfn"
    assert {event.segments[0] for event in plan.events} == {plan.events[0].segments[0]}
    assert all(event.segments[0].end_ns < event.segments[1].start_ns for event in plan.events)


def test_a_recording_without_a_row_has_no_time_per_operation() -> None:
    (event,) = plan_of(recording(IDLE), recording(SIGN)).events
    assert (event.separate_timing_s, event.time_per_repetition) == (None, None)


def test_a_board_without_an_idle_recording_is_not_played() -> None:
    plan = plan_of(recording(SIGN), recording(Subject("pi1", None, "")), rows=(published(SIGN),))
    assert [entry.dut for entry in plan.playlist] == ["pi1"]
    assert (plan.events, dict(plan.event_ids), plan.samples) == ((), {}, 1501)


def test_two_published_rows_of_one_recording_are_two_events_with_their_own_time() -> None:
    rows = (published(SIGN, line=2, s_per_op=0.25), published(SIGN, line=9, s_per_op=0.5))
    plan = plan_of(recording(IDLE), recording(SIGN), rows=rows)
    by_id = {event.event_id: event for event in plan.events}
    times = {key: by_id[event_id].separate_timing_s for key, event_id in plan.event_ids.items()}
    assert times == {(SIGN, 2): 0.25, (SIGN, 9): 0.5}
    assert len(plan.playlist) == 2


def test_the_same_study_gives_the_same_events_in_whatever_order_it_was_read() -> None:
    recordings, rows = [recording(IDLE), recording(SIGN), recording(KEYS)], (published(SIGN), published(KEYS, 3))
    assert plan_of(*recordings, rows=rows) == plan_of(*reversed(recordings), rows=tuple(reversed(rows)))


def test_an_event_id_follows_the_bytes_of_the_recording_and_the_line_of_the_row() -> None:
    def event_id(digest: str, line: int) -> str:
        plan = plan_of(recording(IDLE), recording(SIGN, digest=digest), rows=(published(SIGN, line),))
        return str(plan.events[0].event_id)

    assert event_id("a" * 64, 2) == event_id("a" * 64, 2)
    assert len({event_id("a" * 64, 2), event_id("b" * 64, 2), event_id("a" * 64, 3)}) == 3


@pytest.mark.parametrize(("start_s", "expected_s"), [(1.7e9, 1_700_000_000), (1e300, 1_600_000_000), (-5.0, 1.6e9)])
def test_a_board_starts_when_the_study_says_so_unless_that_cannot_be(start_s: float, expected_s: float) -> None:
    plan = plan_of(recording(IDLE), recording(SIGN), rows=(published(SIGN, start_s=start_s),))
    assert plan.playlist[0].start_ns == expected_s * 1e9


@given(
    st.lists(st.floats(0, 600), min_size=2, max_size=6),
    st.integers(1, 10**9),
    st.floats(1, 4e9),
)
def test_recordings_of_a_board_never_overlap(lengths_s: list[float], period_ns: int, start_s: float) -> None:
    sets = ("RSA-2048", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "X25519")
    subjects = [IDLE, *(Subject("pi4", "keygen", each) for each in sets)]
    recordings = [recording(subject, s, period_ns=period_ns) for subject, s in zip(subjects, lengths_s, strict=False)]
    plan = plan_of(*recordings, rows=(published(subjects[1], start_s=start_s),))
    segments = [plan.events[0].segments[0], *(event.segments[1] for event in plan.events)]
    assert len(segments) == len(recordings)
    assert all(before.end_ns < after.start_ns for before, after in pairwise(segments))
    assert len({entry.timeline_id for entry in plan.playlist}) == 1
