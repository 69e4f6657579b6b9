"""*Compare*: two figures side by side and their ratio. Pure.

InfluxQL cannot divide one series by another, so Grafana joins two frames and divides. It has no interval for the
quotient: that, and whether two figures can be told apart, is the aggregator's to say (measurement `comparison`).
"""

from collections.abc import Sequence

from opjoule.dashboards.parts import WITHOUT_TIME, Json, dashboard, table, target
from opjoule.dashboards.queries import NOT_SHAM, POWER_IS, SIMULATED, VALID, Column, chosen, select
from opjoule.dashboards.variables import algorithm, of_power, one, one_site, power, quality, variant

RATIO = "ratio A / B"
_NO_INTERVAL = (
    " The last train on each side with its own U95. The ratio has no interval here: whether the two can be told apart"
    " stands in *Verdicts*, never in this column."
)
_FIXED = chosen("site", "algorithm", "operation", "variant", "backend", "quality")
_COMPARISON = (
    Column("ratio", "ratio", "last"),
    Column("low", "low"),
    Column("high", "high"),
    Column("verdict", "verdict"),
    Column("simulated", SIMULATED),
)


def compare() -> Json:
    """The dashboard."""
    return dashboard(
        "opjoule-compare",
        "Compare",
        "Board against board, 32 bit against 64 bit, OpenSSL build against build, parameter set against parameter set:"
        f" at one site, and measured power or {SIMULATED} power, never one against the other.",
        "now-30d",
        _variables(),
        panels=[_verdicts(), *_sides()],
    )


def _variables() -> list[Json]:
    return [
        one_site(),
        power(),
        algorithm(),
        one("operation", "operation", "what ran", first="keygen"),
        variant(),
        one("backend", "backend", "only equal backends are compared", first="cli"),
        quality(),
        one("board_a", "board A", "left side of board against board", tag="dut"),
        one("board_b", "board B", "right side of board against board", tag="dut", last=True),
        one("model", "model", "board model whose 32 and 64 bit systems are compared"),
        one("openssl_a", "OpenSSL A", "left side of build against build, on board A", tag="openssl"),
        one("openssl_b", "OpenSSL B", "right side of build against build, on board A", tag="openssl", last=True),
        one("set_a", "set A", "left side of set against set", tag="parameter_set", first="ML-KEM-768"),
        one("set_b", "set B", "right side of set against set", tag="parameter_set", first="X25519"),
    ]


def _sides() -> list[Json]:
    a, b, board_a = _is("dut", "board_a"), _is("dut", "board_b"), _is("dut", "board_a")
    model = chosen("model")
    return [
        _side_by_side(
            "Board against board: $board_a / $board_b", "Each parameter set on two boards.", "parameter_set", a, b
        ),
        _side_by_side(
            "32 bit against 64 bit on $model",
            "Each parameter set on boards of one model: A has a 32-bit system, B a 64-bit system.",
            "parameter_set",
            f"{model} AND \"bits\" = '32'",
            f"{model} AND \"bits\" = '64'",
        ),
        _side_by_side(
            "OpenSSL $openssl_a against $openssl_b on $board_a",
            "Each parameter set on board A with two builds of OpenSSL.",
            "parameter_set",
            f"{board_a} AND {_is('openssl', 'openssl_a')}",
            f"{board_a} AND {_is('openssl', 'openssl_b')}",
        ),
        _side_by_side(
            "$set_a against $set_b",
            "Two parameter sets on every board. They answer different needs; their security categories may differ.",
            "dut",
            _is("parameter_set", "set_a"),
            _is("parameter_set", "set_b"),
        ),
    ]


def _is(tag: str, variable: str) -> str:
    return f'"{tag}" =~ /^${{{variable}:regex}}$/'


def _side_by_side(title: str, description: str, key: str, a: str, b: str) -> Json:
    left, right = _side("A", key), _side("B", key)
    ratio = {
        "mode": "binary",
        "binary": {"left": "A J/op", "operator": "/", "right": "B J/op"},
        "alias": RATIO,
        "replaceFields": False,
    }
    joined = [
        WITHOUT_TIME,
        {"id": "joinByField", "options": {"byField": key, "mode": "inner"}},
        {"id": "calculateField", "options": ratio},
    ]
    targets = [_target("A", left, key, a), _target("B", right, key, b)]
    columns = (Column(key, key), *left, *right, Column("ratio", RATIO))
    return table(title, description + _NO_INTERVAL, targets, columns, (24, 8), joined)


def _side(side: str, key: str) -> tuple[Column, ...]:
    other = Column("dut", f"{side} board") if key != "dut" else Column("parameter_set", f"{side} set")
    return (
        Column("net_j_per_op", f"{side} J/op", "last"),
        Column("u95_j_per_op", f"{side} ± U95"),
        other,
        Column("openssl", f"{side} OpenSSL"),
        Column("meter_kind", f"{side} {POWER_IS}"),
    )


def _target(ref_id: str, columns: Sequence[Column], key: str, side: str) -> Json:
    return target(ref_id, select(columns, "operation_energy", [VALID, NOT_SHAM, of_power(), _FIXED, side], [key]))


def _verdicts() -> Json:
    keys = ("site", "numerator", "denominator")
    columns = (*(Column(key, key) for key in keys), *_COMPARISON)
    return table(
        "Verdicts: ratio with 95 % interval",
        "Ratios of pooled energies with their interval, and whether the two can be told apart: `higher`, `lower` or"
        " `not distinguishable`. Read from measurement `comparison`, which this version of the aggregator does not"
        " write yet: until then the table is empty.",
        [target("A", select(_COMPARISON, "comparison", [chosen("site")], keys))],
        columns,
        (24, 8),
        simulated=(SIMULATED,),
    )
