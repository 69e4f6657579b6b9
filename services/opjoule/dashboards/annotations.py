"""Marks on the time axis: trains from the store, and campaigns that `opjoule grafana annotate` wrote. Pure."""

from opjoule.dashboards.parts import DATASOURCE, SIMULATED_COLOR, TAG, Json
from opjoule.dashboards.queries import REAL_POWER, SIMULATED, SIMULATED_POWER, Column, chosen, select

_TRAIN = (
    Column("event_id", "event"),
    Column("parameter_set", "set"),
    Column("operation", "operation"),
    Column("dut", "board"),
    Column("variant", "variant"),
    Column("quality", "quality"),
    Column("meter_kind", "meter kind"),
)


def trains() -> list[Json]:
    """The start of every train, apart for SIMULATED power; and what Grafana itself keeps."""
    return [
        _trains("trains", "blue", REAL_POWER),
        _trains(f"{SIMULATED} trains", SIMULATED_COLOR, SIMULATED_POWER),
        _campaigns(),
    ]


def _trains(name: str, color: str, power: str) -> Json:
    query = select(_TRAIN, "operation_energy", [power, chosen("site", "board")])
    return {
        "name": name,
        "enable": False,
        "iconColor": color,
        "datasource": DATASOURCE,
        "target": {
            "refId": "Anno",
            "datasource": DATASOURCE,
            "rawQuery": True,
            "query": query,
            "resultFormat": "table",
            "queryType": "tags",
            "fromAnnotations": True,
            "titleColumn": "set",
            "textColumn": "operation",
            "tagsColumn": "board,variant,quality,meter kind",
            "timeEndColumn": "",
        },
    }


def _campaigns() -> Json:
    source = {"type": "grafana", "uid": "-- Grafana --"}
    wanted = {"limit": 100, "matchAny": False, "tags": [TAG], "type": "tags"}
    return {
        "name": "campaigns",
        "enable": True,
        "iconColor": "purple",
        "datasource": source,
        "target": {"refId": "Anno", "datasource": source, **wanted},
    }
