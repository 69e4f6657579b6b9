"""What the tests of handshakes do in a Python that runs on the libraries of an OpenSSL: one answer in JSON."""

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.job import Job
from runner.openssl import OpenSslCli, find_openssl
from runner.openssl.libraries import Libraries, find_libraries
from runner.openssl.tls import (
    Handshaker,
    Loopback,
    TlsError,
    TlsLibrary,
    check_error,
    counting,
    make_credentials,
    offered,
    open_contexts,
)
from runner.openssl.tls.contexts import knows_scheme, new_context
from runner.openssl.tls_names import SCHEMES, signature_scheme, tls_group
from runner.operations.handshake import prepare_handshake
from runner.operations.handshake_work import repeating
from runner.operations.work import Bench
from runner.segments import PRESETS, plan_train
from runner.stopping import Stop
from runner.train import trial_s
from schemas import CATALOGUE, ParameterSet

LIMIT_S = 20.0


@contextmanager
def a_cli(program: str) -> Iterator[OpenSslCli]:
    """The command line of a program (empty: the one that would be measured), in a folder that goes away."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Stop()) as stop,
        closing(OpenSslCli(find_openssl(program or None).openssl, Path(folder), stop)) as cli,
    ):
        yield cli


def a_library(cli: OpenSslCli) -> TlsLibrary:
    """Its libssl."""
    libraries = find_libraries(cli.openssl)
    assert isinstance(libraries, Libraries), libraries
    return TlsLibrary(libraries)


@contextmanager
def a_handshaker(cli: OpenSslCli, group: str, certificate: str) -> Iterator[Handshaker]:
    """Ready for handshakes of a group and a certificate, by their parameter sets."""
    credentials = make_credentials(cli, cli.folder, certificate)
    opened = open_contexts(a_library(cli), tls_group(group), signature_scheme(certificate), credentials)
    with closing(opened) as contexts, Loopback() as loopback:
        yield Handshaker(contexts, loopback)


def pairs(cli: OpenSslCli) -> Any:
    """Every group and every certificate of the library in one handshake each: what came of it."""
    counting.COUNTED_S = 0.02
    found = {}
    library = a_library(cli)
    context = new_context(library, "secp256r1", "ecdsa_secp256r1_sha256", server=False)
    certificates = [name for name, scheme in SCHEMES.items() if knows_scheme(library, context, scheme)]
    library["SSL_CTX_free"](context)
    wanted = [
        *((group, "ECDSA-P-256") for group in offered(library).groups),
        *(("X25519", name) for name in certificates),
    ]
    for group, certificate in dict.fromkeys(wanted):
        job = Job("handshake", group, "lib", certificate=certificate)
        work = prepare_handshake(Bench(cli, cli.folder, job, CATALOGUE[group], 1))
        assert work.begin is not None
        assert work.handshake is not None
        try:
            found[f"{group}+{certificate}"] = {
                "error": work.begin(LIMIT_S)().error,
                "check": work.check(),
                "variant": work.variant,
                "null_variant": work.null_variant,
                "output_bytes": work.output_bytes,
                "handshake": work.handshake().model_dump(mode="json"),
            }
        finally:
            work.close()
    return found


def apart(cli: OpenSslCli, mask: str) -> Any:
    """A handshake measured in a process of its own, without and with a capability mask: what is known, and a train."""
    counting.COUNTED_S = 0.02
    found = {}
    for name, capability_mask in (("here", ""), ("masked", mask)):
        job = Job("handshake", "X25519", "lib", certificate="ECDSA-P-256", capability_mask=capability_mask)
        with closing(prepare_handshake(Bench(cli, cli.folder, job, CATALOGUE["X25519"], 1))) as work:
            assert work.begin is not None
            assert work.handshake is not None
            times_s = trial_s(work.begin(LIMIT_S), time.monotonic_ns)
            record = (
                work.run_train(plan_train(1, 1.5, times_s[0], PRESETS["short"]), 1, 0.0) if work.run_train else None
            )
            usage = work.usage()
            found[name] = {
                "variant": work.variant,
                "group": work.handshake().group,
                "check": work.check(),
                "cpu_time_s": usage.cpu_time_s,
                "client_cpu_s": work.handshake().client_cpu_s,
                "peak_memory_bytes": usage.peak_memory_bytes,
                "verified": record and sum(record.verified),
                "failed": record and record.failed,
            }
    return found


def added(cli: OpenSslCli, group: str) -> Any:
    """A handshake with a group that only a provider knows."""
    counting.COUNTED_S = 0.02
    each = ParameterSet(group, "provider", "opj", None, ("handshake",), 0, 0)
    job = Job("handshake", group, "lib", certificate="Ed25519")
    with closing(prepare_handshake(Bench(cli, cli.folder, job, each, 1))) as work:
        assert work.begin is not None
        assert work.handshake is not None
        return {
            "error": work.begin(LIMIT_S)().error,
            "check": work.check(),
            "size_unknown": work.size_unknown,
            "client_bytes": work.handshake().client_bytes,
            "offered": group in offered(a_library(cli)).other_groups,
        }


def offer(cli: OpenSslCli) -> Any:
    """What the library offers, and its words for what it does not."""
    each = offered(a_library(cli))
    return {
        **each._asdict(),
        "no_group": [each.group_error(name) for name in ("X25519", "ffdhe2048", "kyber9", "ML-KEM-768")],
    }


def freshness(cli: OpenSslCli) -> Any:
    """Two handshakes one after the other: was the second resumed, and has the server sent anything after the first?"""
    with a_handshaker(cli, "X25519", "Ed25519") as handshaker:
        library, contexts = handshaker.library, handshaker.contexts
        reused, later_bytes = [], []
        for _ in range(2):
            with handshaker.finished(LIMIT_S) as ((client, server), ends):
                reused += [library["SSL_session_reused"](client), library["SSL_session_reused"](server)]
                try:
                    later_bytes.append(len(ends.client.recv(1)))
                except BlockingIOError:
                    later_bytes.append(0)
        tickets = [library["SSL_CTX_get_num_tickets"](each) for each in (contexts.client, contexts.server)]
        return {"reused": reused, "later_bytes": later_bytes, "tickets": tickets}


def failures(cli: OpenSslCli) -> Any:
    """What is said of handshakes that must not succeed, and of checks whose expectation is not met."""
    with (
        a_handshaker(cli, "X25519", "Ed25519") as good,
        a_handshaker(cli, "X25519", "Ed25519") as other,
        a_handshaker(cli, "X448", "Ed25519") as third,
    ):
        contexts, loopback = good.contexts, good.loopback
        foreign = Handshaker(replace(contexts, client=other.contexts.client), loopback)
        found = {
            "good": said(lambda: good.once(LIMIT_S)),
            "another authority": said(lambda: foreign.once(LIMIT_S)),
            "another name": said(lambda: Handshaker(contexts, loopback, "elsewhere.invalid").once(LIMIT_S)),
            "another group": said(
                lambda: Handshaker(replace(contexts, client=third.contexts.client), loopback).once(LIMIT_S)
            ),
            "group": check_error(Handshaker(replace(contexts, group="X448"), loopback), LIMIT_S),
            "scheme": check_error(Handshaker(replace(contexts, scheme="ed448"), loopback), LIMIT_S),
            "repetition": repeating(lambda: foreign.once(LIMIT_S))().error,
        }
        good.library["SSL_CTX_set_verify"](other.contexts.client, 0, None)
        return found | {"careless client": said(lambda: foreign.once(LIMIT_S))}


def said(go: Callable[[], object]) -> str | None:
    """The text of its failure."""
    try:
        go()
    except TlsError as error:
        return str(error)
    return None


def growth(cli: OpenSslCli) -> Any:
    """Resident memory after 500 and 5,500 handshakes; what 10,000 connections more leave behind."""
    with a_handshaker(cli, "X25519", "Ed25519") as handshaker:
        resident, descriptors = [], len([*Path("/proc/self/fd").iterdir()])
        repeat = repeating(lambda: handshaker.once(LIMIT_S))
        gc.disable()
        for handshakes in (500, 5000):
            assert [each for each in (repeat().error for _ in range(handshakes)) if each] == []
            resident.append(resident_bytes())
        for _ in range(10_000):
            handshaker.loopback.connect().close()
        left = len([*Path("/proc/self/fd").iterdir()]) - descriptors
        return {"resident": resident, "waiting": waiting(handshaker.loopback.address[1]), "descriptors_left": left}


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def waiting(port: int) -> int:
    """Connections of this port that the kernel keeps in TIME_WAIT."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "06" and f":{port:04X}" in row[1] + row[2] for row in rows)


def sizes(cli: OpenSslCli, group: str, certificate: str, folder: str) -> Any:
    """Bytes by direction of one handshake; certificate and key are left in `folder`."""
    credentials = make_credentials(cli, Path(folder), certificate)
    opened = open_contexts(a_library(cli), tls_group(group), signature_scheme(certificate), credentials)
    with closing(opened) as contexts, Loopback() as loopback:
        means = counting.count_many(Handshaker(contexts, loopback), LIMIT_S)
    return {"client": means.client_bytes, "server": means.server_bytes}


if __name__ == "__main__":
    with a_cli(sys.argv[1]) as opened_cli:
        print(json.dumps(globals()[sys.argv[2]](opened_cli, *sys.argv[3:])))
