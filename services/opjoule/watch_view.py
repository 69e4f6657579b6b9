"""How boards are shown by `opjoule watch`: traces with their segments for a terminal, lines for anything else. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain

from rich.console import Group, RenderableType
from rich.text import Text

from opjoule.figures import headline, quality
from opjoule.watched import Board, News, Trace, Watched
from schemas import EnergyResult, SampleBatch, ServiceStatus

ROWS = 6
EIGHTHS = " ▁▂▃▄▅▆▇█"
LOAD, NOT_LOAD, NO_SAMPLE = "▀", "─", "·"
LEAST_SPAN_W = 0.05
"""A trace is not stretched further: noise should look like noise."""


def screen(watched: Watched, width: int) -> RenderableType:
    """All boards, one below the other."""
    if not watched.boards:
        return Text("nothing yet: no samples, results or runners on these topics")
    return Group(*chain.from_iterable(_board(watched, board, max(20, width)) for board in watched.boards))


def _board(watched: Watched, board: Board, width: int) -> Iterable[RenderableType]:
    runner = watched.runners.get(board)
    yield Text.assemble(("/".join(board), "bold"), f"  {doing(runner)}" if runner else "", overflow="ellipsis")
    for name, trace in sorted(watched.traces.get(board, {}).items()):
        yield from drawn(name, trace, width, watched.window_ns)
    for result in reversed(watched.results.get(board, ())):
        yield Text(f"  {result_line(result)}", overflow="ellipsis", no_wrap=True)
    yield Text("")


def drawn(meter: str, trace: Trace, width: int, window_ns: int) -> list[Text]:
    """A trace: its figures, `ROWS` lines of power, and a line that is thick where a load segment is known."""
    columns = trace.columns(width, window_ns)
    known = [each for each in columns if each is not None]
    if not known:
        return []
    low_w, high_w = min(known), max(known)
    mark = "  SIMULATED" if trace.simulated else ""
    figures = f"  {meter}  {known[-1]:.3f} W now, {low_w:.3f} to {high_w:.3f} W in {window_ns / 1e9:.0f} s{mark}"
    span_w = max(high_w - low_w, LEAST_SPAN_W)
    levels = [None if each is None else 1 + round((each - low_w) / span_w * (8 * ROWS - 1)) for each in columns]
    lines = ["".join(_cell(level, row) for level in levels) for row in reversed(range(ROWS))]
    loaded = trace.loaded(width, window_ns)
    base = "".join(
        NO_SAMPLE if level is None else LOAD if load else NOT_LOAD for level, load in zip(levels, loaded, strict=True)
    )
    return [Text(line, no_wrap=True) for line in (figures, *lines, base)]


def _cell(level: int | None, row: int) -> str:
    return " " if level is None else EIGHTHS[min(8, max(0, level - 8 * row))]


def doing(runner: ServiceStatus) -> str:
    """What a runner said last."""
    until = f" until {_time(runner.until_ns)}" if runner.until_ns else ""
    return f"{runner.state}{until}: {runner.detail}".rstrip(": ")


def result_line(result: EnergyResult) -> str:
    """One result on one line."""
    what = f"{result.operation} {result.parameter_set}" + (f" {result.variant}" if result.variant else "")
    reason = f" ({result.reason})" if result.reason else ""
    return f"{_time(result.end_ns)} {what}: {headline(result)}, {result.repetitions} reps, {quality(result)}{reason}"


def plain(site: str, news: News) -> str:
    """A piece of news as one line; empty for a train, whose result says more."""
    if isinstance(news, SampleBatch):
        if not news.power_w:
            return ""
        mean_w = sum(news.power_w) / len(news.power_w)
        mark = " SIMULATED" if news.meter_kind == "simulated" else ""
        spread = f"{min(news.power_w):.3f} to {max(news.power_w):.3f} W, {len(news.power_w)} samples"
        return f"{_time(news.start_ns)} {site}/{news.dut} {news.meter} {mean_w:.3f} W ({spread}){mark}"
    if isinstance(news, EnergyResult):
        return f"{_time(news.end_ns)} {site}/{news.dut} result {result_line(news).partition(' ')[2]}"
    if isinstance(news, ServiceStatus):
        return f"{site}/{','.join(news.duts)} runner {doing(news)}"
    return ""


def _time(t_ns: int) -> str:
    return f"{datetime.fromtimestamp(t_ns / 1e9, UTC):%H:%M:%SZ}"
