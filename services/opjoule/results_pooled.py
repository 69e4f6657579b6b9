"""`opjoule results --pooled`: the means over the trains that match, as a table, CSV or JSON."""

import csv
import json
import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from opjoule.figures import plain, with_u95
from opjoule.printing import print_table
from schemas import PooledEnergy

POOLED_COLUMNS = (
    "last_time",
    "site",
    "dut",
    "operation",
    "parameter_set",
    "variant",
    "backend",
    "openssl",
    "meter",
    "meter_model",
    "simulated",
    "trains",
    "net_j_per_op",
    "u_j_per_op",
    "u95_j_per_op",
    "dof",
    "between_trains_j",
    "flags",
)
"""Columns of CSV and keys of JSON; the unit is in the name."""


def pooled_row(pooled: PooledEnergy) -> dict[str, object]:
    """A mean as one flat row."""
    net = pooled.net_j_per_op
    figures: dict[str, object] = {
        "openssl": pooled.board.openssl if pooled.board else None,
        "net_j_per_op": net.value,
        "u_j_per_op": net.u,
        "u95_j_per_op": net.u95,
        "dof": net.dof,
        "flags": " ".join(pooled.flags),
    }
    return {name: figures[name] if name in figures else getattr(pooled, name) for name in POOLED_COLUMNS}


def write_pooled(pools: Sequence[PooledEnergy], form: str, width: int | None) -> None:
    """Print means in one of the formats; `width` in columns, None for that of the terminal."""
    rows = [pooled_row(pooled) for pooled in pools]
    if form == "csv":
        writer = csv.DictWriter(sys.stdout, POOLED_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    elif form == "json":
        print(json.dumps(rows, indent=1))
    else:
        print_table(Console(width=width), _table(pools) if pools else "no two trains that match can be pooled")


def _table(pools: Sequence[PooledEnergy]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("board", "operation", "parameter set", "variant", "backend", "OpenSSL", "meter"):
        made.add_column(name, overflow="fold")
    for name in ("mean net/op ± U95", "between trains", "trains"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("", min_width=len("SIMULATED") if any(pooled.simulated for pooled in pools) else None)
    for pooled in pools:
        made.add_row(*map(escape, _cells(pooled)))
    return made


def _cells(pooled: PooledEnergy) -> list[str]:
    flags = [flag for flag in pooled.flags if flag != "simulated"]
    return [
        pooled.dut,
        pooled.operation,
        pooled.parameter_set,
        pooled.variant,
        pooled.backend,
        pooled.board.openssl if pooled.board else "",
        pooled.meter or "",
        with_u95(pooled.net_j_per_op),
        plain(pooled.between_trains_j, digits=2),
        str(pooled.trains),
        " ".join([*(["SIMULATED"] if pooled.simulated else []), *([f"({', '.join(flags)})"] if flags else [])]),
    ]
