"""InfluxQL for panels: columns with their units, and the conditions that every query of a kind must have. Pure.

A point keeps fields that a later revision no longer writes, so an energy counts only where `valid` is 1, and a crypto
energy only where `crypto_valid` is 1. A figure is never averaged over trains that differ in a tag: a panel groups by
all of them, or shows the last train with that train's own uncertainty.
"""

from collections.abc import Sequence
from dataclasses import dataclass

VALID = '"valid" = 1'
CRYPTO_VALID = '"crypto_valid" = 1'
SHAM = "\"operation\" = 'sham'"
NOT_SHAM = "\"operation\" != 'sham'"
REAL_POWER = '"simulated" = 0'
SIMULATED_POWER = '"simulated" = 1'
SIMULATED = "SIMULATED"
"""The word that stands beside every figure that no meter measured."""
POWER_IS = "power is"
"""Column that says measured, recorded or SIMULATED."""

TAG_OF = {"board": "dut"}
"""Variables that are named otherwise than their tag."""

_UNITS = {
    "_per_s": "cps",
    "_j_per_op": "joule",
    "_j": "joule",
    "_w": "watt",
    "_s": "s",
    "_c": "celsius",
}
_TAGS = (
    *("site", "dut", "meter", "model", "arch", "bits", "algorithm", "parameter_set", "operation", "variant"),
    *("backend", "category", "openssl", "service", "instance", "numerator", "denominator"),
)
_TEXTS = frozenset([*_TAGS, "quality", "flags", "meter_kind", "event_id", "run_id", "detail", "verdict"])


@dataclass(frozen=True, slots=True)
class Column:
    """A field or tag as a column: `function(field) AS name`."""

    field: str
    name: str
    function: str = ""

    @property
    def unit(self) -> str:
        """Grafana's name of the unit that the field's name says."""
        return "none" if self.function == "count" else unit_of(self.field)

    def __str__(self) -> str:
        source = f'"{self.field}"'
        return f'{self.function}({source}) AS "{self.name}"' if self.function else f'{source} AS "{self.name}"'


def unit_of(field: str) -> str:
    """Grafana's name of the unit in the name of a field: `joule` of `net_j_per_op`."""
    if field in _TEXTS:
        return "string"
    return next((unit for ending, unit in _UNITS.items() if field.endswith(ending)), "none")


def chosen(*variables: str) -> str:
    """What the dashboard's variables allow, as a condition."""
    return " AND ".join(f'"{TAG_OF.get(name, name)}" =~ /^${{{name}:regex}}$/' for name in variables)


def select(
    columns: Sequence[Column],
    measurement: str,
    where: Sequence[str],
    group_by: Sequence[str] = (),
    interval: str = "",
    limit: int = 0,
    times: str = "$timeFilter",
) -> str:
    """A query in `times`, the dashboard's time range; with `limit` the newest rows, with `interval` one row in each."""
    conditions = " AND ".join([*where, times])
    text = f'SELECT {", ".join(map(str, columns))} FROM "{measurement}" WHERE {conditions}'
    groups = [*([f"time({interval})"] if interval else []), *(f'"{tag}"' for tag in group_by)]
    text += f" GROUP BY {', '.join(groups)}" if groups else ""
    text += " fill(null)" if interval else ""
    return text + (f" ORDER BY time DESC LIMIT {limit}" if limit else "")
