"""*Energy per operation*: by algorithm, with the 95 % interval of every figure. Pure."""

from opjoule.dashboards.annotations import trains
from opjoule.dashboards.parts import MERGE, WITHOUT_TIME, Json, bars, dashboard, lines, override, table, target
from opjoule.dashboards.queries import (
    CRYPTO_VALID,
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
from opjoule.dashboards.variables import algorithm, board, one, one_site, quality, variant

_KEYS = (
    Column("site", "site"),
    Column("dut", "dut"),
    Column("model", "model"),
    Column("arch", "arch"),
    Column("parameter_set", "parameter_set"),
    Column("operation", "operation"),
    Column("variant", "variant"),
    Column("backend", "backend"),
    Column("category", "category"),
    Column("bits", "bits"),
    Column("openssl", "openssl"),
    Column("meter", "meter"),
)
"""All that distinguishes two figures, as columns; grouped by, so nothing unlike is averaged."""
_LAST_NET = (
    Column("net_j_per_op", "last net J/op", "last"),
    Column("u95_j_per_op", "± U95"),
    Column("s_per_op", "time/op"),
    Column("repetitions", "repetitions"),
    Column("quality", "quality"),
    Column("meter_kind", POWER_IS),
)
_MEANS = (
    Column("net_j_per_op", "mean net J/op", "mean"),
    Column("u95_j_per_op", "mean ± U95 of one train", "mean"),
    Column("net_j_per_op", "spread of trains (sd)", "stddev"),
    Column("net_j_per_op", "trains", "count"),
    Column("simulated", SIMULATED, "max"),
)
_LAST_CRYPTO = (
    Column("crypto_j_per_op", "last crypto J/op", "last"),
    Column("crypto_u95_j_per_op", "± U95"),
    Column("quality", "quality"),
    Column("meter_kind", POWER_IS),
)
_WHICH = chosen("site", "board", "algorithm", "operation", "variant", "backend", "quality")
_X = "parameter_set"


def energy() -> Json:
    """The dashboard."""
    return dashboard(
        "opjoule-energy",
        "Energy per operation",
        "What one operation costs in joules, by algorithm and board, with the 95 % interval of every figure. Figures"
        " are set against each other in *Compare*.",
        "now-7d",
        [
            one_site(),
            board(),
            algorithm(),
            one("operation", "operation", "what ran", first="keygen"),
            variant(),
            one("backend", "backend", "cli: one process per operation; lib: inside one process", first="cli"),
            quality(),
        ],
        annotations=trains(),
        panels=[_net_bars(), _crypto_bars(), _last_net(), _last_crypto(), _means(), _trend(), _sham_trend()],
    )


def _interval(prefix: str, mean: str, low: str, high: str) -> list[Column]:
    return [Column(low, f"{prefix}low"), Column(mean, f"{prefix}mean", "last"), Column(high, f"{prefix}high")]


def _net_bars() -> Json:
    return _bars(
        "$operation on $board: net energy per operation",
        "The last train of each parameter set, with whatever OpenSSL it ran: mean, and the ends low and high of its"
        " 95 % interval. Net: as a user of the command pays, process start included.",
        "net_j_per_op",
        ("low_j_per_op", "high_j_per_op"),
        VALID,
    )


def _crypto_bars() -> Json:
    return _bars(
        "$operation on $board: crypto energy per operation",
        "The last train of each parameter set, minus its null train: the cryptography alone. The half-width of the"
        " 95 % interval stands beside the mean.",
        "crypto_j_per_op",
        ("crypto_u95_j_per_op",),
        f"{VALID} AND {CRYPTO_VALID}",
    )


def _bars(title: str, description: str, mean: str, limits: tuple[str, ...], condition: str) -> Json:
    targets, overrides = [], []
    for ref_id, prefix, power in (("A", "", REAL_POWER), ("B", f"{SIMULATED} ", SIMULATED_POWER)):
        columns = _interval(prefix, mean, *limits) if len(limits) == 2 else _beside(prefix, mean, limits[0])
        query = select(columns, "operation_energy", [condition, power, NOT_SHAM, _WHICH], [_X])
        targets.append(target(ref_id, query))
        overrides += [override(column.name, {"unit": column.unit}) for column in columns]
    return bars(
        title,
        f"{description} Logarithmic: an end at or below zero is not drawn; that energy cannot be told from zero. Bars"
        f" named {SIMULATED} come from no meter.",
        targets,
        _X,
        "joule",
        (12, 10),
        overrides=overrides,
        transformations=[WITHOUT_TIME, MERGE],
        repeat="board",
    )


def _beside(prefix: str, mean: str, u95: str) -> list[Column]:
    return [Column(mean, f"{prefix}mean", "last"), Column(u95, f"{prefix}U95")]


def _last_net() -> Json:
    return _grouped(
        "Net energy per operation, last train",
        "The last train of each kind: net energy ± U95, Student's t. Nothing is averaged here.",
        _LAST_NET,
        [VALID, NOT_SHAM, _WHICH],
    )


def _last_crypto() -> Json:
    return _grouped(
        "Crypto energy per operation, last train",
        "Net energy minus that of the nearest null train of the same run and backend, which starts the same processes"
        " and reads the same files, ± U95.",
        _LAST_CRYPTO,
        [VALID, CRYPTO_VALID, NOT_SHAM, _WHICH],
    )


def _means() -> Json:
    return _grouped(
        "Net energy per operation, all trains in the time range",
        "Mean over trains. Beside it how well one train knows its own figure (mean of the trains' U95), and the"
        " standard deviation between trains: where that is larger than half of U95 the board drifts. The interval of"
        f" the pooled mean itself is in `pooled_energy`. {SIMULATED} trains, measured by no meter, have own rows.",
        _MEANS,
        [VALID, NOT_SHAM, _WHICH],
        apart=True,
    )


def _grouped(
    title: str, description: str, figures: tuple[Column, ...], where: list[str], *, apart: bool = False
) -> Json:
    """A row for each kind of train; `apart`: measured and SIMULATED trains of a kind have a row each."""
    tags = [key.field for key in _KEYS]
    powers = [[REAL_POWER], [SIMULATED_POWER]] if apart else [[]]
    queries = [select(figures, "operation_energy", [*where, *power], tags) for power in powers]
    return table(
        title,
        description,
        [target(ref_id, query) for ref_id, query in zip("AB", queries, strict=False)],
        (*_KEYS, *figures),
        (24, 9),
        [MERGE] if apart else (),
        simulated=(SIMULATED,) if apart else (),
    )


def _trend() -> Json:
    return _over_time(
        "Net energy per operation over time",
        "Mean of the trains in each step of the time axis, one series for each parameter set, board with its model and"
        " system, backend, variant, OpenSSL and meter. A step up that stays is worth a look in *Compare*.",
        Column("net_j_per_op", "mean", "mean"),
        NOT_SHAM,
        ("site", "dut", "model", "arch", "bits", "parameter_set", "variant", "backend", "openssl", "meter"),
        "$tag_parameter_set $tag_variant $tag_backend, $tag_site $tag_dut ($tag_model, $tag_arch, $tag_bits bit),"
        " OpenSSL $tag_openssl, $tag_meter",
        _WHICH,
    )


def _sham_trend() -> Json:
    return _over_time(
        "Sham trains over time: error of the method",
        "Mean net power of trains in which nothing ran: truly zero. A board that stays on one side of zero has an"
        " error that its other figures have too.",
        Column("net_power_w", "mean", "mean"),
        SHAM,
        ("site", "dut", "meter"),
        "$tag_site $tag_dut, $tag_meter",
        chosen("site", "board", "quality"),
    )


def _over_time(
    title: str, description: str, column: Column, kind: str, tags: tuple[str, ...], alias: str, which: str
) -> Json:
    targets = []
    for ref_id, prefix, power in (("A", "", REAL_POWER), ("B", f"{SIMULATED} ", SIMULATED_POWER)):
        query = select([column], "operation_energy", [VALID, power, kind, which], tags, "$__interval")
        targets.append(target(ref_id, query, "time_series", prefix + alias))
    return lines(
        title, description, targets, column.unit, (12, 9), custom={"drawStyle": "points", "showPoints": "always"}
    )
