"""The `opjoule` command. A subcommand's module is imported only when it is asked for."""

import argparse
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from types import ModuleType

from errors import ContractError, SettingsError
from opjoule.entry import heed_interrupts


@dataclass(frozen=True, slots=True)
class Subcommand:
    """Where a subcommand lives: a module with `SUMMARY`, `add_arguments(parser)` and `run(args)`, the exit status."""

    module: str
    extra: str
    summary: str


SUBCOMMANDS: dict[str, Subcommand] = {
    "demo": Subcommand(
        "opjoule.demo", "all", "real OpenSSL operations become joules, for about a minute (SIMULATED power)"
    ),
    "run": Subcommand(
        "opjoule.run", "demo", "measure: times on this machine, or energy on boards; campaigns and plans"
    ),
    "study": Subcommand("opjoule.study", "all", "recompute a published study from its recordings, figure by figure"),
    "results": Subcommand("opjoule.results", "aggregator", "what the journal holds, as table, CSV or JSON"),
    "watch": Subcommand("opjoule.watch", "demo", "power, segments and results of the boards, live in the terminal"),
    "meter": Subcommand(
        "opjoule.meter", "meter", "which meters are plugged in, whether one works, and recordings of one"
    ),
    "schemas": Subcommand(
        "opjoule.schema_export", "dev", "write the JSON Schema files and the AsyncAPI document, or check them"
    ),
    "fleet": Subcommand("opjoule.fleet", "fleet", "who may enter the broker: make the authority, add, revoke, list"),
    "dashboards": Subcommand("opjoule.dashboards.command", "dev", "write deploy/grafana from its Python values"),
    "grafana": Subcommand(
        "opjoule.grafana", "grafana", "put data source, dashboards and annotations into a Grafana that is there"
    ),
    "influx": Subcommand(
        "opjoule.influx",
        "aggregator",
        "whether InfluxDB is as the aggregator and the panels need it; send results again",
    ),
    "health": Subcommand(
        "opjoule.health", "all", "whether a service is online, as its broker knows it (for containers)"
    ),
}

INTERRUPTED = 130
"""Exit status of a shell's child ended by SIGINT."""
PIPE_CLOSED = 141
"""Exit status of a shell's child ended by SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand that the arguments name and return its exit status."""
    _never_refuse_a_character()
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser()
    if not given:
        parser.print_help(sys.stderr)
        return 2
    name = parser.parse_args(given[:1]).subcommand
    try:
        status = _run(name, given[1:])
        sys.stdout.flush()
    except (SettingsError, ContractError) as error:
        return _refuse(name, f": {error}")
    except ModuleNotFoundError as error:
        return _refuse(name, _what_is_missing(SUBCOMMANDS[name], error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return PIPE_CLOSED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="opjoule",
        description=importlib.metadata.metadata("opjoule")["Summary"],
        epilog="\n".join(["subcommands:", *(f"  {name:8} {each.summary}" for name, each in SUBCOMMANDS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="opjoule [--help | --version] SUBCOMMAND ...",
    )
    parser.add_argument("--version", action="version", version=f"opjoule {importlib.metadata.version('opjoule')}")
    parser.add_argument(
        "subcommand", choices=list(SUBCOMMANDS), metavar="SUBCOMMAND", help="`opjoule SUBCOMMAND --help` says more"
    )
    return parser


def _run(name: str, arguments: Sequence[str]) -> int:
    module: ModuleType = importlib.import_module(SUBCOMMANDS[name].module)
    heed_interrupts()
    parser = argparse.ArgumentParser(prog=f"opjoule {name}", description=module.SUMMARY)
    module.add_arguments(parser)
    status: int = module.run(parser.parse_args(arguments))
    return status


def _what_is_missing(subcommand: Subcommand, error: ModuleNotFoundError) -> str:
    missing = error.name or ""
    if importlib.util.find_spec(missing.partition(".")[0]):
        return f": this installation lacks {missing}: install opjoule anew"
    return f" needs {missing}: pip install 'opjoule[{subcommand.extra}]'"


def _refuse(name: str, line: str) -> int:
    print(f"opjoule {name}{line}", file=sys.stderr)
    return 2


def _never_refuse_a_character() -> None:
    """A terminal or pipe whose encoding lacks a character gets a question mark instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _forget_output() -> None:
    """Whoever read our output has gone: what is still buffered goes nowhere, so that closing it cannot fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
