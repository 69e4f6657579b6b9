"""The recordings in a folder: what each is of, whether it can be read."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from errors import ContractError
from meter.sources.recording import read_recording
from opjoule.study.names import Subject, subject_of

SUFFIXES = (".cfn", ".csv")
"""In order of preference: the CSV was made from the .cfn and has lost digits."""


@dataclass(frozen=True, slots=True)
class StudyRecording:
    """A recording that can be read. Its first sample is at 0 s, its last at `last_s`."""

    path: Path
    subject: Subject
    digest: str
    period_ns: int
    last_s: float
    samples: int
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A recording that cannot be used, and why."""

    path: Path
    subject: Subject | None
    reason: str


def read_folder(folder: Path, leave_out: Iterable[Path]) -> tuple[dict[Subject, StudyRecording], list[Unreadable]]:
    """Every recording below the folder by what it is of, and those that cannot be used.

    A CSV file beside a .cfn file of the same name is its copy and is read only where the .cfn cannot be. Raises
    ContractError for a folder that is not there or has no recording.
    """
    if not folder.is_dir():
        raise ContractError(f"{folder}: there is no such folder")
    others = {path.resolve() for path in leave_out}
    paths = sorted(p for p in folder.rglob("*") if p.suffix.casefold() in SUFFIXES and p.resolve() not in others)
    good: dict[Subject, StudyRecording] = {}
    bad: list[Unreadable] = []
    for path in sorted(paths, key=lambda path: (SUFFIXES.index(path.suffix.casefold()), path)):
        read = _read(path, folder)
        if isinstance(read, StudyRecording):
            good.setdefault(read.subject, read)
        elif read is not None:
            bad.append(read)
    if not good and not bad:
        raise ContractError(f"{folder}: no recordings (.cfn or .csv) in it")
    return good, [each for each in bad if each.subject is None or each.subject not in good]


def _read(path: Path, folder: Path) -> StudyRecording | Unreadable | None:
    """The recording; None for a CSV file whose name does not even claim to be one."""
    subject = subject_of(path.relative_to(folder.parent))
    if subject is None:
        reason = "the file name does not tell board, operation and parameter set (like 09_pi1_keys_ml-dsa-44.cfn)"
        return Unreadable(path, None, reason) if path.suffix.casefold() == ".cfn" else None
    try:
        recording = read_recording(path)
    except ContractError as error:
        return Unreadable(path, subject, str(error).removeprefix(f"{path}: "))
    if "truncated" in recording.flags:
        return Unreadable(path, subject, f"truncated after {len(recording.t_s)} rows; copy the file again")
    return StudyRecording(
        path=path,
        subject=subject,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        period_ns=recording.period_ns,
        last_s=recording.t_s[-1] - recording.t_s[0],
        samples=len(recording.t_s),
        remarks=recording.flags,
    )
