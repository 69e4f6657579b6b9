"""The command `opjoule run`: what to measure, on this machine or on boards, and what else one can ask of it."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from errors import SettingsError
from opjoule.printing import print_table
from opjoule.run.asked import OPERATIONS, Asked, Details, campaign_of
from opjoule.run.broker import add_broker_arguments, asks_for_boards
from opjoule.run.out import CsvFile
from runner.campaign_file import Campaign, campaign_of_items
from runner.shipped import is_path, load_campaign, shipped_campaigns
from runner.suggest import nearest
from schemas import CATALOGUE

SUMMARY = "Measure: times on this machine, or energy on the boards of a fleet (with --dut or --broker)."
EPILOG = """
what to measure (these words together, flags before or after them):
  sign ML-DSA-65 ECDSA-P-256   an operation with these parameter sets (or 'ML-*')
  all                          everything that the OpenSSL here offers
  demo, study-1, ...           a campaign that comes with opjoule: `opjoule run list`
  my.toml                      a campaign file
  sign:ML-DSA-65,null,sham     a list of items
other words:
  list                         the campaigns that come with opjoule
  plan WHAT                    what would run, how long it takes, what is left out
  stop                         stop the campaign of the boards, after their train
"""
WIDE = 80
"""Columns where the output is not a terminal."""
MOST_REPETITIONS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule run`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("what", nargs="+", metavar="WHAT", help="see below")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a CSV that has the study's columns")
    parser.add_argument("--backend", metavar="A[,B]", help="cli, lib or both, for operations and `all` [default: cli]")
    parser.add_argument("--form", metavar="F[,F2]", help="how the command line is used: pair, private, as-published")
    parser.add_argument("--message-bytes", type=int, metavar="N", help="size of what is signed [default: 19600]")
    parser.add_argument("--certificate", metavar="C[,C2]", help="what signs in a handshake, e.g. ML-DSA-65")
    here = parser.add_argument_group("this machine", "times only: no broker, no meter")
    here.add_argument(
        "--repetitions", type=int, metavar="N", help="exactly N [default: 100, or 10 where one takes over 1 s]"
    )
    here.add_argument("--machine", metavar="NAME", help="its name in the CSV [default: the host name]")
    here.add_argument("--openssl", metavar="PROGRAM", help="openssl program [OPJOULE_OPENSSL; default: 3.5 or newer]")
    here.add_argument("--no-trial", action="store_true", help="`plan` runs nothing, and knows less")
    add_broker_arguments(parser)
    parser.add_argument("--train-s", type=float, metavar="S", help="length of a train on boards [default: 60]")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often boards run the plan [default: 1]")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0, 1 where something failed or was left out, 2 for a wrong word, 130 after Ctrl-C.

    Raises SettingsError with one line.
    """
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    word, *rest = args.what
    if word == "list":
        return _list(console, rest)
    _refuse_contradictions(args, word)
    if word == "stop":
        return _stop(args, console, rest)
    if word != "plan":
        return _measure(args, console, asked_of(args, args.what))
    if not rest:
        raise SettingsError("plan needs what to plan, e.g. plan demo")
    return _plan(args, console, asked_of(args, rest))


def asked_of(args: argparse.Namespace, words: list[str]) -> Asked:
    """What the words and flags ask for. Raises SettingsError."""
    details = Details(
        backends=_listed(args.backend),
        forms=_listed(args.form),
        message_bytes=args.message_bytes,
        certificates=_listed(args.certificate),
        train_s=args.train_s,
        rounds=args.rounds,
    )
    return campaign_of(words, details, load_named)


def load_named(word: str) -> Campaign:
    """A comma list, else a shipped campaign or a file. Raises SettingsError with what may have been meant."""
    if is_path(word) or word.lower() in shipped_campaigns():
        return load_campaign(word)
    if word.lower() in ("null", "sham") or "," in word or ":" in word:
        return campaign_of_items(word)
    each = next((each for name, each in CATALOGUE.items() if name.lower() == word.lower()), None)
    if each is not None:
        raise SettingsError(f"say what to do with {each.name}, e.g. {each.operations[0]} {each.name}")
    raise SettingsError(f"nothing is called {word!r}: {nearest(word, [*shipped_campaigns(), *OPERATIONS])}")


def _measure(args: argparse.Namespace, console: Console, asked: Asked) -> int:
    out = CsvFile(args.out)
    out.must_be_writable()
    if asks_for_boards(args):
        from opjoule.run.fleet import measure_boards  # noqa: PLC0415

        return measure_boards(args, asked, console, out)
    from opjoule.run.local import measure_here  # noqa: PLC0415

    return measure_here(args, asked, console, out)


def _plan(args: argparse.Namespace, console: Console, asked: Asked) -> int:
    if asks_for_boards(args):
        from opjoule.run.fleet import plan_boards  # noqa: PLC0415

        return plan_boards(args, asked, console)
    from opjoule.run.planned import plan_here  # noqa: PLC0415

    return plan_here(args, asked, console)


def _stop(args: argparse.Namespace, console: Console, rest: list[str]) -> int:
    if rest:
        raise SettingsError(f"stop takes boards by --dut, not {rest[0]!r}")
    from opjoule.run.fleet import stop_boards  # noqa: PLC0415

    return stop_boards(args, console)


def _list(console: Console, rest: list[str]) -> int:
    if rest:
        raise SettingsError(f"list takes no more words, not {rest[0]!r}")
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(no_wrap=True)
    made.add_column()
    for name in shipped_campaigns():
        made.add_row(name, escape(load_campaign(name).description.partition("\n")[0]))
    print_table(console, made)
    return 0


def _refuse_contradictions(args: argparse.Namespace, word: str) -> None:
    if word == "stop" or asks_for_boards(args):
        _refuse_flags(args, ("repetitions", "machine", "openssl", "no_trial"), "boards: their runners decide that")
    elif word != "plan":
        _refuse_flags(args, ("train_s", "rounds"), "this machine: that has no trains, name a board")
    if args.repetitions is not None and not 1 <= args.repetitions <= MOST_REPETITIONS:
        raise SettingsError(f"--repetitions {args.repetitions} is not between 1 and {MOST_REPETITIONS}")


def _refuse_flags(args: argparse.Namespace, names: tuple[str, ...], where: str) -> None:
    given = [name for name in names if getattr(args, name)]
    if given:
        raise SettingsError(f"--{given[0].replace('_', '-')} is not for {where}")


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
