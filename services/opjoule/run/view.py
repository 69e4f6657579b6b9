"""How `opjoule run` shows times, and what failed or was left out. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from opjoule.figures import null_name
from opjoule.run.rows import Row
from runner.job import Job
from schemas import Skipped

DASH = "–"
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def timing_table(rows: Sequence[Row], title: str = "") -> Table:
    """One row per operation that was timed, in 80 columns; its variant below where only that tells it from another."""
    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    made.add_column("operation", overflow="fold")
    made.add_column("parameter set", overflow="fold")
    made.add_column("by")
    for name in ("reps", "mean", "sd", "median", "p95"):
        made.add_column(name, justify="right", no_wrap=name != "reps")
    several = Counter(_key(row) for row in rows)
    for row in rows:
        made.add_row(*map(escape, _cells(row, several[_key(row)] > 1)), style="bold red" if row.failed else None)
    return made


def failures(rows: Iterable[Row]) -> list[str]:
    """One line for each operation that failed, or succeeded in part only."""
    return [
        f"FAILED: {name_of(row)}: {row.failed} of {row.failed + (row.times.count if row.times else 0)} repetitions: "
        f"{row.first_error}"
        for row in rows
        if row.failed
    ]


LeftOut = tuple[str, str]
"""What cannot be done, and why in one line."""


def left_out_of(skipped: Iterable[Skipped]) -> list[LeftOut]:
    """What a plan leaves out."""
    return [(f"{each.operation} {each.parameter_set}", each.reason) for each in skipped]


def left_out_lines(left_out: Iterable[LeftOut]) -> list[str]:
    """One line for each reason, with all that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out:
        by_reason.setdefault(reason, []).append(name)
    return [f"left out: {', '.join(dict.fromkeys(names))}: {reason}" for reason, names in by_reason.items()]


def name_of(row: Row) -> str:
    """`sign ML-DSA-65 by lib`."""
    return f"{row.operation} {subject_of(row.operation, row.parameter_set, row.variant)} by {row.backend}"


def job_name(job: Job) -> str:
    """`keygen ML-KEM-768 private by lib`; what a null train does in words."""
    if job.operation == "null":
        return f"null {null_name(job.null_variant)}{' by lib' if job.backend == 'lib' else ''}"
    return str(job)


def subject_of(operation: str, parameter_set: str, variant: str) -> str:
    """The parameter set; of null what its loop does."""
    return null_name(variant) if operation == "null" else parameter_set


def _key(row: Row) -> tuple[str, str, str]:
    return row.operation, row.parameter_set, row.backend


def _cells(row: Row, with_variant: bool) -> tuple[str, ...]:
    times = row.times
    count = times.count if times else 0
    subject = subject_of(row.operation, row.parameter_set, row.variant)
    if with_variant and row.variant and row.operation != "null":
        subject = "\n ".join((subject, *row.variant.replace("certificate=", "").split(",")))
    figures = (times.mean_s, times.sd_s, times.median_s, times.p95_s) if times else (None,) * 4
    return (
        row.operation,
        subject,
        row.backend,
        f"{count} of {count + row.failed}" if row.failed else str(count),
        *(short_time(each) for each in figures),
    )


def short_time(seconds: float | None) -> str:
    """`12.3 ms`: three digits."""
    if seconds is None:
        return DASH
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if seconds >= scale), _UNITS[-1])
    return f"{f'{seconds / scale:#.3g}'.rstrip('.')} {unit}"


def duration(seconds: float) -> str:
    """`12 s`, `3 min 05 s`, `2 h 10 min`, `4 d 6 h`."""
    whole = round(seconds)
    for unit_s, unit, part_s, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            return f"{whole // unit_s} {unit} {whole % unit_s // part_s:02d} {part}"
    return f"{whole} s"
