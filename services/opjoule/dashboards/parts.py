"""Building blocks of a dashboard: queries, panels, the grid. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from opjoule.dashboards.queries import POWER_IS, SIMULATED, Column

Json = dict[str, Any]

DATASOURCE_UID = "opjoule-influxdb"
DATASOURCE: Json = {"type": "influxdb", "uid": DATASOURCE_UID}
FOLDER_UID = "opjoule"
FOLDER_TITLE = "opjoule"
SCHEMA_VERSION = 39
TAG = "opjoule"
GRID_COLUMNS = 24
SIMULATED_COLOR = "orange"


def target(ref_id: str, query: str, result_format: str = "table", alias: str = "") -> Json:
    """One query of a panel."""
    made = {
        "refId": ref_id,
        "datasource": DATASOURCE,
        "rawQuery": True,
        "query": query,
        "resultFormat": result_format,
    }
    return made | ({"alias": alias} if alias else {})


def panel(
    kind: str,
    title: str,
    description: str,
    targets: Sequence[Json],
    size: tuple[int, int],
    *,
    defaults: Json,
    overrides: Sequence[Json] = (),
    options: Json,
    transformations: Sequence[Json] = (),
    repeat: str = "",
) -> Json:
    """A panel of `size` (width, height) grid units; `placed` gives it its id and position."""
    made: Json = {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": size[0], "h": size[1], "x": 0, "y": 0},
        "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
        "options": options,
        "targets": list(targets),
    }
    if transformations:
        made["transformations"] = list(transformations)
    if repeat:
        made |= {"repeat": repeat, "repeatDirection": "h", "maxPerRow": GRID_COLUMNS // size[0]}
    return made


def override(name: str, properties: Mapping[str, Any], matcher: str = "byName") -> Json:
    """Properties of the field with this name (or, by `byRegexp`, of all whose name matches)."""
    return {
        "matcher": {"id": matcher, "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


def unit_overrides(columns: Sequence[Column]) -> list[Json]:
    """The unit of every column, and the mark of a simulated meter."""
    found = [override(column.name, {"unit": column.unit}) for column in columns]
    marked = [column.name for column in columns if column.name.endswith(POWER_IS)]
    return found + [override(name, _power_is()) for name in marked]


def _power_is() -> Json:
    shown = {"simulated": {"text": SIMULATED, "color": SIMULATED_COLOR, "index": 0}}
    return {"mappings": [{"type": "value", "options": shown}], "custom.cellOptions": {"type": "color-text"}}


def _words(one: str, zero: str, color: str = "text") -> Json:
    shown = {"1": {"text": one, "color": color, "index": 0}, "0": {"text": zero, "index": 1}}
    return {"mappings": [{"type": "value", "options": shown}], "custom.cellOptions": {"type": "color-text"}}


def table(
    title: str,
    description: str,
    targets: Sequence[Json],
    columns: Sequence[Column],
    size: tuple[int, int],
    transformations: Sequence[Json] = (),
    yes_or_no: Sequence[str] = (),
    simulated: Sequence[str] = (),
) -> Json:
    """A table whose columns stand in the order of `columns`; the data source gives tags in any order.

    Numbers of the columns `yes_or_no` and `simulated` are shown as words.
    """
    order = {name: index for index, name in enumerate(["Time", *(column.name for column in columns)])}
    arranged = {"id": "organize", "options": {"excludeByName": {}, "indexByName": order, "renameByName": {}}}
    return panel(
        "table",
        title,
        description,
        targets,
        size,
        defaults={
            "unit": "none",
            "noValue": "–",
            "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False},
        },
        overrides=[
            *unit_overrides(columns),
            *(override(name, _words("yes", "no")) for name in yes_or_no),
            *(override(name, _words(SIMULATED, "no", SIMULATED_COLOR)) for name in simulated),
        ],
        options={"showHeader": True, "cellHeight": "sm", "frameIndex": 0},
        transformations=[*transformations, arranged],
    )


def lines(
    title: str,
    description: str,
    targets: Sequence[Json],
    unit: str,
    size: tuple[int, int],
    *,
    custom: Json | None = None,
    overrides: Sequence[Json] = (),
    repeat: str = "",
) -> Json:
    """Lines over time, broken where there is no data."""
    drawn = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "auto", "spanNulls": False}
    return panel(
        "timeseries",
        title,
        description,
        targets,
        size,
        defaults={"unit": unit, "custom": drawn | (custom or {})},
        overrides=overrides,
        options={
            "legend": {"calcs": ["lastNotNull"], "displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
        repeat=repeat,
    )


def bars(
    title: str,
    description: str,
    targets: Sequence[Json],
    x_field: str,
    unit: str,
    size: tuple[int, int],
    *,
    overrides: Sequence[Json] = (),
    transformations: Sequence[Json] = (),
    repeat: str = "",
) -> Json:
    """Bars on a logarithmic scale, from one frame with the string field `x_field`."""
    return panel(
        "barchart",
        title,
        description,
        targets,
        size,
        defaults={
            "unit": unit,
            "custom": {"fillOpacity": 70, "lineWidth": 1, "scaleDistribution": {"type": "log", "log": 10}},
        },
        overrides=overrides,
        options={
            "xField": x_field,
            "orientation": "auto",
            "showValue": "never",
            "stacking": "none",
            "barWidth": 0.9,
            "groupWidth": 0.8,
            "fullHighlight": False,
            "xTickLabelRotation": -45,
            "xTickLabelMaxLength": 24,
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
        transformations=transformations,
        repeat=repeat,
    )


WITHOUT_TIME: Json = {"id": "filterFieldsByName", "options": {"exclude": {"pattern": "^Time$"}}}
"""Drops the time of the last train, so that frames can be put together by what they are about."""
MERGE: Json = {"id": "merge", "options": {}}


def dashboard(uid: str, title: str, description: str, since: str, variables: Sequence[Json], **rest: Any) -> Json:
    """A dashboard of `panels` in the order of reading."""
    annotations: Sequence[Json] = rest.get("annotations", ())
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": rest.get("refresh", "1m"),
        "time": {"from": since, "to": "now"},
        "templating": {"list": list(variables)},
        "annotations": {"list": list(annotations)},
        "links": [_link()],
        "panels": placed(rest["panels"]),
    }


def placed(panels: Sequence[Json]) -> list[Json]:
    """The panels side by side where they fit, with ids from 1."""
    found, x, y, row_height = [], 0, 0, 0
    for number, each in enumerate(panels, 1):
        size = each["gridPos"]
        if x + size["w"] > GRID_COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        found.append({"id": number, **each, "gridPos": {**size, "x": x, "y": y}})
        x, row_height = x + size["w"], max(row_height, size["h"])
    return found


def _link() -> Json:
    return {
        "type": "dashboards",
        "title": "opjoule",
        "tags": [TAG],
        "asDropdown": False,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "the other dashboards of opjoule",
    }
