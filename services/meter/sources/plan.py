"""A source before it is opened."""

from collections.abc import Callable
from dataclasses import dataclass

from meter.readings import Source


@dataclass(frozen=True, slots=True)
class Planned:
    """A source that can be opened when its turn comes, and what is said of it until then.

    Opening raises ContractError where a file cannot be used; of a meter OSError while it is missing, and SettingsError
    while the operator must act: those are tried again.
    """

    dut: str
    open: Callable[[], Source]
    meter: str = ""
    model: str = "unknown"
    role: str = ""
