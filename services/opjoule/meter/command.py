"""The subcommands of `opjoule meter`."""

import argparse
import dataclasses
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import get_args

from meter.protocols.fnirsi import Family
from opjoule.meter.doctor import LISTEN_S, NOTHING, chosen, examine, nothing
from opjoule.meter.findings import STATUS, Finding, verdict, worst
from opjoule.meter.plugged import Host, Plugged, look
from opjoule.meter.record import Recorded, must_be_new, progress_on_terminal, record, the_one

SUMMARY = "Which meters are plugged in, whether one works, and recordings of what one says."
ENDED_EARLY = 1
"""Exit status of `record` where the file does not hold all that was asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule meter`."""
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument("--node", metavar="NODE", help="the meter at this node, or at this USB port (1-1.4)")
    which.add_argument("--serial", metavar="NUMBER", help="the meter with this serial number")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|doctor|record")
    listing = actions.add_parser("list", help="every meter that is plugged in, and what may be one")
    listing.add_argument("--format", choices=("table", "json"), default="table", help="[default: table]")
    listing.add_argument(
        "--ask", action="store_true", help="send `query` to serial ports that may be a TC66C, to know whether they are"
    )
    actions.add_parser(
        "doctor",
        parents=[which],
        help="check rights, reads for a few seconds, say what is wrong and who must act; serial ports that may be a "
        "TC66C are sent the word `query`. Exit status 0: fine, 1: works with a doubt, 2: somebody must act",
    )
    recording = actions.add_parser(
        "record", parents=[which], help="write down all that a meter says; Ctrl-C ends it well"
    )
    recording.add_argument("file", type=Path, metavar="FILE.raw.gz", help="a file that is not there yet")
    recording.add_argument("--seconds", type=_seconds, metavar="N", help="end after so long [default: at Ctrl-C]")
    recording.add_argument("--family", choices=get_args(Family), help="how a FNIRSI meter is started, if not by model")
    recording.add_argument(
        "--keep-alive-s", type=_interval_s, metavar="S", help="how often it is told to go on; 0: once per report"
    )


def run(args: argparse.Namespace) -> int:
    """The exit status."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    if args.action == "list":
        return list_meters(look(ask=lambda port: args.ask), args.format == "json")
    if args.action == "record":
        must_be_new(args.file)
    host = look(ask=lambda port: args.node in (None, port.node))
    meters = chosen(host, args.node, args.serial)
    if not meters:
        print(f"verdict: {nothing(host, bool(args.node or args.serial))}")
        return STATUS["error"]
    return examine_all(meters) if args.action == "doctor" else record_one(args, host, the_one(meters))


def record_one(args: argparse.Namespace, host: Host, plugged: Plugged) -> int:
    """Record a meter as the flags say."""
    others = [each for each in host.plugged if each is not plugged]
    with interruption() as was_interrupted:
        recorded = record(
            plugged,
            others,
            args.file,
            lambda duration_s: was_interrupted() or (args.seconds is not None and duration_s >= args.seconds),
            args.family,
            args.keep_alive_s,
            progress_on_terminal,
        )
    return say_recorded(args.file, plugged, recorded)


def list_meters(host: Host, as_json: bool) -> int:
    """Print all that is plugged in. 0 also where nothing is: that is an answer."""
    for remark in host.remarks:
        print(remark, file=sys.stderr)
    if as_json:
        print(json.dumps([_as_json(each) for each in host.plugged], indent=2))
        return 0
    if not host.plugged:
        print(NOTHING)
    rows = [("model", "node", "port", "serial", "may open", ""), *map(_row, host.plugged)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if host.plugged else []:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def examine_all(meters: list[Plugged]) -> int:
    """Check one after the other; the worst decides."""
    status = 0
    for plugged in meters:
        print(f"{plugged.name}: reading for {LISTEN_S:.0f} s" if plugged.is_a != "not" else plugged.name, flush=True)
        findings: list[Finding] = []
        for finding in examine(plugged):
            findings.append(finding)
            print(finding, flush=True)
        print(verdict(plugged.name, findings), flush=True)
        status = max(status, STATUS[worst(findings)])
    return status


def say_recorded(path: Path, plugged: Plugged, recorded: Recorded) -> int:
    """What came of a recording."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(
        f"{path}: {recorded.frames} frames, {recorded.samples} samples of {plugged.name} in {recorded.duration_s:.1f} s"
    )
    if recorded.problem:
        print(f"opjoule meter: {path} ends early: {recorded.problem}; what it holds can be played", file=sys.stderr)
    elif not recorded.samples:
        print(f"opjoule meter: no samples came: {recorded.detail or 'it ended too soon'}", file=sys.stderr)
    return ENDED_EARLY if recorded.problem or not recorded.samples else 0


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM are noted, so that no frame is cut in two; a second one ends at once, as usual."""
    noted: list[int] = []
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    before = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for each in before:
        signal.signal(each, note)
    try:
        yield lambda: bool(noted)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _as_json(plugged: Plugged) -> dict[str, object]:
    device = dataclasses.asdict(plugged.device)
    ids = device.pop("ids")
    return {
        "source": plugged.source,
        "model": plugged.model,
        "is_a": plugged.is_a,
        **device,
        "vendor_id": ids[0] if ids else None,
        "product_id": ids[1] if ids else None,
        "may_open": plugged.may_open,
        "remark": plugged.remark,
    }


def _row(plugged: Plugged) -> tuple[str, str, str, str, str, str]:
    may = {True: "yes", False: "no", None: "?"}[plugged.may_open]
    device = plugged.device
    return (plugged.model, device.node, device.port or "", device.serial or "", may, plugged.remark)


def _seconds(text: str) -> float:
    seconds = _number(text)
    if not 0 < seconds <= 31 * 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and {31 * 86_400} seconds")
    return seconds


def _interval_s(text: str) -> float:
    seconds = _number(text)
    if not 0 <= seconds <= 10:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 10 seconds")
    return seconds


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
