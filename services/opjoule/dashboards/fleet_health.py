"""*Fleet health*: whether samples and results flow, and what is lost, waits or was refused. Pure."""

from opjoule.dashboards.parts import Json, dashboard, lines, table, target
from opjoule.dashboards.queries import Column, chosen, select
from opjoule.dashboards.variables import board, several, site

_SEEN = (
    Column("online", "online", "last"),
    Column("measuring", "measuring"),
    Column("duts", "boards served"),
    Column("detail", "detail"),
)
_TAGS = ("site", "service", "instance")
_HALF = (12, 8)


def fleet_health() -> Json:
    """The dashboard."""
    return dashboard(
        "opjoule-health",
        "Fleet health",
        "Rates, losses, clocks, queues and last words of every service.",
        "now-6h",
        [
            site("fleet_health"),
            several("service", "service", "meter, runner or aggregator", "fleet_health"),
            several("instance", "instance", "name of one process of a service", "fleet_health"),
            board(),
        ],
        panels=[
            _last_seen(),
            _rates(),
            _losses(),
            _new_values(),
            _gaps(),
            _clock_bounds(),
            _spools(),
            _outbox(),
            _outbox_age(),
            _rejected(),
            _trains(),
        ],
    )


def _last_seen() -> Json:
    columns = (*(Column(tag, tag) for tag in _TAGS), *_SEEN)
    return table(
        "Last seen",
        "Last word of every service in the time range, and when it came. A runner is silent while it measures; every"
        " other service speaks every few seconds.",
        [target("A", select(_SEEN, "fleet_health", [chosen(*_TAGS)], _TAGS))],
        columns,
        (24, 8),
        yes_or_no=("online", "measuring"),
    )


def _rates() -> Json:
    return _lines(
        "Samples per second",
        "What each meter measures. Lower than the meter's own rate: frames are lost between meter and host.",
        "cps",
        Column("samples_per_s", "samples", "mean"),
    )


def _new_values() -> Json:
    column = Column("new_values_per_s", "new values", "mean")
    return lines(
        "New values per second of each meter",
        "Samples that differ from the one before. A value that is only held is no measurement: the FNB58 holds many."
        " Of a meter that says nothing new for two seconds the time is left out as a gap.",
        [target("A", _of_meters(column), "time_series", "$tag_dut, $tag_meter at $tag_site")],
        "cps",
        _HALF,
    )


def _gaps() -> Json:
    columns = (Column("gaps", "gaps", "max"), Column("reopened", "opened again", "max"))
    alias = "$tag_dut, $tag_meter at $tag_site: $col"
    return lines(
        "Gaps of each meter, and how often it was opened again",
        "Totals since its service started. Rising: cable, hub or host of the meter; the status says what it saw.",
        [target(ref_id, _of_meters(each), "time_series", alias) for ref_id, each in zip("AB", columns, strict=True)],
        "short",
        _HALF,
    )


def _of_meters(column: Column) -> str:
    return select([column], "meter_health", [chosen("site", "board")], ("site", "dut", "meter"), "$__interval")


def _losses() -> Json:
    return _lines(
        "Gaps: lost samples and refused frames",
        "Totals of each meter since it started. A train over a gap loses the load segments that the gap touches.",
        "short",
        Column("lost_samples", "lost samples", "max"),
        Column("rejected_frames", "refused frames", "max"),
    )


def _spools() -> Json:
    return _lines(
        "Spools: messages that no aggregator has confirmed",
        "Waiting in the spool of each meter and runner. Rising: the broker or the aggregator is away; nothing is lost"
        " while the disk has room.",
        "short",
        Column("spool_depth", "waiting", "max"),
        Column("lost_batches", "lost batches", "max"),
    )


def _outbox() -> Json:
    return _lines(
        "Outbox: points that wait for the store",
        "Rising: InfluxDB does not take what the aggregator sends. Dead letters are points that it refused for good.",
        "short",
        Column("outbox_depth", "waiting", "max"),
        Column("dead_letters", "dead letters", "max"),
        Column("outbox_dropped", "given up (power and health only)", "max"),
    )


def _outbox_age() -> Json:
    return _lines(
        "Outbox: age of the oldest point",
        "While InfluxDB is away nothing new is seen here; afterwards the line shows how long it was.",
        "s",
        Column("lag_s", "oldest", "max"),
    )


def _rejected() -> Json:
    return _lines(
        "Refused and repeated messages",
        "Totals of each aggregator since it started. Refused messages stand on topic `rejected` with the reason."
        " Repeated ones are harmless: a publisher had not seen its receipt.",
        "short",
        Column("rejected", "refused", "max"),
        Column("duplicates", "repeated", "max"),
    )


def _trains() -> Json:
    return _lines(
        "Trains",
        "Measured and left out by each runner since it started, and held by each aggregator until their samples come.",
        "short",
        Column("trains", "measured", "max"),
        Column("left_out", "left out", "max"),
        Column("held_trains", "held", "max"),
    )


def _clock_bounds() -> Json:
    column = Column("clock_bound_s", "bound", "max")
    query = select([column], "operation_energy", [chosen("site", "board")], ("site", "dut", "meter"), "$__interval")
    return lines(
        "Clock bound of trains",
        "Largest possible error of placing a train on the meter's timeline. A guard must be longer. Trains whose clocks"
        " were never compared have none and are invalid.",
        [target("A", query, "time_series", "$tag_site $tag_dut, $tag_meter")],
        column.unit,
        _HALF,
        custom={"drawStyle": "points", "showPoints": "always"},
    )


def _lines(title: str, description: str, unit: str, *columns: Column) -> Json:
    """One query for each column: a service that lacks a counter gets no empty series for it."""
    alias = "$tag_service $tag_instance at $tag_site: $col"
    queries = [select([column], "fleet_health", [chosen(*_TAGS)], _TAGS, "$__interval") for column in columns]
    targets = [target(ref_id, query, "time_series", alias) for ref_id, query in zip("ABC", queries, strict=False)]
    return lines(title, description, targets, unit, _HALF)
