"""Measuring on boards: the command, the answers, then what they measure until each has finished."""

import argparse
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from rich.console import Console
from rich.live import Live

from bus import Bus
from bus.settings import BrokerSettings
from errors import SettingsError
from opjoule.printing import print_table
from opjoule.run.asked import Asked, expand_asked, named
from opjoule.run.boards import READ, Board, Boards
from opjoule.run.boards_view import board_line, board_lines, boards_table, energy_table, news_line
from opjoule.run.broker import broker_settings, connected
from opjoule.run.out import CsvFile
from opjoule.run.planned import show_plan
from opjoule.run.rows import Row
from opjoule.run.view import failures, left_out_lines, left_out_of
from runner.openssl import Offer
from runner.openssl.listing import of_provider
from schemas import CATALOGUE, Command, topic_filter

INTERRUPTED = 130
QUIET_S = 0.5
"""Retained statuses have all come when for so long none came."""
LISTEN_S = 5.0
STEP_S = 0.25
RESULTS_S = 20.0
"""How long a result may take after a board has finished."""


def measure_boards(args: argparse.Namespace, asked: Asked, console: Console, out: CsvFile) -> int:
    """Start the campaign on the boards and follow it.

    Exit status 0, 1 where a board refused, was lost or had failures, 130 after Ctrl-C: the boards then go on.
    """
    settings = broker_settings(args)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with connected(settings) as bus:
        boards = listen(bus, settings.site)
        chosen = choose(boards, args.dut, settings)
        tell(bus, boards, chosen, "start", asked.text)
        try:
            _follow(bus, boards, chosen, console, out)
        except KeyboardInterrupt:
            console.print(f"the boards go on measuring; to stop them: {stop_command(args, chosen)}", soft_wrap=True)
            out.write(_rows(chosen))
            return INTERRUPTED
    return _report(asked, chosen, console, out)


def stop_boards(args: argparse.Namespace, console: Console) -> int:
    """Ask the boards to stop after their train; exit status 0, 1 where one refused or does not answer."""
    settings = broker_settings(args)
    with connected(settings) as bus:
        boards = listen(bus, settings.site)
        chosen = choose(boards, args.dut, settings)
        tell(bus, boards, chosen, "stop")
        _wait(bus, boards, lambda: all(board.phase != "asked" for board in chosen), chosen)
    for board in chosen:
        console.print(board_line(board, "stops after the train that is under way"), markup=False, soft_wrap=True)
    return int(any(board.phase in ("refused", "lost") for board in chosen))


def plan_boards(args: argparse.Namespace, asked: Asked, console: Console) -> int:
    """What each board would run, by what it says of itself; exit status 0."""
    settings = broker_settings(args)
    with connected(settings) as bus:
        boards = listen(bus, settings.site)
        chosen = choose(boards, args.dut, settings)
    for board in chosen:
        console.print(f"{board.dut}: {_described(board)}", markup=False, soft_wrap=True)
        plan = expand_asked(asked, offer_of(board))
        show_plan(console, asked, plan, {})
        for line in left_out_lines(left_out_of(plan.skipped)):
            console.print(line, markup=False, soft_wrap=True)
    return 0


def listen(bus: Bus, site: str) -> Boards:
    """The boards of a site, from the retained messages of their runners."""
    boards = Boards(site)
    bus.subscribe([topic_filter(kind, site) for kind in READ])
    deadline_s = time.monotonic() + LISTEN_S
    while time.monotonic() < deadline_s:
        messages = bus.receive(QUIET_S)
        boards.take(messages, time.time_ns())
        if not messages and boards.by_dut:
            break
    return boards


def choose(boards: Boards, text: str | None, settings: BrokerSettings) -> list[Board]:
    """The boards that are meant. Raises SettingsError with those that are online where one is not."""
    online = boards.online
    names = _names(text, online)
    there = f"online at site {settings.site}: {', '.join(online) or 'none'}"
    for name in names:
        if name not in boards.by_dut:
            raise SettingsError(f"no board is called {name}; {there}")
        if name not in online:
            raise SettingsError(f"the runner of {name} is offline; {there}")
    if not names:
        raise SettingsError(f"no runner is online at site {settings.site} of {settings.broker_url}")
    return [boards.by_dut[name] for name in names]


def _names(text: str | None, online: Sequence[str]) -> list[str]:
    given = [part.strip().lower() for part in (text or "all").split(",") if part.strip()]
    return list(online) if given == ["all"] else list(dict.fromkeys(given))


def tell(
    bus: Bus, boards: Boards, chosen: Iterable[Board], action: Literal["start", "stop"], text: str | None = None
) -> None:
    """Send the command; the broker drops it where the board is not back by the time that we give it up."""
    for board in chosen:
        command = Command(command_id=f"run-{secrets.token_hex(8)}", action=action, campaign_toml=text)
        now_ns = time.time_ns()
        board.ask(command.command_id, now_ns)
        expiry_s = (board.deadline_ns - now_ns) // 10**9
        bus.publish("command", boards.site, command, expiry_s, dut=board.dut)


def _wait(bus: Bus, boards: Boards, done: Callable[[], bool], chosen: Sequence[Board]) -> None:
    """Take what comes until it is done; boards that are silent for too long are given up."""
    while not done():
        boards.take(bus.receive(STEP_S), time.time_ns())
        for board in chosen:
            board.give_up(time.time_ns())


def _follow(bus: Bus, boards: Boards, chosen: list[Board], console: Console, out: CsvFile) -> None:
    """Until every board has finished and its results are there."""
    ended_s: float | None = None
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while ended_s is None or (_missing(chosen) and time.monotonic() - ended_s < RESULTS_S):
            before = board_lines(chosen)
            news = boards.take(bus.receive(STEP_S), time.time_ns())
            for board in chosen:
                board.give_up(time.time_ns())
            for result in news:
                console.print(news_line(result), markup=False, soft_wrap=True)
            if news:
                out.write(_rows(chosen))
            _show(live, chosen, before, console)
            if ended_s is None and all(board.phase not in ("asked", "running") for board in chosen):
                ended_s = time.monotonic()


def _show(live: Live, chosen: Sequence[Board], before: Sequence[str], console: Console) -> None:
    """A table in a terminal, elsewhere a line whenever a board is at something else."""
    if console.is_terminal:
        live.update(boards_table(chosen), refresh=True)
        return
    for line in board_lines(chosen):
        if line not in before:
            console.print(line, markup=False, soft_wrap=True)
            sys.stdout.flush()


def _missing(chosen: Iterable[Board]) -> int:
    return sum(board.missing for board in chosen if board.phase == "ended")


def _rows(chosen: Iterable[Board]) -> list[Row]:
    return [row for board in chosen for row in board.rows()]


def _report(asked: Asked, chosen: Sequence[Board], console: Console, out: CsvFile) -> int:
    """What came of it, on the terminal and in the file; exit status 1 where something asked for has no result."""
    rows = _rows(chosen)
    out.write(rows)
    if rows:
        print_table(console, energy_table(rows))
    for board in chosen:
        console.print(board_line(board, "finished"), markup=False, soft_wrap=True)
    lacking = [line for board in chosen for line in not_to_be_had(asked, board)]
    failed = [*lacking, *failures(rows), *filter(None, [out.problem])]
    for line in failed:
        console.print(line, markup=False, soft_wrap=True, style="bold red")
    return int(bool(failed) or any(not board.well for board in chosen))


def not_to_be_had(asked: Asked, board: Board) -> list[str]:
    """What was asked for by name and this board cannot do, by what it says of itself."""
    if board.device is None or board.phase == "refused":
        return []
    try:
        skipped = expand_asked(asked, offer_of(board)).skipped
    except SettingsError:  # the board knows a name that it did not describe
        return []
    return [f"{board.dut}: {line}" for line in left_out_lines(left_out_of(named(asked.campaign, skipped)))]


def stop_command(args: argparse.Namespace, chosen: Iterable[Board]) -> str:
    """What to type to stop these boards."""
    broker = f" --broker {args.broker_url}" if args.broker_url else ""
    site = f" --site {args.site}" if args.site else ""
    return f"opjoule run stop --dut {','.join(board.dut for board in chosen)}{broker}{site}"


def _described(board: Board) -> str:
    if board.device is None:
        return "it has not described itself"
    return f"{board.device.model}, {board.device.architecture}, OpenSSL {board.device.openssl}"


def offer_of(board: Board) -> Offer:
    """What a board says that it can do. Raises SettingsError where it says nothing."""
    device = board.device
    if device is None:
        raise SettingsError(f"the runner of {board.dut} has not said what it can do")
    reasons = {(each.operation, each.parameter_set): each.reason for each in device.skipped}
    added = {name: of_provider(name, operations) for name, operations in device.added_by_providers.items()}
    known = {**added, **CATALOGUE}
    sets = {name: known[name] for name in device.parameter_sets if name in known}
    return Offer(device.openssl, sets, {backend: reasons for backend in device.backends})
