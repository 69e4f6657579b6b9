"""The operations that the runner knows: how each is prepared."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from errors import SettingsError
from runner.nulls import HANDSHAKE_NULL
from runner.operations.agreement import prepare_derive
from runner.operations.encryption import prepare_decrypt, prepare_encrypt
from runner.operations.handshake import prepare_connection, prepare_handshake
from runner.operations.kem import prepare_decaps, prepare_encaps
from runner.operations.keys import prepare_keygen
from runner.operations.lib.bench import prepare_lib
from runner.operations.lib.prepare import PREPARE
from runner.operations.nothing import prepare_null, prepare_sham
from runner.operations.signatures import prepare_sign, prepare_verify
from runner.operations.sleeping import prepare_sleep
from runner.operations.work import Bench, Output, Usage, Work, cli_work
from schemas import Operation
from schemas.operations import Backend

Prepare = Callable[[Bench], Work]

CLI: Mapping[Operation, Prepare] = MappingProxyType(
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
        "sham": prepare_sham,
    }
)
"""By the `openssl` program."""


def _null_of_lib(bench: Bench) -> Work:
    return prepare_connection(bench) if bench.job.null_variant == HANDSHAKE_NULL else prepare_lib(bench)


LIB: Mapping[Operation, Prepare] = MappingProxyType(
    {
        **dict.fromkeys(PREPARE, prepare_lib),
        "null": _null_of_lib,
        "handshake": prepare_handshake,
        "sham": prepare_sham,
    }
)
"""By libcrypto and libssl in process."""

OPERATIONS: Mapping[Backend, Mapping[Operation, Prepare]] = MappingProxyType(
    {"cli": CLI, "lib": LIB, "none": MappingProxyType({"null": prepare_sleep, "sham": prepare_sham})}
)
"""Each raises SettingsError when this OpenSSL cannot do it."""


def prepare_work(bench: Bench) -> Work:
    """The work of a job.

    Raises SettingsError when the backend has no such operation, or when OpenSSL or the memory of this machine does not
    give it, and OSError where its folder cannot be worked in.
    """
    prepare = OPERATIONS[bench.job.backend].get(bench.job.operation)
    if prepare is None:
        raise SettingsError(f"the backend {bench.job.backend} has no {bench.job.operation}")
    try:
        return prepare(bench)
    except MemoryError:
        raise SettingsError("there is not enough memory for it") from None


__all__ = ["OPERATIONS", "Bench", "Output", "Usage", "Work", "cli_work", "prepare_work"]
