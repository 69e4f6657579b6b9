"""Which meter feeds which DUT: one meter by flags, or many by a file (TOML, one `[[meter]]` for each)."""

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from errors import SettingsError
from schemas.base import DutName, Identifier

Kind = Literal["fnirsi", "tc66c", "hwmon"]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class MeterEntry(BaseModel):
    """One meter. `serial` and `node` say which one it is; without both it is the only one of its kind.

    `node` is a device node, of FNIRSI meters also a USB port (`1-1.4`); of hwmon the sensor's name, which it needs.
    `family` and `keep_alive_s` are for FNIRSI meters: None is what the model needs, a keep-alive of 0 once per report.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True)

    source: Kind
    dut: DutName
    meter: Identifier
    serial: Name | None = None
    node: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    model: Name | None = None
    family: Literal["A", "B"] | None = None
    keep_alive_s: Annotated[float, Field(ge=0, le=10)] | None = None
    role: Annotated[str, StringConstraints(max_length=256)] = ""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if self.source != "fnirsi" and (self.family is not None or self.keep_alive_s is not None):
            raise ValueError("family and keep_alive_s are for FNIRSI meters only")
        if self.source == "hwmon" and (self.node is None or self.serial is not None):
            raise ValueError("a sensor of hwmon has a name as its node, and no serial")
        return self


def read_meters(path: Path) -> tuple[MeterEntry, ...]:
    """The meters of a file. Raises SettingsError with one line that names the line or the number of the `[[meter]]`."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"meters file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"meters file {path}: {error}") from None
    tables = content.pop("meter", None)
    if content:
        raise SettingsError(f"meters file {path}: {next(iter(content))!r} is not known; it holds [[meter]] only")
    if not isinstance(tables, list) or not tables:
        raise SettingsError(f"meters file {path}: there is no [[meter]] in it")
    try:
        entries = tuple(_entry(number, table) for number, table in enumerate(tables, start=1))
        check_distinct(entries)
    except SettingsError as error:
        raise SettingsError(f"meters file {path}: {error}") from None
    return entries


def check_distinct(entries: Sequence[MeterEntry]) -> None:
    """Raises SettingsError where two streams would have one name, or two entries mean or may mean one meter."""
    _must_differ([f"meter {entry.meter!r} of {entry.dut}" for entry in entries], "two streams cannot have one name")
    for name in ("serial", "node"):
        whole = [(entry, getattr(entry, name)) for entry in entries]
        values = [f"{entry.source} {name} {value!r}" if value else None for entry, value in whole]
        _must_differ(values, "one meter cannot be two")
    for number, entry in enumerate(entries, start=1):
        others = [each for each in entries if each.source == entry.source and each is not entry]
        if others and entry.serial is None and entry.node is None:
            raise SettingsError(f"{_numbered(number)}: serial or node must say which of {len(others) + 1} meters it is")


def _entry(number: int, table: object) -> MeterEntry:
    try:
        return MeterEntry.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"{_numbered(number)}: {where + ': ' if where else ''}{what}") from None


def _must_differ(values: Iterable[str | None], why: str) -> None:
    seen: dict[str, int] = {}
    for number, value in enumerate(values, start=1):
        if value is None:
            continue
        if value in seen:
            raise SettingsError(f"{_numbered(number)}: {value} is that of number {seen[value]} too: {why}")
        seen[value] = number


def _numbered(number: int) -> str:
    return f"[[meter]] number {number}"
