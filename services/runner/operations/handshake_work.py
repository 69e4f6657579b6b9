"""Handshakes of one group and one certificate as work: in this process, or in a child that is told the case."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass

from errors import SettingsError
from runner.job import Job
from runner.nulls import HANDSHAKE_NULL
from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.openssl.libraries import Libraries
from runner.openssl.tls import (
    Credentials,
    Handshaker,
    Loopback,
    TlsError,
    TlsLibrary,
    agreement_error,
    certificate_bytes,
    check_error,
    count_many,
    open_contexts,
    segments,
)
from runner.openssl.tls_names import signature_scheme, tls_group
from runner.operations.work import Work
from runner.train import Repeat, Repetition
from schemas import Handshake

DONE = Repetition(None, 0.0)
"""One for all repetitions, so that nothing grows."""


@dataclass(frozen=True, slots=True)
class HandshakeCase:
    """What a process needs to know for its handshakes; the certificate is a file already."""

    job: Job
    libraries: Libraries
    credentials: Credentials
    size_unknown: bool


def handshake_work(case: HandshakeCase) -> Work:
    """Both ends are tried, and what a handshake takes is counted, before the train. Raises SettingsError."""
    job = case.job
    with ExitStack() as opened:
        group, scheme = tls_group(job.parameter_set), signature_scheme(job.certificate)
        contexts = open_contexts(TlsLibrary(case.libraries), group, scheme, case.credentials)
        opened.callback(contexts.close)
        handshaker = Handshaker(contexts, opened.enter_context(closing(listening())))
        found = _tried(job, handshaker)
        close = opened.pop_all().close
    return Work(
        variant=f"certificate={job.certificate}",
        begin=lambda limit_s: repeating(lambda: handshaker.once(limit_s)),
        null_variant=HANDSHAKE_NULL,
        output_bytes={
            "client_bytes": found.client_bytes,
            "server_bytes": found.server_bytes,
            "certificate": certificate_bytes(case.credentials),
        },
        size_unknown=case.size_unknown,
        check=lambda: check_error(handshaker, PREPARATION_LIMIT_S),
        handshake=lambda: found,
        close=close,
    )


def listening() -> Loopback:
    """A listening socket. Raises SettingsError where the system has none on loopback."""
    try:
        return Loopback()
    except OSError as error:
        raise SettingsError(f"no listening socket on loopback: {error.strerror}") from None


def repeating(once: Callable[[], None]) -> Repeat:
    """Repetitions that fail with one line where `once` gives up."""

    def repeat() -> Repetition:
        try:
            once()
        except TlsError as error:
            return Repetition(str(error), 0.0)
        except OSError as error:
            return Repetition(f"no connection on loopback: {error.strerror}", 0.0)
        return DONE

    return repeat


def _tried(job: Job, handshaker: Handshaker) -> Handshake:
    """What handshakes take, once the first has shown that they agree on what was asked for."""
    try:
        with handshaker.finished(PREPARATION_LIMIT_S) as (sessions, _):
            error = agreement_error(handshaker, sessions[0])
        if error is not None:
            raise TlsError(error)
        means = count_many(handshaker, PREPARATION_LIMIT_S)
        return Handshake(
            group=job.parameter_set,
            certificate=job.certificate,
            **means._asdict(),
            segments=segments(handshaker, PREPARATION_LIMIT_S),
        )
    except (TlsError, OSError) as error:
        raise SettingsError(f"{job}: {error}") from None
