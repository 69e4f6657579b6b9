"""`opjoule results`: the last revisions in the journal, as a table, CSV or JSON, beside a running aggregator too."""

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from aggregator.journal import Journal
from aggregator.journal_tables import ResultFilter
from aggregator.pooling import pooled_results
from errors import SettingsError
from opjoule.figures import headline, quality, subject, with_u95
from opjoule.places import journal_file
from opjoule.printing import print_table
from opjoule.results_pooled import write_pooled
from schemas import EnergyResult, Operation, Quality, slug
from schemas.operations import Backend

SUMMARY = "What the journal holds: the last revision of every result."

COLUMNS = (
    "start_time",
    "site",
    "dut",
    "operation",
    "parameter_set",
    "variant",
    "procedure",
    "backend",
    "quality",
    "simulated",
    "net_j_per_op",
    "u_j_per_op",
    "u95_j_per_op",
    "dof",
    "crypto_j_per_op",
    "crypto_u95_j_per_op",
    "net_power_w",
    "u95_power_w",
    "baseline_w",
    "load_w",
    "load_s",
    "repetitions",
    "repetitions_failed",
    "samples",
    "new_values",
    "missing_s",
    "counter_j",
    "counter_u_j",
    "counter_integral_j",
    "counter_span_s",
    "gross_j",
    "s_per_op",
    "cpu_time_s",
    "peak_memory_bytes",
    "output_bytes",
    "client_bytes",
    "server_bytes",
    "client_cpu_s",
    "server_cpu_s",
    "tcp_segments",
    "meter",
    "meter_model",
    "flags",
    "event_id",
    "run_id",
    "revision",
)
"""Columns of CSV and keys of JSON; the unit is in the name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule results`."""
    parser.add_argument(
        "--journal",
        type=Path,
        help="journal file [OPJOULE_JOURNAL; default: journal.sqlite in the state directory, OPJOULE_STATE_DIR]",
    )
    parser.add_argument("--board", help="only this DUT")
    parser.add_argument("--site", help="only this site")
    parser.add_argument("--operation", choices=get_args(Operation), help="only this operation")
    parser.add_argument("--parameter-set", help="only this parameter set, e.g. ML-KEM-768")
    parser.add_argument("--backend", choices=get_args(Backend), help="only this backend")
    parser.add_argument("--quality", choices=get_args(Quality), help="only this quality")
    parser.add_argument("--run", help="only this run_id")
    parser.add_argument("--pooled", action="store_true", help="means over the trains that match, kind by kind")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="[default: table]")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for; exit status 0 also where nothing matches, 1 where a row could not be read."""
    journal = Journal(journal_file(args.journal), read_only=True)
    skipped: list[SettingsError] = []
    try:
        wanted = ResultFilter(
            site=args.site,
            dut=args.board and args.board.casefold(),
            run_id=args.run,
            operation=args.operation,
            backend=args.backend,
            quality=args.quality,
        )
        results = journal.results.find(wanted, unreadable=skipped.append)
        found = [each for each in results if _is_set(each, args.parameter_set)]
    finally:
        journal.close()
    if args.pooled:
        write_pooled(pooled_results(found), args.format, None if sys.stdout.isatty() else WIDE_FILE)
    else:
        _WRITERS[args.format](found)
    for error, count in Counter(map(str, skipped)).items():
        print(f"opjoule results: skipped {count} result{'s' * (count != 1)}: {error}", file=sys.stderr)
    return 1 if skipped else 0


def _is_set(result: EnergyResult, wanted: str | None) -> bool:
    return wanted is None or slug(result.parameter_set) == slug(wanted)


def row(result: EnergyResult) -> dict[str, object]:
    """A result as one flat row, None where it has no such figure."""
    net, crypto, power = result.net_j_per_op, result.crypto_j_per_op, result.net_power_w
    shake, counter = result.handshake, result.counter
    figures: dict[str, object] = {
        "net_j_per_op": net.value if net else None,
        "u_j_per_op": net.u if net else None,
        "u95_j_per_op": net.u95 if net else None,
        "dof": net.dof if net else None,
        "crypto_j_per_op": crypto.value if crypto else None,
        "crypto_u95_j_per_op": crypto.u95 if crypto else None,
        "net_power_w": power.value if power else None,
        "u95_power_w": power.u95 if power else None,
        "counter_j": counter.counter_j.value if counter else None,
        "counter_u_j": counter.counter_j.u if counter else None,
        "counter_integral_j": counter.integral_j.value if counter and counter.integral_j else None,
        "counter_span_s": counter.span_s if counter else None,
        "s_per_op": result.time_per_repetition.mean_s if result.time_per_repetition else None,
        "output_bytes": _counts(result.output_bytes),
        "client_bytes": shake.client_bytes if shake else None,
        "server_bytes": shake.server_bytes if shake else None,
        "client_cpu_s": shake.client_cpu_s if shake else None,
        "server_cpu_s": shake.server_cpu_s if shake else None,
        "tcp_segments": _counts(shake.segments) if shake else None,
        "flags": " ".join(result.flags),
        "event_id": str(result.event_id),
    }
    return {name: figures[name] if name in figures else getattr(result, name) for name in COLUMNS}


def _counts(counts: Mapping[str, int]) -> str:
    return " ".join(f"{name}={count}" for name, count in sorted(counts.items()))


def table(results: Iterable[EnergyResult], title: str = "", width: int = 80) -> Table:
    """Results for a terminal; the crypto energy needs a wide one, a narrow one has operation and set in one column."""
    made = Table(
        title=title or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=width >= WIDE,  # its blanks are the two columns that 80 do not have
        pad_edge=False,
        padding=(0, 1 if width >= WIDE else 0, 0, 0),
    )
    shown = [column for column in _TABLE_COLUMNS if column.least <= width < column.most]
    for column in shown:
        made.add_column(
            column.name, justify=column.justify, overflow="fold", no_wrap=column.whole, min_width=column.min_width
        )
    for result in results:
        texts = cells(result)
        made.add_row(*(escape(texts[column.key or column.name]) for column in shown))
    return made


WIDE = 110
"""Columns from which the crypto energy has room."""
NARROW = 80
"""Columns below which operation and parameter set share one."""
WIDE_FILE = 200
"""Columns where the output is not a terminal."""
WIDE_LEAST = 48
"""A narrower terminal breaks the lines itself; narrower columns would cut the word SIMULATED."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table, shown in terminals of [least, most) columns; `key` is its cell where not its name."""

    name: str
    justify: JustifyMethod = "left"
    least: int = 0
    most: int = sys.maxsize
    key: str = ""
    whole: bool = False
    min_width: int | None = None


_TABLE_COLUMNS = (
    _Column("board"),
    _Column("operation", most=NARROW, key="subject"),
    _Column("operation", least=NARROW),
    _Column("parameter set", least=NARROW, min_width=len("SLH-DSA-SHA2-128f")),
    _Column("by", least=NARROW, key="backend"),
    _Column("net/op ± U95", "right", whole=True),
    _Column("crypto/op ± U95", "right", least=WIDE),
    _Column("reps", "right", least=NARROW),
    _Column("quality", most=NARROW, min_width=len("SIMULATED")),
    _Column("quality", least=NARROW, min_width=len("good SIMULATED")),
)


def cells(result: EnergyResult) -> dict[str, str]:
    """The texts of one row. A flag that only repeats the quality column is left out."""
    flags = [flag for flag in result.flags if flag != "simulated"]
    name = subject(result)
    return {
        "board": result.dut,
        "operation": result.operation,
        "parameter set": name,
        "backend": result.backend,
        "subject": f"{result.operation} {name} by {result.backend}",
        "net/op ± U95": headline(result),
        "crypto/op ± U95": with_u95(result.crypto_j_per_op),
        "reps": str(result.repetitions),
        "quality": " ".join([quality(result), *([f"({', '.join(flags)})"] if flags else [])]),
    }


def _print_table(results: Sequence[EnergyResult]) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDE_FILE)
    console.width = max(console.width, WIDE_LEAST)
    print_table(console, table(results, width=console.width) if results else "no results match")


def _print_csv(results: Sequence[EnergyResult]) -> None:
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row(result) for result in results)


def _print_json(results: Sequence[EnergyResult]) -> None:
    json.dump([row(result) for result in results], sys.stdout, indent=1)
    print()


_WRITERS = {"table": _print_table, "csv": _print_csv, "json": _print_json}
