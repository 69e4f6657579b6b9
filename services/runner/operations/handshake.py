"""Full TLS 1.3 handshakes on loopback by libssl, and their null train, the connection alone."""

from dataclasses import replace
from functools import partial

from errors import SettingsError
from runner.nulls import HANDSHAKE_NULL
from runner.openssl.lib.child import libraries_of
from runner.openssl.tls import make_credentials
from runner.openssl.tls_names import why_no_group
from runner.operations.handshake_work import HandshakeCase, handshake_work, listening, repeating
from runner.operations.lib.bench import masked_work, measured_usage
from runner.operations.work import Bench, Work

MODULE = "runner.operations.handshake_child"


def prepare_handshake(bench: Bench) -> Work:
    """Between two ends that share a group (the parameter set) and a certificate's signature scheme, and nothing else.

    In this process, or with a capability mask in a child. Raises SettingsError.
    """
    job = bench.job
    if not job.certificate:
        raise SettingsError(f"{job}: a handshake needs a certificate, such as ECDSA-P-256 or ML-DSA-65")
    if (reason := why_no_group(job.parameter_set)) is not None:
        raise SettingsError(reason)
    credentials = make_credentials(bench.cli, bench.folder, job.certificate)
    unknown = bench.parameter_set.family == "provider"
    case = HandshakeCase(job, libraries_of(bench.cli.openssl), credentials, unknown)
    usage = partial(measured_usage, bench, MODULE, case, job)
    if job.capability_mask:
        return masked_work(bench, MODULE, case, usage)
    return replace(handshake_work(case), usage=usage)


def prepare_connection(_: Bench) -> Work:
    """The null train of handshakes. Raises SettingsError where the system has no loopback."""
    loopback = listening()
    return Work(
        variant=HANDSHAKE_NULL,
        begin=lambda _: repeating(lambda: loopback.connect().close()),
        close=loopback.close,
    )
