"""Which null train an operation needs: the same loop, processes and files without the cryptography. Pure.

The one place that knows the names. A null train's variant is its `null_variant`, and the aggregator subtracts from an
operation the nearest null train of the same backend with the variant that the operation's event names.
"""

from collections.abc import Iterable

from runner.job import Job

LIB_NULL = "calls=1"
"""One trivial call of libcrypto in the same loop."""
HANDSHAKE_NULL = "connection"
"""The loopback TCP connection made and closed without TLS."""


def null_variant_of(job: Job) -> str:
    """The variant of the null train to subtract; empty for null and sham trains, which have none.

    `processes=N` processes are started; the last of them reads the files named by `reads`.
    """
    match job.operation:
        case "null" | "sham":
            return ""
        case "handshake":
            return HANDSHAKE_NULL
    if job.backend != "cli":
        return LIB_NULL
    match job.operation:
        case "keygen":
            return "processes=1" if job.form == "private" else "processes=2,reads=key"
        case "sign" | "verify":
            return f"processes=1,reads=key+message,message_bytes={job.message_bytes}"
        case _:
            return "processes=1,reads=key"


def null_jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The null trains that these jobs need, each once, in the order in which they are first needed."""
    return tuple(dict.fromkeys(_null_job(job) for job in jobs if null_variant_of(job)))


def _null_job(job: Job) -> Job:
    return Job("null", backend=job.backend, message_bytes=_message_bytes(job), null_variant=null_variant_of(job))


def _message_bytes(job: Job) -> int:
    """A null train that reads no message has the usual size, so that it is one train for all who need it."""
    reads_message = job.backend == "cli" and job.operation in ("sign", "verify")
    return job.message_bytes if reads_message else Job("null").message_bytes
