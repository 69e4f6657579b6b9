"""The recordings in a folder: what each is of, whether it can be read."""

import hashlib
import itertools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from errors import ContractError
from meter.protocols.recording import Recording, RecordingFlag
from meter.ranges import USB_METER
from meter.sources.recording import read_recording
from opjoule.study.names import Subject, subject_of

SUFFIXES = (".cfn", ".csv")
"""In order of preference: the CSV was made from the .cfn and has lost digits."""
LONGEST_S = 30 * 86_400.0
"""Longer is a damaged time; all recordings of a board must find place on one timeline."""

SAID: dict[RecordingFlag, str] = {
    "min_max_differs": "stored minimum or maximum differs from the data",
    "extra_bytes": "extra bytes after the data",
    "time_not_nominal": "times that are not row / rate",
}
AGAIN = "; copy the file again"
DAMAGE: tuple[RecordingFlag, ...] = ("min_max_differs", "extra_bytes")

MOST_PERIODS = 2.0
"""Of the idle recording, from sample to sample: the aggregator takes 2.5 for a gap."""


@dataclass(frozen=True, slots=True)
class StudyRecording:
    """A recording that can be read. Its first row is at 0 s, its last usable sample at `last_s`."""

    path: Path
    subject: Subject
    digest: str
    period_ns: int
    last_s: float
    samples: int
    remarks: tuple[str, ...]
    damage: str = ""
    """Why its figures blame nobody: what shows that this copy is corrupt, be it whole in other ways."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A recording that cannot be used, and why."""

    path: Path
    subject: Subject | None
    reason: str


def read_folder(folder: Path, leave_out: Iterable[Path]) -> tuple[dict[Subject, StudyRecording], list[Unreadable]]:
    """Every recording below the folder by what it is of, and those that cannot be used.

    A CSV file of what a .cfn file is of is its copy and is used only where the .cfn cannot be. Raises ContractError for
    a folder that is not there or has no recording.
    """
    _refuse_missing(folder)
    others = {path.resolve() for path in leave_out}
    paths = sorted(p for p in folder.rglob("*") if p.suffix.casefold() in SUFFIXES and p.resolve() not in others)
    good: dict[Subject, StudyRecording] = {}
    bad: list[Unreadable] = []
    for path in sorted(paths, key=lambda path: (SUFFIXES.index(path.suffix.casefold()), path)):
        read = _read(path, folder)
        if isinstance(read, StudyRecording):
            good[read.subject] = _first(good.get(read.subject), read)
        elif read is not None:
            bad.append(read)
    if not good and not bad:
        raise ContractError(f"{folder}: no recordings (.cfn or .csv) in it")
    bad += [each for recording in good.values() if (each := _too_slow(recording, good.get(recording.subject.idle)))]
    slow = {each.path for each in bad}
    good = {subject: recording for subject, recording in good.items() if recording.path not in slow}
    return good, [each for each in bad if each.subject is None or each.subject not in good]


def _too_slow(recording: StudyRecording, idle: StudyRecording | None) -> Unreadable | None:
    """All recordings of a board are one stream of its meter: its period tells what a gap is."""
    if idle is None or recording.period_ns <= MOST_PERIODS * idle.period_ns:
        return None
    reason = (
        f"{1e9 / recording.period_ns:g} samples/s, the idle recording has {1e9 / idle.period_ns:g}; record it again"
    )
    return Unreadable(recording.path, recording.subject, reason)


def _refuse_missing(folder: Path) -> None:
    try:
        there = folder.is_dir()
    except OSError as error:
        raise ContractError(f"{folder}: {error.strerror}") from None
    if not there:
        raise ContractError(f"{folder}: there is no such folder")


def _read(path: Path, folder: Path) -> StudyRecording | Unreadable | None:
    """The recording; None for a CSV file whose name does not even claim to be one."""
    subject = subject_of(PurePath(folder.resolve().name, path.relative_to(folder)))
    if subject is None:
        reason = "the file name does not tell board, operation and parameter set (like 09_pi1_keys_ml-dsa-44.cfn)"
        return Unreadable(path, None, reason) if path.suffix.casefold() == ".cfn" else None
    try:
        recording = read_recording(path)
    except ContractError as error:
        return Unreadable(path, subject, str(error).removeprefix(f"{path}: "))
    usable = [row for row in range(len(recording.t_s)) if _is_usable(recording, row)]
    reason = _what_is_wrong(recording, usable)
    if reason:
        return Unreadable(path, subject, reason)
    refused = len(recording.t_s) - len(usable)
    return StudyRecording(
        path=path,
        subject=subject,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        period_ns=recording.period_ns,
        last_s=recording.t_s[usable[-1]] - recording.t_s[0],
        samples=len(usable),
        remarks=(
            *(f"{SAID[flag]}{AGAIN * (flag in DAMAGE)}" for flag in recording.flags),
            *(
                [f"without {refused} of {len(recording.t_s)} samples: no power that a meter can measure"]
                * (refused > 0)
            ),
        ),
        damage=next((f"{SAID[flag]}{AGAIN}" for flag in DAMAGE if flag in recording.flags), ""),
    )


def _what_is_wrong(recording: Recording, usable: Sequence[int]) -> str:
    t_s = recording.t_s
    if "truncated" in recording.flags:
        return f"truncated after {len(t_s)} rows{AGAIN}"
    if not usable:
        return f"none of its {len(t_s)} samples is a power that a meter can measure"
    if any(after <= before for before, after in itertools.pairwise(t_s)):
        return "its times do not increase"
    return f"longer than {LONGEST_S:.0f} s" if t_s[-1] - t_s[0] > LONGEST_S else ""


def _is_usable(recording: Recording, row: int) -> bool:
    """Whether the meter service sends this sample on."""
    columns = (
        (recording.power_w, USB_METER.power_w),
        (recording.voltage_v, USB_METER.voltage_v),
        (recording.current_a, USB_METER.current_a),
        (recording.energy_j, (-sys.float_info.max, sys.float_info.max)),
    )
    return all(column is None or low <= column[row] <= high for column, (low, high) in columns)


def _first(first: StudyRecording | None, other: StudyRecording) -> StudyRecording:
    """The first of two recordings of the same; it remembers another one that is no copy of it."""
    if first is None:
        return other
    if first.digest == other.digest or first.path.suffix.casefold() != other.path.suffix.casefold():
        return first
    return replace(first, remarks=(*first.remarks, f"{other.path} is of the same and is not"))
