"""The subcommands of `opjoule fleet`."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from errors import SettingsError
from opjoule.fleet.bundle import DEFAULT_PLACE, SETTINGS_FILE
from opjoule.fleet.fleet import create, opened
from opjoule.fleet.members import Enrolled, Member, Register, Role
from opjoule.places import state_dir

SUMMARY = "Who may enter the broker: make a certificate authority, add and revoke devices and people."
DEFAULT_PORT = 8883
"""As registered with IANA (secure-mqtt)."""
SOON = timedelta(days=30)
YOUNGEST_CLOCK = datetime(2025, 1, 1, tzinfo=UTC)
"""opjoule is younger: a clock that says less was never set."""
_RELOAD = "tell the broker to read them (SIGHUP)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule fleet`."""
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--dir",
        type=Path,
        default=state_dir() / "fleet",
        metavar="FOLDER",
        help="the fleet's folder [default: fleet in the state directory]",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="init|add|revoke|renew|list")
    _add_init(actions.add_parser("init", help="make the authority and the broker's certificate and files"))
    _add_add(actions.add_parser("add", help="credentials and a bundle for a device, a service or a person"), where)
    revoke = actions.add_parser("revoke", parents=[where], help="shut an account out")
    revoke.add_argument("username", metavar="NAME", help="as `opjoule fleet list` names it, e.g. lab/pi4")
    renew = actions.add_parser("renew", parents=[where], help="a new certificate for the broker; devices need nothing")
    renew.add_argument("--host", action="append", default=[], help="new names and addresses; else those it has")
    actions.add_parser("list", parents=[where], help="accounts and when certificates expire")


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="FOLDER", help="a folder for the fleet, kept on this machine only")
    parser.add_argument(
        "--host",
        action="append",
        required=True,
        help="name or address by which devices reach the broker; may be repeated, the first goes into the bundles",
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"the broker's TLS port [default: {DEFAULT_PORT}]"
    )
    parser.add_argument(
        "--broker-dir",
        type=Path,
        metavar="FOLDER",
        help="where the broker's files go; they belong to this folder's owner [default: FOLDER/broker]",
    )


def _add_add(parser: argparse.ArgumentParser, where: argparse.ArgumentParser) -> None:
    common = argparse.ArgumentParser(add_help=False, parents=[where])
    common.add_argument(
        "--at",
        type=PurePosixPath,
        default=DEFAULT_PLACE,
        metavar="FOLDER",
        help=f"where the bundle will lie on the device, for the paths in {SETTINGS_FILE} [default: {DEFAULT_PLACE}]",
    )
    roles = parser.add_subparsers(dest="role", required=True, metavar="runner|meter|aggregator|reader|operator")
    runner = roles.add_parser("runner", parents=[common], help="the runner of one board")
    runner.add_argument("site", metavar="SITE")
    runner.add_argument("name", metavar="DUT")
    meter = roles.add_parser("meter", parents=[common], help="a meter service")
    meter.add_argument("site", metavar="SITE")
    meter.add_argument("name", metavar="NAME", help="the instance: the name of the meter service in topics")
    meter.add_argument("--duts", required=True, metavar="A,B", help="the DUTs whose power it measures")
    for role in ("aggregator", "reader", "operator"):
        each = roles.add_parser(role, parents=[common], help=f"{role} of one site or all")
        each.add_argument("name", metavar="NAME")
        each.add_argument("--site", help="only this site [default: all]")
        if role != "operator":
            each.add_argument("--home-assistant", action="store_true", help="with Home Assistant's discovery topics")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; exit status 0, or 1 where `list` finds a certificate expired."""
    now = datetime.now(UTC).replace(microsecond=0)
    if now < YOUNGEST_CLOCK:
        raise SettingsError(f"this machine's clock says {now:%Y-%m-%d}: set it first, certificates carry dates")
    return _ACTIONS[args.action](args, now)


def _init(args: argparse.Namespace, now: datetime) -> int:
    if not 1 <= args.port <= 65_535:
        raise SettingsError(f"--port {args.port} is no port")
    register = create(args.dir, tuple(args.host), args.port, args.broker_dir or args.dir / "broker", now)
    print(f"authority: good until {register.authority_until:%Y-%m-%d}; keep {args.dir}/private to yourself, and a copy")
    print(f"broker: {args.dir / register.broker_folder}, certificate good until {register.server_until:%Y-%m-%d}")
    return 0


def _add(args: argparse.Namespace, now: datetime) -> int:
    member = _member(args)
    with opened(args.dir) as fleet:
        was_in = fleet.register.find(member.username) is not None
        folder = fleet.add(member, args.at, now)
        broker_folder = fleet.broker_folder
    if was_in:
        print(f"{member.username} is there already, its bundle as it was in {folder}; revoke it for new credentials")
    else:
        print(f"{member.username}: bundle in {folder}; copy it to {args.at} on the device")
    print(f"the broker's files in {broker_folder} are new: {_RELOAD}")
    return 0


def _revoke(args: argparse.Namespace, now: datetime) -> int:
    with opened(args.dir) as fleet:
        was_in = fleet.revoke(args.username, now)
        broker_folder = fleet.broker_folder
    print(f"{args.username}: {'revoked' if was_in else 'was revoked before'}")
    print(f"the broker's files in {broker_folder} are new: {_RELOAD}")
    return 0


def _renew(args: argparse.Namespace, now: datetime) -> int:
    with opened(args.dir) as fleet:
        fleet.renew(tuple(args.host), now)
        register, broker_folder = fleet.register, fleet.broker_folder
    print(f"broker: certificate for {', '.join(register.hosts)} good until {register.server_until:%Y-%m-%d}")
    print(f"the broker's files in {broker_folder} are new: {_RELOAD}")
    return 0


def _list(args: argparse.Namespace, now: datetime) -> int:
    with opened(args.dir) as fleet:
        register = fleet.register
    print(f"authority: {_expiry(register.authority_until, now)}")
    print(f"broker: {register.hosts[0]}:{register.port}, certificate {_expiry(register.server_until, now)}")
    for each in sorted(register.enrolled, key=lambda enrolled: enrolled.member.username):
        print(f"{each.member.username}: {_what(each)}, certificate {_expiry(each.until, now)}")
    for gone in register.revoked:
        print(f"{gone.username}: revoked {gone.revoked:%Y-%m-%d}")
    return 1 if _has_expired(register, now) else 0


def _has_expired(register: Register, now: datetime) -> bool:
    ends = [register.authority_until, register.server_until, *(each.until for each in register.enrolled)]
    return min(ends) <= now


def _what(enrolled: Enrolled) -> str:
    member = enrolled.member
    served = f" of {', '.join(member.duts)}" if member.role == "meter" else ""
    return f"{member.role}{served}, added {enrolled.added:%Y-%m-%d}"


def _expiry(until: datetime, now: datetime) -> str:
    if until <= now:
        return f"EXPIRED {until:%Y-%m-%d}"
    return f"good until {until:%Y-%m-%d}" + (" (soon: opjoule fleet renew)" if until - now < SOON else "")


def _member(args: argparse.Namespace) -> Member:
    role: Role = args.role
    duts = (args.name,) if role == "runner" else _split(getattr(args, "duts", ""))
    given = {"role": role, "name": args.name, "site": args.site, "duts": duts}
    try:
        return Member.model_validate({**given, "home_assistant": getattr(args, "home_assistant", False)})
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else role
        raise SettingsError(f"{field}: {first['msg'].removeprefix('Value error, ')}, not {first['input']!r}") from None


def _split(names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


_ACTIONS: dict[str, Callable[[argparse.Namespace, datetime], int]] = {
    "init": _init,
    "add": _add,
    "revoke": _revoke,
    "renew": _renew,
    "list": _list,
}
