"""The operations of the `lib` backend, and how a job becomes work."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType

from errors import SettingsError
from runner.nulls import LIB_NULL
from runner.openssl.lib import Crypto, Session
from runner.openssl.lib.repetitions import comparing_nothing
from runner.operations.lib.agreement import prepare_derive
from runner.operations.lib.case import Case, Prepare
from runner.operations.lib.encryption import prepare_decrypt, prepare_encrypt
from runner.operations.lib.kem import prepare_decaps, prepare_encaps
from runner.operations.lib.keygen import prepare_keygen
from runner.operations.lib.signatures import prepare_sign, prepare_verify
from runner.operations.work import Work
from schemas import Operation


def prepare_null(session: Session, case: Case) -> Work:
    """The same loop with the cheapest call of libcrypto."""
    if case.job.null_variant not in ("", LIB_NULL):
        raise SettingsError(f"the lib backend has no null train {case.job.null_variant}: it has {LIB_NULL}")
    repeat = comparing_nothing(session.crypto)
    return Work(variant=LIB_NULL, begin=lambda _: repeat)


PREPARE: Mapping[Operation, Prepare] = MappingProxyType(
    {
        "keygen": prepare_keygen,
        "encaps": prepare_encaps,
        "decaps": prepare_decaps,
        "derive": prepare_derive,
        "sign": prepare_sign,
        "verify": prepare_verify,
        "encrypt": prepare_encrypt,
        "decrypt": prepare_decrypt,
        "null": prepare_null,
    }
)
"""Each raises SettingsError when libcrypto cannot do it."""


def prepare_in_process(crypto: Crypto, case: Case) -> Work:
    """Work in this process; its `close` frees all that was made for it. Raises SettingsError when it cannot be done."""
    prepare = PREPARE.get(case.job.operation)
    if prepare is None:
        raise SettingsError(f"the lib backend has no {case.job.operation}")
    with ExitStack() as resources:
        work = prepare(Session(crypto, resources), case)
        return replace(work, close=resources.pop_all().close)
