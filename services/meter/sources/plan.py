"""A source before it is opened."""

from collections.abc import Callable
from dataclasses import dataclass

from meter.readings import Source


@dataclass(frozen=True, slots=True)
class Planned:
    """A source that can be opened when its turn comes. Opening raises ContractError where it cannot be used."""

    dut: str
    open: Callable[[], Source]
