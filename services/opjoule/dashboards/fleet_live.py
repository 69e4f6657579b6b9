"""*Fleet live*: what every board draws, what runs on it, what came out last. Pure."""

from opjoule.dashboards.annotations import trains
from opjoule.dashboards.parts import Json, dashboard, lines, override, table, target
from opjoule.dashboards.queries import (
    NOT_SHAM,
    POWER_IS,
    REAL_POWER,
    SHAM,
    SIMULATED,
    SIMULATED_POWER,
    VALID,
    Column,
    chosen,
    select,
)
from opjoule.dashboards.variables import algorithm, board, quality, several, site

_MIN, _MEAN, _MAX = (
    Column("min_w", "min", "min"),
    Column("mean_w", "mean", "mean"),
    Column("max_w", "max", "max"),
)
_LAST_STATE = (
    Column("measuring", "measuring", "last"),
    Column("online", "online"),
    Column("detail", "what"),
)
_NO_ENERGY = ('"valid" = 0', '"quality" =~ /^(invalid|time_only)$/')
"""A point that a later revision moved or replaced is not valid either; its quality is `superseded`."""
_WHAT = (
    Column("site", "site"),
    Column("dut", "board"),
    Column("operation", "operation"),
    Column("parameter_set", "parameter set"),
    Column("variant", "variant"),
    Column("backend", "backend"),
)
_ENERGY = (
    Column("net_j_per_op", "net J/op"),
    Column("u95_j_per_op", "± U95"),
    Column("s_per_op", "time/op"),
    Column("baseline_w", "idle power"),
    Column("load_w", "load power"),
    Column("repetitions", "repetitions"),
)
_HOW = (Column("quality", "quality"), Column("meter_kind", POWER_IS), Column("flags", "flags"))
_SHAM = (
    Column("site", "site"),
    Column("dut", "board"),
    Column("net_power_w", "net power"),
    Column("u95_power_w", "± U95"),
    Column("load_s", "load time"),
    *_HOW,
)
_WHICH = chosen("site", "board", "algorithm", "operation", "variant")
_NEWEST = 50
_LAST_DAY = "time > now() - 1d"
"""A runner is silent inside a train, which may be longer than the dashboard's time range."""


def fleet_live() -> Json:
    """The dashboard."""
    return dashboard(
        "opjoule-live",
        "Fleet live",
        "Power of every board with its lowest and highest sample, what runs on it, and the last results.",
        "now-15m",
        [
            site(),
            board(),
            several("meter", "meter", "power meter; choose one where a board has two", "power"),
            algorithm(),
            several("operation", "operation", "what ran"),
            several("variant", "variant", "what else distinguishes two measurements"),
            quality(),
        ],
        refresh="10s",
        annotations=trains(),
        panels=[_power_of_all(), _what_runs(), _power_of_one(), _results(), _shams(), _without_energy()],
    )


def _power_of_all() -> Json:
    where = chosen("site", "board", "meter")
    tags = ("site", "dut", "meter")
    return lines(
        "Power of every board",
        "Mean of PBUS, the power on the USB supply line, per site, board and meter. Gaps stay gaps. Series whose"
        f" name begins with {SIMULATED} come from no meter.",
        [
            target(
                "A",
                select([_MEAN], "power", [REAL_POWER, where], tags, "$__interval"),
                "time_series",
                "$tag_site $tag_dut, $tag_meter",
            ),
            target(
                "B",
                select([_MEAN], "power", [SIMULATED_POWER, where], tags, "$__interval"),
                "time_series",
                f"{SIMULATED} $tag_site $tag_dut, $tag_meter",
            ),
        ],
        "watt",
        (16, 9),
    )


def _power_of_one() -> Json:
    where = chosen("site", "board", "meter")
    columns = [_MIN, _MEAN, _MAX]
    tags, alias = ("site", "meter"), "$tag_site $tag_meter $col"
    thin = {"custom.showPoints": "never", "custom.lineStyle": {"fill": "dot", "dash": [0, 6]}}
    return lines(
        "Power of $board",
        "PBUS of boards with this name, per site and meter: line = mean, dots = lowest and highest sample in each step"
        " of the time axis. A load segment stands out as a plateau.",
        [
            target("A", select(columns, "power", [REAL_POWER, where], tags, "$__interval"), "time_series", alias),
            target(
                "B",
                select(columns, "power", [SIMULATED_POWER, where], tags, "$__interval"),
                "time_series",
                f"{SIMULATED} {alias}",
            ),
        ],
        "watt",
        (12, 8),
        overrides=[override("/ (min|max)$/", thin, "byRegexp")],
        repeat="board",
    )


def _what_runs() -> Json:
    groups = ("site", "instance")
    where = ["\"service\" = 'runner'", chosen("site")]
    columns = (Column("site", "site"), Column("instance", "instance"), *_LAST_STATE)
    return table(
        "What runs now",
        "Last word of every runner in the last day, whatever the time range: while it measures, which train that is"
        " and its place in the plan. A runner is silent inside a train, so the time is that of its last word.",
        [target("A", select(_LAST_STATE, "fleet_health", where, groups, times=_LAST_DAY))],
        columns,
        (8, 9),
        yes_or_no=("measuring", "online"),
    )


def _results() -> Json:
    columns = (*_WHAT, *_ENERGY, *_HOW)
    return table(
        "Last results",
        "The newest trains that have an energy, net energy per operation as a user of the command pays it, with the"
        f" half-width of its 95 % interval. `{POWER_IS}` {SIMULATED}: no meter measured this figure. A null train"
        " (operation `null`) is the same loop without the cryptography.",
        [
            target(
                "A",
                select(columns, "operation_energy", [VALID, NOT_SHAM, _WHICH, chosen("quality")], limit=_NEWEST),
            )
        ],
        columns,
        (24, 10),
    )


def _shams() -> Json:
    return table(
        "Last sham trains",
        "Trains in which nothing ran: their true power is zero, so what they show is the error of the method on this"
        " board. A figure far outside its U95, again and again, is a board to look at.",
        [
            target(
                "A",
                select(_SHAM, "operation_energy", [VALID, SHAM, chosen("site", "board", "quality")], limit=_NEWEST),
            )
        ],
        _SHAM,
        (12, 9),
    )


def _without_energy() -> Json:
    columns = (*_WHAT, Column("repetitions", "repetitions"), *_HOW)
    return table(
        "Last trains without an energy",
        "Invalid trains and boards without a meter (`time_only`). The flags say why; docs/flags.md says who must act.",
        [target("A", select(columns, "operation_energy", [*_NO_ENERGY, _WHICH], limit=_NEWEST))],
        columns,
        (12, 9),
    )
