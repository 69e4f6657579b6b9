"""What was measured as rows of a table that has the published study's columns first. Pure."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from opjoule.run.words import algorithm_of, words_of
from schemas import EnergyResult, Operation, TimeStatistics

STUDY_COLUMNS = (
    "machine",
    "method",
    "submethod",
    "algorithm",
    "iterations",
    "start time (unix)",
    "stop time (unix)",
    "total time",
    "time per iteration",
    "baseline power",
    "on-load power",
    "total power used",
    "joules per iteration",
    "iterations per joule",
)
"""Times in s, powers in W. `total power used` is load minus baseline."""
OWN_COLUMNS = (
    "backend",
    "variant",
    "verified",
    "failed",
    "first_error",
    "sd_s",
    "median_s",
    "p95_s",
    "null_s",
    "openssl",
    "u95_j",
    "crypto_j",
    "crypto_u95_j",
    "quality",
    "flags",
    "simulated",
    "meter",
)
COLUMNS = STUDY_COLUMNS + OWN_COLUMNS


@dataclass(frozen=True, slots=True)
class Row:
    """One operation that was measured, by time alone or, with a `result`, by its energy too.

    `verified` says whether outputs and check were as they should be; `null_s` is the mean time of the null loop.
    """

    machine: str
    operation: Operation
    parameter_set: str
    variant: str
    backend: str
    start_ns: int
    stop_ns: int
    times: TimeStatistics | None
    failed: int
    first_error: str
    openssl: str
    null_variant: str = ""
    null_s: float | None = None
    result: EnergyResult | None = None

    @property
    def verified(self) -> bool:
        """Whether there were repetitions and none failed."""
        return self.times is not None and self.failed == 0

    @property
    def is_nothing(self) -> bool:
        """Whether it is a null or a sham train, which no study has a row for."""
        return self.operation in ("null", "sham")


def cells(row: Row) -> dict[str, object]:
    """One line of the CSV; None where there is no such figure."""
    method, submethod = words_of(row.operation)
    times = row.times
    count = times.count if times is not None else 0
    figures: dict[str, object] = {
        "machine": row.machine,
        "method": method,
        "submethod": submethod,
        "algorithm": algorithm_of(row.parameter_set),
        "iterations": count,
        "start time (unix)": row.start_ns // 10**9,
        "stop time (unix)": row.stop_ns // 10**9,
        "total time": times.mean_s * count if times else None,
        "time per iteration": times.mean_s if times else None,
        "backend": row.backend,
        "variant": row.variant,
        "verified": "yes" if row.verified else "no",
        "failed": row.failed,
        "first_error": row.first_error or None,
        "sd_s": times.sd_s if times else None,
        "median_s": times.median_s if times else None,
        "p95_s": times.p95_s if times else None,
        "null_s": row.null_s,
        "openssl": row.openssl,
    }
    return figures | (_energy(row.result) if row.result is not None else {})


def _energy(result: EnergyResult) -> dict[str, object]:
    net, crypto = result.net_j_per_op, result.crypto_j_per_op
    said: dict[str, object] = {
        "quality": result.quality,
        "flags": " ".join(result.flags),
        "simulated": "yes" if result.simulated else "no",
        "meter": result.meter,
    }
    if net is None or result.baseline_w is None or result.load_w is None:
        return said
    return said | {
        "baseline power": result.baseline_w,
        "on-load power": result.load_w,
        "total power used": result.load_w - result.baseline_w,
        "joules per iteration": net.value,
        "iterations per joule": 1 / net.value if net.value > 0 else None,
        "u95_j": net.u95,
        "crypto_j": crypto.value if crypto else None,
        "crypto_u95_j": crypto.u95 if crypto else None,
    }


def with_null(rows: Sequence[Row]) -> list[Row]:
    """The rows without null and sham, each with the time of the last null row of its kind, where there is one."""
    null_s = {
        (row.machine, row.backend, row.variant): row.times.mean_s
        for row in rows
        if row.operation == "null" and row.times is not None
    }
    return [
        replace(row, null_s=null_s.get((row.machine, row.backend, row.null_variant)))
        for row in rows
        if not row.is_nothing
    ]


def text_of(rows: Sequence[Row]) -> str:
    """The CSV, header first; null and sham rows only as `null_s` of the others."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells(row) for row in with_null(rows))
    return out.getvalue()
