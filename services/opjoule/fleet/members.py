"""Who belongs to a fleet, and the register in which that is kept. Pure."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from schemas.base import DutName, Identifier

Role = Literal["runner", "meter", "aggregator", "reader", "operator"]
_NOT_SITES = ("meter", "aggregator", "reader", "operator")
"""A runner of the site `reader` and a reader would share the folder of a bundle."""


def _not_a_role(site: str) -> str:
    if site in _NOT_SITES:
        raise ValueError(f"{site!r} is the name of a role and cannot name a site")
    return site


SiteName = Annotated[Identifier, AfterValidator(_not_a_role)]
"""The name of a site, as accounts hold it."""


class Record(BaseModel):
    """Frozen; an unknown field is an error: a register of a newer opjoule is not understood by half."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Member(Record):
    """One account of the broker. `name` is a runner's DUT, a meter's or an aggregator's instance, else any name."""

    role: Role
    name: Identifier
    site: SiteName | None = None
    duts: tuple[DutName, ...] = ()
    home_assistant: bool = False

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.role in ("runner", "meter") and (self.site is None or not self.duts):
            raise ValueError(f"a {self.role} belongs to a site and serves at least one DUT")
        if self.role == "runner" and self.duts != (self.name,):
            raise ValueError("a runner serves the DUT that it is named after")
        return self

    @property
    def username(self) -> str:
        """For the broker: `lab/pi4`, `lab/meter/hub`, `aggregator.main`. No two roles can share one."""
        if self.role == "runner":
            return f"{self.site}/{self.name}"
        return f"{self.site}/meter/{self.name}" if self.role == "meter" else f"{self.role}.{self.name}"

    @property
    def folder(self) -> str:
        """The user name as the name of a file."""
        return self.username.replace("/", ".")


class Enrolled(Record):
    """A member with what the broker knows it by: a password's hash and a certificate's number."""

    member: Member
    password_hash: str
    serial: int
    added: datetime
    until: datetime


class Revoked(Record):
    """A certificate that is no longer good."""

    username: str
    serial: int
    revoked: datetime


class Register(Record):
    """All that a fleet remembers beside its keys."""

    version: Literal[1] = 1
    hosts: tuple[str, ...] = Field(min_length=1)
    port: int = Field(ge=1, le=65_535)
    broker_folder: Path
    """From the fleet's folder on, unless it is elsewhere: a fleet that is copied keeps to its own."""
    authority_until: datetime
    server_until: datetime
    enrolled: tuple[Enrolled, ...] = ()
    revoked: tuple[Revoked, ...] = ()

    def find(self, username: str) -> Enrolled | None:
        """The member with this user name."""
        return next((each for each in self.enrolled if each.member.username == username), None)

    def with_member(self, enrolled: Enrolled) -> Self:
        """The register with one member more."""
        return self.model_copy(update={"enrolled": (*self.enrolled, enrolled)})

    def without(self, username: str, now: datetime) -> Self:
        """The register with this member's password forgotten and its certificate revoked; as it is if there is none."""
        gone = [each for each in self.enrolled if each.member.username == username]
        return self.model_copy(
            update={
                "enrolled": tuple(each for each in self.enrolled if each not in gone),
                "revoked": (
                    *self.revoked,
                    *(Revoked(username=username, serial=each.serial, revoked=now) for each in gone),
                ),
            }
        )
