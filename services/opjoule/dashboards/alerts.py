"""Alert rules as Grafana provisions them. Pure.

No `$` stands in this file: Grafana's provisioning would take it for an environment variable. So rules name their time
ranges by `now()`, and texts name labels as `.Labels`.
"""

from dataclasses import dataclass

from opjoule.dashboards.parts import DATASOURCE, DATASOURCE_UID, FOLDER_TITLE, Json
from opjoule.dashboards.queries import REAL_POWER, SHAM, VALID

MINUTE_S = 60
DAY_S = 86_400
EXPRESSION: Json = {"type": "__expr__", "uid": "__expr__"}
SHAMS = 50
"""The last sham trains that are checked (DESIGN: method_check)."""
LEAST_SHAMS = 10
Z_LIMIT = 3.0


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: fires for every series of `query` whose last value is `above` (or `below`) the limit."""

    uid: str
    title: str
    query: str
    range_s: int
    summary: str
    action: str
    above: float | None = None
    below: float | None = None
    pending: str = "0s"
    paused: bool = False
    no_data: str = "OK"


def _silent(measurement: str, field: str, minutes: int, tags: str, where: str = "") -> str:
    """How many points came in each stretch of a day that ends now; a series of this day that ended has zeros."""
    condition = f"{where} AND " if where else ""
    return (
        f'SELECT count("{field}") FROM "{measurement}" WHERE {condition}time > now() - 1d AND time < now()'
        f" GROUP BY time({minutes}m, now()), {tags} fill(0)"
    )


def _sham_check() -> str:
    """|z| of the last shams of each board and meter, where there are enough of them."""
    keys, newest_first = '"site", "dut", "meter"', "ORDER BY time DESC"
    last = (
        f'SELECT "net_power_w" FROM "operation_energy" WHERE {VALID} AND {SHAM} AND {REAL_POWER}'
        f" AND time > now() - 30d GROUP BY {keys} {newest_first} LIMIT {SHAMS}"
    )
    figures = (
        'SELECT mean("net_power_w") AS "mean", stddev("net_power_w") AS "sd", count("net_power_w") AS "n"'
        f" FROM ({last}) GROUP BY {keys} {newest_first}"
    )
    return (
        f'SELECT abs("mean") / ("sd" / sqrt("n")) AS "z" FROM ({figures})'
        f' WHERE "n" >= {LEAST_SHAMS} GROUP BY {keys} {newest_first}'
    )


RULES = (
    Rule(
        uid="opjoule-board-silent",
        title="A board is silent",
        query=_silent("fleet_health", "online", 30, '"site", "instance"', "\"service\" = 'runner'"),
        range_s=DAY_S,
        below=1,
        summary="Runner {{ .Labels.instance }} at {{ .Labels.site }} has said nothing for 30 minutes",
        action="See whether the board is up and reaches the broker. Its events wait in its spool. A campaign that has"
        " ended on purpose is silent too: silence this alert for it.",
    ),
    Rule(
        uid="opjoule-meter-silent",
        title="A meter is silent",
        query=_silent("power", "samples", 5, '"site", "dut", "meter"'),
        range_s=DAY_S,
        below=1,
        summary="No power of {{ .Labels.dut }} from meter {{ .Labels.meter }} for 5 minutes",
        action="See whether the meter is plugged in and its service runs. Trains without samples have no energy.",
    ),
    Rule(
        uid="opjoule-outbox-old",
        title="The outbox is older than 10 minutes",
        query='SELECT max("lag_s") FROM "fleet_health" WHERE "service" = \'aggregator\' AND time > now() - 15m'
        ' GROUP BY time(5m, now()), "site", "instance" fill(none)',
        range_s=15 * MINUTE_S,
        above=10 * MINUTE_S,
        no_data="NoData",
        summary="Points of aggregator {{ .Labels.instance }} wait for InfluxDB for more than 10 minutes",
        action="Run `opjoule influx check` beside the aggregator: it says who must do what. Nothing is lost meanwhile.",
    ),
    Rule(
        uid="opjoule-sham-check",
        title="The sham check of a board fails",
        query=_sham_check(),
        range_s=30 * DAY_S,
        above=Z_LIMIT,
        summary="Sham trains of {{ .Labels.dut }} at {{ .Labels.meter }} differ from zero",
        action="What runs beside the trains on this board draws power with them: its figures carry that error. Look at"
        " *Sham trains over time* and at what the board does.",
    ),
    Rule(
        uid="opjoule-energy-changed",
        title="An energy changed beyond its uncertainty",
        query=f'SELECT last("ratio") FROM "comparison" WHERE {REAL_POWER} AND time > now() - 1d'
        " AND (\"verdict\" = 'higher' OR \"verdict\" = 'lower')"
        ' GROUP BY "site", "numerator", "denominator"',
        range_s=DAY_S,
        above=0,
        paused=True,
        summary="{{ .Labels.numerator }} costs another energy than {{ .Labels.denominator }}",
        action="Compare builds and settings of the two. This rule reads measurement `comparison` and is paused until"
        " the aggregator writes that.",
    ),
)
"""Every rule. What is SIMULATED has no sham check and no change of energy to report."""


def alert_rules() -> Json:
    """The file of provisioning/alerting."""
    group = {
        "orgId": 1,
        "name": "opjoule",
        "folder": FOLDER_TITLE,
        "interval": "1m",
        "rules": [_provisioned(rule) for rule in RULES],
    }
    return {"apiVersion": 1, "groups": [group]}


def _provisioned(rule: Rule) -> Json:
    return {
        "uid": rule.uid,
        "title": rule.title,
        "condition": "C",
        "data": [_query(rule), _reduce(), _threshold(rule)],
        "noDataState": rule.no_data,
        "execErrState": "Error",
        "for": rule.pending,
        "isPaused": rule.paused,
        "annotations": {"summary": rule.summary, "description": rule.action},
        "labels": {"application": "opjoule"},
    }


def _query(rule: Rule) -> Json:
    model = {
        "refId": "A",
        "datasource": DATASOURCE,
        "rawQuery": True,
        "query": rule.query,
        "resultFormat": "time_series",
        "intervalMs": 1000,
        "maxDataPoints": 43_200,
    }
    return _step("A", DATASOURCE_UID, rule.range_s, model)


def _reduce() -> Json:
    return _expression("B", {"type": "reduce", "expression": "A", "reducer": "last", "settings": {"mode": ""}})


def _threshold(rule: Rule) -> Json:
    kind, limit = ("gt", rule.above) if rule.above is not None else ("lt", rule.below)
    condition = {"evaluator": {"type": kind, "params": [limit]}}
    return _expression("C", {"type": "threshold", "expression": "B", "conditions": [condition]})


def _expression(ref_id: str, model: Json) -> Json:
    return _step(ref_id, "__expr__", 0, {"refId": ref_id, "datasource": EXPRESSION, **model})


def _step(ref_id: str, datasource_uid: str, range_s: int, model: Json) -> Json:
    return {
        "refId": ref_id,
        "datasourceUid": datasource_uid,
        "relativeTimeRange": {"from": range_s, "to": 0},
        "model": model,
    }
