"""What every message has in common: frozen, versioned, SI units, finite numbers only."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

RESERVED_DUTS = frozenset({"services", "rejected", "comparisons"})
"""Words that stand where a DUT could stand in a topic."""

Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
"""A site, meter or instance name: safe as one level of a topic."""


def _not_reserved(name: str) -> str:
    if name in RESERVED_DUTS:
        raise ValueError(f"{name!r} is reserved and cannot name a DUT")
    return name


DutName = Annotated[Identifier, AfterValidator(_not_reserved)]
"""The name of a device under test."""

TimeNs = Annotated[
    int, Field(ge=0, lt=2**62, description="integer nanoseconds on the sender's timeline, near Unix time")
]
"""A point in time, up to the year 2116. JavaScript readers lose precision above 2^53 (README.md)."""

Count = Annotated[int, Field(ge=0, lt=2**62)]
Seconds = Annotated[float, Field(ge=0)]


class Model(BaseModel):
    """A part of a message: frozen, unknown fields ignored when reading, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True, allow_inf_nan=False)


class Message(Model):
    """A whole message, versioned. A change that breaks a reader raises the number in the topic root too."""

    schema_version: Literal[1] = 1


class HostClock(Model):
    """Ties a timeline to the monotonic clock of one boot of one host.

    Two timelines with the same `boot_id` differ by exactly the difference of their `wall_minus_monotonic_ns`, whatever
    the wall clock did between the starts of the two services. Without it the offset has to be measured.
    """

    boot_id: Annotated[str, Field(max_length=64, description="the kernel's random boot id")]
    wall_minus_monotonic_ns: Annotated[int, Field(ge=0, lt=2**62, description="the constant of the timeline")]


class Quantity(Model):
    """A value with its uncertainty, as in the GUM; the unit is in the name of the field that holds it."""

    value: float
    u: Annotated[float, Field(ge=0, description="standard uncertainty, same unit as the value")]
    dof: Annotated[float | None, Field(gt=0, description="degrees of freedom; null means unlimited")] = None
    u95: Annotated[float, Field(ge=0, description="half-width of the 95 % coverage interval by Student's t")]
