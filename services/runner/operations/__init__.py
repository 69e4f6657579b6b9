"""The operations that the runner knows: how each is prepared."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from runner.operations.keys import prepare_keygen
from runner.operations.nothing import prepare_null, prepare_sham
from runner.operations.signatures import prepare_sign, prepare_verify
from runner.operations.work import Bench, Output, Work, repeat
from schemas import Operation

OPERATIONS: Mapping[Operation, Callable[[Bench], Work]] = MappingProxyType(
    {
        "keygen": prepare_keygen,
        "sign": prepare_sign,
        "verify": prepare_verify,
        "null": prepare_null,
        "sham": prepare_sham,
    }
)
"""Each raises SettingsError when the program cannot do it."""

__all__ = ["OPERATIONS", "Bench", "Output", "Work", "repeat"]
