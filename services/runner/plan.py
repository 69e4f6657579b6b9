"""What to run: a plan's name or its items become jobs. Pure.

A plan is `demo`, `all`, or a comma list of `operation:parameter set`, `null:processes` and `sham`.
"""

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from errors import SettingsError
from schemas import CATALOGUE, Operation, Skipped

NOTHING = "none"
"""The parameter set of null and sham trains."""
MOST_PROCESSES = 9

DEMO = (
    "sham",
    "null:1",
    "null:2",
    "keygen:ML-KEM-768",
    "keygen:X25519",
    "sign:ML-DSA-65",
    "sign:ECDSA-P-256",
    "sign:SLH-DSA-SHA2-128f",
)
"""Eight trains: what replaces elliptic curves beside elliptic curves, and what shows the method's own error."""
KEY_OPERATIONS: tuple[Operation, ...] = ("keygen", "sign", "verify")


@dataclass(frozen=True, slots=True)
class Job:
    """One train to run. `processes` is what a null train starts per repetition."""

    operation: Operation
    parameter_set: str = NOTHING
    processes: int = 0

    def __str__(self) -> str:
        if self.operation == "null":
            return f"null with {self.processes} process{'es' if self.processes > 1 else ''}"
        return self.operation if self.parameter_set == NOTHING else f"{self.operation} {self.parameter_set}"


def parse_plan(text: str) -> tuple[Job, ...]:
    """The jobs of a plan. Raises SettingsError with the nearest known name."""
    items = {"demo": DEMO, "all": _everything()}.get(text.strip().lower())
    if items is None:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
    if not items:
        raise SettingsError(
            "--plan (OPJOULE_PLAN) is empty: name demo, all, or items such as keygen:ML-KEM-768,null:2,sham"
        )
    return tuple(_job(item) for item in items)


def split_offered(
    jobs: Iterable[Job], offered: Collection[str], version: str
) -> tuple[tuple[Job, ...], tuple[Skipped, ...]]:
    """The jobs that can run with these parameter sets, and the rest with the reason."""
    known = {NOTHING, *offered}
    jobs = tuple(jobs)
    skipped = tuple(
        _skipped(job.operation, job.parameter_set, version) for job in jobs if job.parameter_set not in known
    )
    return tuple(job for job in jobs if job.parameter_set in known), skipped


def skipped_of_catalogue(offered: Collection[str], version: str) -> tuple[Skipped, ...]:
    """All that the runner could do with an OpenSSL that has more."""
    return tuple(
        _skipped(operation, name, version)
        for name, each in CATALOGUE.items()
        if name not in offered
        for operation in KEY_OPERATIONS
        if operation in each.operations
    )


def _skipped(operation: Operation, parameter_set: str, version: str) -> Skipped:
    return Skipped(operation=operation, parameter_set=parameter_set, reason=f"OpenSSL {version} lacks {parameter_set}")


def _everything() -> tuple[str, ...]:
    pairs = (
        f"{operation}:{name}"
        for name, each in CATALOGUE.items()
        for operation in KEY_OPERATIONS
        if operation in each.operations
    )
    return ("sham", "null:1", "null:2", *pairs)


def _job(item: str) -> Job:
    operation, _, rest = item.partition(":")
    match operation.lower():
        case "sham" if not rest:
            return Job("sham")
        case "null":
            return Job("null", processes=_processes(item, rest or "1"))
        case "keygen" | "sign" | "verify" as known:
            return Job(known, _parameter_set(known, rest))
    raise SettingsError(
        f"the plan has {item!r}: {_nearest(operation, [*KEY_OPERATIONS, 'null', 'sham', 'demo', 'all'])}"
    )


def _processes(item: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_PROCESSES:
        raise SettingsError(
            f"the plan has {item!r}: a null train starts 1 to {MOST_PROCESSES} processes per repetition"
        )
    return int(text)


def _parameter_set(operation: Operation, text: str) -> str:
    by_lower = {name.lower(): name for name in CATALOGUE}
    name = by_lower.get(text.lower())
    if name is None:
        raise SettingsError(f"the plan has {operation}:{text}: {_nearest(text, list(CATALOGUE))}")
    if operation not in CATALOGUE[name].operations:
        can = ", ".join(each for each in CATALOGUE[name].operations if each in KEY_OPERATIONS)
        raise SettingsError(f"the plan has {operation}:{name}: {name} has no {operation} (it has {can})")
    return name


def _nearest(word: str, known: list[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.4)
    return f"did you mean {by_lower[close[0]]}?" if close else f"known are {', '.join(known)}"
