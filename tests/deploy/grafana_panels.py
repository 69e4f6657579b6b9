"""What Grafana makes of a panel: its variables put in, the answers as frames, the transformations done.

As far as the panels here need it, after Grafana's documentation and the answers of its InfluxQL data source: a table
query gives one frame with `Time`, the tags and the columns; a time series query one frame for each series and column,
named by the alias.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.influxd import Series

Json = dict[str, Any]
Run = Callable[[str], list[Series]]
ALL = "$__all"


@dataclass(frozen=True)
class View:
    """What a dashboard shows: the time range, the step of the time axis, the values chosen."""

    start_ms: int
    end_ms: int
    values: Mapping[str, Sequence[str]]
    interval: str = "1m"

    def text(self, query: str) -> str:
        """The query as it is sent."""
        times = f"time >= {self.start_ms}ms and time <= {self.end_ms}ms"
        text = query.replace("$timeFilter", times).replace("$__interval", self.interval)
        text = re.sub(r"\$\{(\w+):raw\}", lambda found: self.values[found[1]][0], text)
        return re.sub(r"\$\{(\w+):regex\}", lambda found: self._regex(found[1]), text)

    def _regex(self, name: str) -> str:
        values = [re.sub(r"([\\^$*+?.()|\[\]{}/])", r"\\\1", value) for value in self.values[name] if value != ALL]
        if ALL in self.values[name]:
            return ".*"
        return values[0] if len(values) == 1 else f"({'|'.join(values)})"


@dataclass
class Frame:
    """Named columns of one length."""

    name: str
    columns: dict[str, list[Any]]

    def rows(self) -> list[dict[str, Any]]:
        """Its rows."""
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]


def frames_of(target: Json, series: Sequence[Series]) -> list[Frame]:
    """The frames of one query."""
    if target["resultFormat"] == "table":
        return [_table(series)] if series else []
    return [frame for each in series for frame in _lines(target, each)]


def _table(series: Sequence[Series]) -> Frame:
    rows = [row for each in series for row in each.rows()]
    return _from_rows("", [{"Time" if key == "time" else key: value for key, value in row.items()} for row in rows])


def _lines(target: Json, series: Series) -> Iterator[Frame]:
    for index, column in enumerate(series.columns[1:], 1):
        name = target["alias"].replace("$col", column)
        name = re.sub(r"\$tag_(\w+)", lambda found: series.tags[found[1]], name)
        values = [row[index] for row in series.values]
        yield Frame(name, {"Time": [row[0] for row in series.values], name: values})


def shown(panel: Json, view: View, run: Run) -> list[Frame]:
    """The frames that the panel draws."""
    frames = [frame for each in panel["targets"] for frame in frames_of(each, run(view.text(each["query"])))]
    for step in panel.get("transformations", ()):
        frames = _TRANSFORMATIONS[step["id"]](frames, step["options"])
    return frames


def _without(frames: list[Frame], options: Json) -> list[Frame]:
    pattern = re.compile(options["exclude"]["pattern"])
    return [Frame(f.name, {n: v for n, v in f.columns.items() if not pattern.search(n)}) for f in frames]


def _merge(frames: list[Frame], options: Json) -> list[Frame]:
    """Rows that agree in the columns that all frames have become one."""
    if len(frames) < 2:
        return frames
    shared = set.intersection(*(set(frame.columns) for frame in frames))
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in (row for frame in frames for row in frame.rows()):
        merged.setdefault(tuple(row[name] for name in sorted(shared)), {}).update(row)
    return [_from_rows("", list(merged.values()))]


def _join(frames: list[Frame], options: Json) -> list[Frame]:
    """Inner join of two frames by one column."""
    by = options["byField"]
    if len(frames) < 2:
        return []
    right = {row[by]: row for row in frames[1].rows()}
    return [_from_rows("", [{**row, **right[row[by]]} for row in frames[0].rows() if row[by] in right])]


def _calculate(frames: list[Frame], options: Json) -> list[Frame]:
    binary = options["binary"]
    assert (options["mode"], binary["operator"]) == ("binary", "/")
    for frame in frames:
        pairs = zip(frame.columns[binary["left"]], frame.columns[binary["right"]], strict=True)
        frame.columns[options["alias"]] = [left / right for left, right in pairs]
    return frames


def _organize(frames: list[Frame], options: Json) -> list[Frame]:
    order = options["indexByName"]
    for frame in frames:
        frame.columns = dict(sorted(frame.columns.items(), key=lambda item: order.get(item[0], len(order))))
    return frames


_TRANSFORMATIONS: dict[str, Callable[[list[Frame], Json], list[Frame]]] = {
    "filterFieldsByName": _without,
    "merge": _merge,
    "joinByField": _join,
    "calculateField": _calculate,
    "organize": _organize,
}


def _from_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> Frame:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return Frame(name, {column: [row.get(column) for row in rows] for column in columns})


def problems(panel: Json, view: View, run: Run, trap: float) -> list[str]:
    """What a panel would lack, or show and must not. Every query by itself, then what is drawn."""
    found: list[str] = []
    for each in panel["targets"]:
        found += [f"query {each['refId']}: {text}" for text in _of_query(each, view, run, trap)]
    if found:
        return found
    frames = shown(panel, view, run)
    drawn = {name for frame in frames for name in frame.columns}
    found += [f"nothing is named {name!r}" for name in sorted(needed(panel) - drawn)]
    return [*found, *_of_kind(panel, frames)]


def needed(panel: Json) -> set[str]:
    """Names that the panel's settings speak of."""
    overrides = panel["fieldConfig"]["overrides"]
    named = {each["matcher"]["options"] for each in overrides if each["matcher"]["id"] == "byName"}
    bands = {p["value"] for each in overrides for p in each["properties"] if p["id"] == "custom.fillBelowTo"}
    x_field = panel["options"].get("xField")
    return named | bands | ({x_field} if x_field else set())


def _of_query(target: Json, view: View, run: Run, trap: float) -> Iterator[str]:
    text = view.text(target["query"])
    if left := re.search(r"\$(?!/)[\w{]+", text):
        yield f"{left[0]} is not put in"
    series = run(text)
    if not series:
        yield "no series"
        return
    rows = [row for each in series for row in each.rows()]
    for name in sorted({column for each in series for column in each.columns} - {"time"}):
        values = [row[name] for row in rows if row.get(name) is not None]
        if not values:
            yield f"column {name!r} is empty"
        numbers = [value for value in values if isinstance(value, int | float)]
        if any(not math.isfinite(value) for value in numbers):
            yield f"column {name!r} is not finite"
        if any(abs(value) > trap / 100 for value in numbers):
            yield f"column {name!r} shows an energy that was taken back"


def _of_kind(panel: Json, frames: Sequence[Frame]) -> Iterator[str]:
    if panel["type"] in ("barchart", "table") and len(frames) != 1:
        yield f"{len(frames)} frames, not one"
    if panel["type"] == "barchart":
        labels = frames[0].columns.get(panel["options"]["xField"], [])
        if not all(isinstance(label, str) for label in labels):
            yield "the labels of the bars are no strings"
        if len(set(labels)) != len(labels):
            yield "two bars have one label"
    if panel["type"] == "timeseries":
        names = [frame.name for frame in frames]
        if len(set(names)) != len(names):
            yield "two series have one name"


def as_text(frame: Frame) -> str:
    """A frame to look at."""
    cells = [[str(name) for name in frame.columns], *([_cell(v) for v in row.values()] for row in frame.rows())]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
