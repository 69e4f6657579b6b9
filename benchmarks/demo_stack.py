"""`make demo-stack`: the whole stack without Docker, and how long it takes to show its first result.

A mosquitto with TLS, accounts and access list (`opjoule fleet`), Debian's influxd behind the shim that gives it the v2
write endpoint, aggregator, SIMULATED meter and a runner with real OpenSSL operations, each with its own bundle. The
results shown are read from influxd by InfluxQL, as Grafana reads them. The last line is the figures.
"""

import argparse
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from opjoule.fleet.fleet import create, opened
from opjoule.fleet.members import Member
from opjoule.local_broker import HOST, LocalBroker
from opjoule.processes import Services
from tests.influxd import DATABASE, Influxd, Shim

SITE, DUT = "demo", "this-machine"
MEMBERS = (
    Member(role="runner", site=SITE, name=DUT, duts=(DUT,)),
    Member(role="meter", site=SITE, name="hub", duts=(DUT,)),
    Member(role="aggregator", name="main"),
)
QUERY = (
    "SELECT net_j_per_op, u95_j_per_op FROM operation_energy WHERE valid = 1"
    " AND (operation = 'keygen' OR operation = 'sign' OR operation = 'null') GROUP BY operation, parameter_set, variant"
)
PLAN = "null:1,sign:ML-DSA-65,sign:ECDSA-P-256,keygen:ML-KEM-768"


def main() -> int:
    """Exit status 0 when results of every train came into the store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default=PLAN, help="as the runner's --plan")
    parser.add_argument("--train-s", type=float, default=7.0)
    parser.add_argument("--limit-s", type=float, default=180.0, help="give up after so long")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="opjoule-stack-") as name, ExitStack() as stack:
        folder = Path(name)
        set_up_s = time.monotonic()
        port = _free_port()
        _make_fleet(folder / "fleet", port)
        influxd = stack.enter_context(Influxd(folder / "influxd"))
        influxd.create()
        shim = stack.enter_context(Shim(influxd))
        print(f"set-up: {time.monotonic() - set_up_s:.1f} s (certificates, accounts, influxd with database {DATABASE})")
        start_s = time.monotonic()
        stack.enter_context(LocalBroker(folder / "broker", port=port, secrets=folder / "fleet" / "broker"))
        services = stack.enter_context(Services(folder))
        _start(services, folder, shim.url, args)
        first_s, rows = _watch(services, influxd, start_s, args.limit_s)
        left_out = services.status("runner")
    print(f"first_result_s={first_s:.1f} results={rows} runner_exit={left_out}")
    return 0 if rows and left_out == 0 else 1


def _make_fleet(fleet: Path, port: int) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    create(fleet, (HOST,), port, fleet / "broker", now)
    with opened(fleet) as made:
        for member in MEMBERS:
            made.add(member, PurePosixPath(fleet / "bundles" / member.folder), now)


def _bundle(folder: Path, member: Member) -> dict[str, object]:
    """The settings of a bundle, as flags."""
    text = (folder / "fleet" / "bundles" / member.folder / "opjoule.env").read_text("utf-8")
    pairs = (line.split("=", 1) for line in text.splitlines())
    return {key.removeprefix("OPJOULE_").lower(): value for key, value in pairs}


def _start(services: Services, folder: Path, influx_url: str, args: argparse.Namespace) -> None:
    runner, meter, aggregator = (_bundle(folder, member) for member in MEMBERS)
    token = folder / "token"
    token.write_text("none is asked for by this influxd\n", "utf-8")
    store: Mapping[str, object] = {"influx_url": influx_url, "influx_bucket": DATABASE, "influx_token_file": token}
    services.start("aggregator", {**aggregator, "state_dir": folder, **store})
    plan = {"plan": args.plan, "train_s": args.train_s, "rounds": 1, "gap_s": 1, "start_delay_s": 2, "resend_s": 2}
    pid = services.start("runner", {**runner, "state_dir": folder, **plan})
    simulated = {"source": "simulated", "dut": DUT, "meter": "simulated-1", "simulated_pid": pid, "resend_s": 2}
    services.start("meter", {**meter, "state_dir": folder, **simulated})


def _watch(services: Services, influxd: Influxd, start_s: float, limit_s: float) -> tuple[float, int]:
    """Print results as they come into the store. Seconds to the first one, and how many there are in the end."""
    seen: set[tuple[str, ...]] = set()
    first_s = float("nan")
    ended_s: float | None = None
    while time.monotonic() - start_s < limit_s and (ended_s is None or time.monotonic() - ended_s < 10.0):
        services.must_run("aggregator", "meter")
        for series in influxd.query(QUERY):
            key = tuple(series.tags[name] for name in ("operation", "parameter_set", "variant"))
            for row in series.rows():
                if key not in seen:
                    seen.add(key)
                    first_s = time.monotonic() - start_s if len(seen) == 1 else first_s
                    energy = f"{1e3 * row['net_j_per_op']:.2f} ± {1e3 * row['u95_j_per_op']:.2f} mJ SIMULATED"
                    print(f"{time.monotonic() - start_s:6.1f} s  {' '.join(key)}: {energy}", flush=True)
        if ended_s is None and services.status("runner") is not None:
            ended_s = time.monotonic()
        time.sleep(0.2)
    return first_s, len(seen)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
