"""Makes the secrets of the containers, each into the volume of its one reader. What is there already stays.

`setup.py secrets`   authority, the broker's files, one account per service, Grafana's password     before all else
`setup.py influxdb`  organisation, bucket and the two tokens; `--renew` makes new tokens           once InfluxDB runs

All volumes lie below /volumes. Every step can be cut short and repeated.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from pydantic import ValidationError
from store import Store, make_tokens

from errors import SettingsError
from opjoule.fleet.files import private_folder, write_private
from opjoule.fleet.fleet import Fleet, create, opened
from opjoule.fleet.members import Member
from opjoule.fleet.passwords import new_password

PLACE = PurePosixPath("/run/opjoule")
"""Where a service sees its own volume of secrets."""
BROKER = "mosquitto"
PORT = 8883
INSIDE = (BROKER, "localhost", "127.0.0.1")
"""Names of the broker that hold inside the containers and on this host."""
RENEW_BEFORE = timedelta(days=60)
"""The broker's certificate is made anew when less of its life is left."""
HEALTH = Member(role="reader", name="health")
HEALTH_FOLDER = "health"


def members(environment: Mapping[str, str]) -> dict[str, Member]:
    """The accounts, by the volume that their bundle goes to. Raises SettingsError."""
    site, dut = environment["OPJOULE_SITE"], environment["DEMO_DUT"]
    return {
        "aggregator-secrets": Member(role="aggregator", name="main", home_assistant=True),
        "meter-secrets": _meter(site, environment["METER_DUT"]),
        "simulated-meter-secrets": Member(role="meter", site=site, name="simulated", duts=(dut,)),
        "runner-secrets": Member(role="runner", site=site, name=dut, duts=(dut,)),
    }


def _meter(site: str, names: str) -> Member:
    """The account of the service `meter`, from METER_DUT."""
    duts = tuple(each.strip() for each in names.split(",") if each.strip())
    try:
        return Member(role="meter", site=site, name="hub", duts=duts)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise SettingsError(f"METER_DUT={names} is no list of DUTs with commas: {said}") from None


def make_secrets(volumes: Path, environment: Mapping[str, str], now: datetime) -> None:
    """All secrets that need nobody else. Raises SettingsError."""
    outside = tuple(each.strip() for each in environment.get("HUB_HOSTS", "").split(",") if each.strip())
    hosts = tuple(dict.fromkeys((*outside, *INSIDE)))
    if not outside:
        print("HUB_HOSTS is empty: boards elsewhere cannot join before it names this host as they reach it")
    accounts, folder, broker = members(environment), volumes / "fleet", volumes / "broker-secrets"
    if not (folder / "private/fleet.json").exists():
        create(folder, hosts, PORT, broker, now)
        print(f"made the fleet's authority; the broker is {', '.join(hosts)}")
    with opened(folder) as fleet:
        if fleet.register.hosts != hosts or fleet.register.server_until - now < RENEW_BEFORE:
            fleet.renew(hosts, now)
            print(f"new certificate for the broker: {', '.join(hosts)}; restart it if it runs")
        for volume, member in accounts.items():
            hand_out(_bundle(fleet, folder, member, now), volumes / volume)
        check = broker / HEALTH_FOLDER
        hand_out(_bundle(fleet, folder, HEALTH, now), check)
        write_private(check / "mosquitto_sub", health_check(check / "password").encode())
        fleet.write_broker_files(now)
    keep(volumes / "grafana-secrets/grafana_admin_password")
    print("secrets are complete")


def _bundle(fleet: Fleet, folder: Path, member: Member, now: datetime) -> Path:
    """The bundle of a member that is enrolled as it stands here; else it is enrolled anew."""
    bundle = folder / "bundles" / member.folder
    enrolled = fleet.register.find(member.username)
    if enrolled is not None and enrolled.member == member and bundle.is_dir():
        return bundle
    if enrolled is not None:
        fleet.revoke(member.username, now)
    print(f"new account: {member.username}")
    return fleet.add(member, PLACE, now)


def hand_out(bundle: Path, target: Path) -> None:
    """Copy a bundle's files where they are not there as they should be. Raises SettingsError."""
    private_folder(target)
    for file in sorted(bundle.iterdir()):
        copy, content = target / file.name, file.read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            write_private(copy, content)


def keep(path: Path) -> str:
    """The secret in a file; a new one where there is none."""
    private_folder(path.parent)
    if not path.is_file() or not path.read_text("utf-8").strip():
        write_private(path, new_password().encode())
    return path.read_text("utf-8").strip()


def health_check(password_file: Path) -> str:
    """Options of mosquitto_sub, in the file that it reads by itself (mosquitto_sub(1), Files): no secret on a line."""
    place = PurePosixPath("/mosquitto/secrets") / HEALTH_FOLDER
    options = {
        "-h": "localhost",
        "-p": str(PORT),
        "-u": HEALTH.username,
        "-P": password_file.read_text("utf-8").strip(),
        "--cafile": str(place / "ca.pem"),
        "--cert": str(place / "client.pem"),
        "--key": str(place / "client.key"),
        "-W": "5",
    }
    return "".join(f"{name} {value}\n" for name, value in options.items())


def make_store(volumes: Path, environment: Mapping[str, str], renew: bool) -> None:
    """Organisation, bucket, and a token each for the aggregator and Grafana. Raises SettingsError."""
    store = Store(
        url=environment["OPJOULE_INFLUX_URL"],
        org=environment["OPJOULE_INFLUX_ORG"],
        bucket=environment["OPJOULE_INFLUX_BUCKET"],
        admin_token=keep(volumes / "influxdb-admin/influxdb_admin_token"),
        admin_password=keep(volumes / "influxdb-admin/influxdb_admin_password"),
    )
    files = {
        "write": volumes / "aggregator-secrets/influx_token",
        "read": volumes / "grafana-secrets/grafana_influx_token",
    }
    for line in make_tokens(store, files, write_private, renew):
        print(line)
    print("InfluxDB is ready")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, or 1 with one line that says who must act."""
    parser = argparse.ArgumentParser(prog="setup", description="Make the secrets of the containers.")
    parser.add_argument("what", choices=("secrets", "influxdb"))
    parser.add_argument("--volumes", type=Path, default=Path("/volumes"), help="where the volumes are [/volumes]")
    parser.add_argument("--renew", action="store_true", help="influxdb: new tokens; the old ones end")
    args = parser.parse_args(arguments)
    try:
        if args.what == "secrets":
            make_secrets(args.volumes, os.environ, datetime.now(UTC).replace(microsecond=0))
        else:
            make_store(args.volumes, os.environ, args.renew)
    except SettingsError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
