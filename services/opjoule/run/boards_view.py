"""How boards that measure are shown. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich import box
from rich.markup import escape
from rich.table import Table

from opjoule.figures import headline, quality
from opjoule.run.boards import Board
from opjoule.run.rows import Row
from opjoule.run.view import DASH, subject_of
from schemas import EnergyResult

LONG_NAME = 18
"""Columns of the longest names: SLH-DSA-SHAKE-256s, SecP384r1MLKEM1024."""


def boards_table(boards: Iterable[Board]) -> Table:
    """One row per board: how far it is and what it does now."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    made.add_column("board")
    made.add_column("trains", justify="right")
    made.add_column("results", justify="right")
    made.add_column("now", overflow="ellipsis", no_wrap=True)
    for board in boards:
        made.add_row(*map(escape, (board.dut, trains(board), str(len(board.results)), doing(board))))
    return made


def energy_table(rows: Sequence[Row]) -> Table:
    """One row per train and meter: net energy per operation, and what is to be said of it."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("board", "operation"):
        made.add_column(name, overflow="fold")
    longest = max((len(row.parameter_set) for row in rows), default=0)
    made.add_column("parameter set", overflow="fold", min_width=min(longest, LONG_NAME))
    made.add_column("by")
    made.add_column("net/op ± U95", justify="right", no_wrap=True)
    made.add_column("quality", min_width=len("SIMULATED"))
    for row in rows:
        subject = subject_of(row.operation, row.parameter_set, row.variant)
        made.add_row(
            *map(escape, (row.machine, row.operation, subject, row.backend, *_figure(row))),
            style="bold red" if row.failed else None,
        )
    return made


def _figure(row: Row) -> tuple[str, str]:
    if row.result is None:
        return DASH, "no result"
    flags = [flag for flag in row.result.flags if flag != "simulated"]
    return headline(row.result), " ".join([quality(row.result), *([f"({', '.join(flags)})"] if flags else [])])


def board_lines(boards: Iterable[Board]) -> list[str]:
    """The same as lines."""
    return [f"{board.dut}: {trains(board)} trains; {doing(board)}" for board in boards]


def board_line(board: Board, when_well: str) -> str:
    """What became of it in the end."""
    said = board.phase if board.phase in ("refused", "lost") else _ended(board) or when_well
    reason = f": {board.reason}" if board.reason else ""
    missing = f"; {board.missing} trains have no result" if board.phase == "ended" and board.missing else ""
    left_out = f"; left out: {board.left_out}" if board.left_out else ""
    counted = f", {trains(board)} trains" if board.run_id else ""
    return f"{board.dut}{counted}: {said}{reason}{left_out}{missing}"


def _ended(board: Board) -> str:
    """How its campaign ended where that is not the end of its plan; else empty."""
    state = board.campaign.state if board.phase == "ended" and board.campaign is not None else ""
    return {"stopped": "stopped by a command", "failed": "failed"}.get(state, "")


def trains(board: Board) -> str:
    """`3 of 12`; `3` where there is no end."""
    told = board.campaign
    if told is None:
        return "0"
    return str(told.trains_done) if told.trains_planned is None else f"{told.trains_done} of {told.trains_planned}"


def doing(board: Board) -> str:
    """What its runner said last, or what became of it."""
    if board.phase in ("refused", "lost"):
        return f"{board.phase}: {board.reason}"
    if board.phase == "ended":
        return board.campaign.state if board.campaign is not None else "finished"
    if board.phase == "asked":
        return f"asked; {_until(board) or 'waiting for its answer'}"
    detail = board.status.detail if board.status is not None else ""
    return f"{_until(board)}: {detail}" if _until(board) else detail


def news_line(result: EnergyResult) -> str:
    """One result as it comes."""
    subject = subject_of(result.operation, result.parameter_set, result.variant)
    reason = f" ({result.reason})" if result.reason else ""
    figures = f"{headline(result)}, {result.repetitions} reps, {quality(result)}{reason}"
    return f"{result.dut}: {result.operation} {subject} by {result.backend}: {figures}"


def _until(board: Board) -> str:
    status = board.status
    if status is None or status.state != "measuring" or not status.until_ns:
        return ""
    return f"in a train until {datetime.fromtimestamp(status.until_ns / 1e9, UTC):%H:%M:%SZ}"
