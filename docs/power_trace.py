"""Draws docs/power_trace.svg, the picture that the README opens with: `python docs/power_trace.py`.

A drawing, not a measurement: lengths and guard are to scale, levels and noise are invented. Its own background and a
media query keep it legible in light and dark.
"""

import math
import random
from dataclasses import dataclass
from pathlib import Path

SVG = Path(__file__).with_name("power_trace.svg")

GUARD_S = 0.12
LENGTHS_S = (0.62, 0.84, 0.72, 0.56, 0.92, 0.98, 0.66)
"""Idle and load in turn, as drawn from 0.4 to 1.0 s (the preset `short`)."""
LEFT, RIGHT = 118.0, 936.0
SCALE = (RIGHT - LEFT) / sum(LENGTHS_S)
STEP_S = 0.012
SETTLING_S = 0.022
TITLE = "Power trace of a train, a null train and a sham train"
DESCRIPTION = (
    "Three rows of power over time. Top, a train: power steps from idle to load and back three times; in each load "
    "segment the area above the baseline is the net energy, and a guard is cut from both ends of every idle segment. "
    "Middle, a null train: smaller steps, the cost of process start without cryptography. Bottom, a sham train: flat."
)

STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { font: 13px 'DejaVu Sans', 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
  .name { font-weight: bold; font-size: 15px }
  .soft { fill: #59636e }
  .small { font-size: 12px }
  .mid { text-anchor: middle }
  .end { text-anchor: end }
  .trace { fill: none; stroke-width: 1.6; stroke-linejoin: round }
  .blue { stroke: #0969da } .teal { stroke: #1a7f6b } .gray { stroke: #6e7781 }
  .area-blue { fill: #0969da; fill-opacity: .18 } .area-teal { fill: #1a7f6b; fill-opacity: .2 }
  .guard { fill: #bf8700; fill-opacity: .24 }
  .base { stroke: #1f2328; stroke-width: 1.4; stroke-dasharray: 5 3 }
  .line { stroke: #8c959f; stroke-width: 1; fill: none }
  .tick { stroke: #0969da; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .soft { fill: #9ea7b3 }
    .blue { stroke: #58a6ff } .teal { stroke: #3fc8a9 } .gray { stroke: #9ea7b3 }
    .area-blue { fill: #58a6ff; fill-opacity: .25 } .area-teal { fill: #3fc8a9; fill-opacity: .25 }
    .guard { fill: #e3b341; fill-opacity: .3 }
    .base { stroke: #f0f6fc }
    .line { stroke: #6e7681 }
    .tick { stroke: #58a6ff }
  }
"""


@dataclass(frozen=True)
class Row:
    """One of the three traces: `idle_y` and `load_y` are the levels in the picture, y downwards."""

    idle_y: float
    load_y: float
    noise: float
    colour: str
    seed: int


TRAIN = Row(idle_y=236, load_y=112, noise=3.0, colour="blue", seed=7)
NULL = Row(idle_y=392, load_y=354, noise=3.0, colour="teal", seed=11)
SHAM = Row(idle_y=476, load_y=476, noise=3.0, colour="gray", seed=5)


def draw() -> str:
    """The SVG as text; the same every time."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 540" role="img" aria-labelledby="title desc">',
        f'<title id="title">{TITLE}</title>',
        f'<desc id="desc">{DESCRIPTION}</desc>',
        f"<style>{STYLE}</style>",
        '<rect class="card" x="0.5" y="0.5" width="959" height="539" rx="8"/>',
        *_train(),
        *_null(),
        *_sham(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _train() -> list[str]:
    parts = [_text(24, 34, "train", "name"), *_guards(TRAIN, 92, 250), *_areas(TRAIN)]
    parts += [_trace(TRAIN), *_baselines(TRAIN)]
    edges = _edges_s()
    parts += [_bracket(_x(0), _x(edges[-1]), 46), _text(527, 40, "one train: begins and ends with idle", "mid soft")]
    names = ("idle", "load") * len(LENGTHS_S)
    for i, name in enumerate(names[: len(LENGTHS_S)]):
        parts.append(_text(_middle(i), 74, name, "mid"))
    for k, i in enumerate((1, 3, 5), 1):
        parts.append(_text(_middle(i), 176, f"E{_subscript(k)}", "mid name"))
        parts += _repetitions(i)
    parts += [
        _level(TRAIN.load_y, "P load"),
        _level(TRAIN.idle_y, "P idle"),
        _text(_middle(1), 280, "repetitions, back to back", "mid small soft"),
        _text(_middle(3), 280, "baseline b (dashed)", "mid small soft"),
        _text(_middle(5), 280, "area above it: net energy", "mid small soft"),
        _text(24, 280, "guard: 0.12 s", "small"),
        '<rect class="guard" x="24" y="256" width="18" height="10"/>',
    ]
    return parts


def _null() -> list[str]:
    about = "the same program started as often, but without the cryptography: what starting it costs"
    return [
        _text(24, 332, "null train", "name"),
        _text(LEFT + 14, 332, about, "soft"),
        *_guards(NULL, 344, 402),
        *_areas(NULL),
        _trace(NULL),
        *_baselines(NULL),
        _level(NULL.idle_y, "P idle"),
    ]


def _sham() -> list[str]:
    about = "nothing runs: the true energy is zero, so what it shows is the error of the method on this board"
    return [
        _text(24, 440, "sham train", "name"),
        _text(LEFT + 14, 440, about, "soft"),
        *_guards(SHAM, 452, 488),
        _trace(SHAM),
        *_baselines(SHAM),
        _level(SHAM.idle_y, "P idle"),
        _line(LEFT, 506, RIGHT, 506),
        *(part for second in range(6) for part in _second(second)),
    ]


def _edges_s() -> list[float]:
    edges = [0.0]
    for length_s in LENGTHS_S:
        edges.append(edges[-1] + length_s)
    return edges


def _x(t_s: float) -> float:
    return LEFT + t_s * SCALE


def _middle(i: int) -> float:
    edges = _edges_s()
    return _x((edges[i] + edges[i + 1]) / 2)


def _points(row: Row) -> list[tuple[float, float]]:
    """The trace: levels with exponential settling, and noise that is skewed upwards as that of a real board."""
    draw = random.Random(row.seed)
    edges = _edges_s()
    y, noise = row.idle_y, 0.0
    points = []
    for n in range(math.floor(edges[-1] / STEP_S) + 1):
        t_s = n * STEP_S
        segment = max(i for i in range(len(LENGTHS_S)) if edges[i] <= t_s)
        target = row.load_y if segment % 2 else row.idle_y
        y += (target - y) * (1 - math.exp(-STEP_S / SETTLING_S))
        noise = 0.55 * noise + row.noise * (draw.gammavariate(2.0, 0.5) - 1.0)
        points.append((_x(t_s), y - noise))
    return points


def _trace(row: Row) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _points(row))
    return f'<polyline class="trace {row.colour}" points="{points}"/>'


def _areas(row: Row) -> list[str]:
    """From a guard before each load segment to a guard after it, between trace and baseline."""
    edges = _edges_s()
    parts = []
    for i in (1, 3, 5):
        first, last = _x(edges[i] - GUARD_S), _x(edges[i + 1] + GUARD_S)
        inside = [(x, y) for x, y in _points(row) if first <= x <= last]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(first, row.idle_y), *inside, (last, row.idle_y)])
        parts.append(f'<polygon class="area-{row.colour}" points="{points}"/>')
    return parts


def _baselines(row: Row) -> list[str]:
    edges = _edges_s()
    return [
        _line(_x(edges[i] - GUARD_S), row.idle_y, _x(edges[i + 1] + GUARD_S), row.idle_y, "base") for i in (1, 3, 5)
    ]


def _guards(row: Row, top: float, bottom: float) -> list[str]:
    """Both ends of every idle segment."""
    edges = _edges_s()
    starts_s = [start for i in range(0, len(LENGTHS_S), 2) for start in (edges[i], edges[i + 1] - GUARD_S)]
    size = f'y="{top}" width="{GUARD_S * SCALE:.1f}" height="{bottom - top}"'
    return [f'<rect class="guard" x="{_x(start_s):.1f}" {size}/>' for start_s in starts_s]


def _repetitions(i: int) -> list[str]:
    edges = _edges_s()
    count = round(LENGTHS_S[i] / 0.035)
    return [_line(x, 256, x, 264, "tick") for n in range(count + 1) for x in (_x(edges[i] + n * LENGTHS_S[i] / count),)]


def _level(y: float, name: str) -> str:
    return _line(LEFT - 8, y, LEFT, y) + _text(LEFT - 14, y + 4, name, "end small")


def _second(second: int) -> list[str]:
    x = _x(second)
    label = f"{second} s" if second else "0"
    return [_line(x, 506, x, 511), _text(x, 525, label, "mid small soft")] if x <= RIGHT else []


def _bracket(x1: float, x2: float, y: float) -> str:
    return f'<path class="line" d="M{x1:.1f} {y + 6} V{y} H{x2:.1f} V{y + 6}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{words}</text>'


def _subscript(k: int) -> str:
    return chr(0x2080 + k)


if __name__ == "__main__":
    SVG.write_text(draw(), encoding="utf-8")
