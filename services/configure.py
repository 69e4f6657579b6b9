"""Settings from one source: a frozen pydantic model gives the flags, the environment variables and `--help`.

Field `broker_url` of a settings model is the flag `--broker-url` and the variable `OPJOULE_BROKER_URL`; the flag wins.
"""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from errors import SettingsError

PREFIX = "OPJOULE_"


class Settings(BaseModel):
    """Base of all settings models. Every field has a description, which is its help text."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


S = TypeVar("S", bound=Settings)


def load(model: type[S], program: str, summary: str, arguments: Sequence[str], environment: Mapping[str, str]) -> S:
    """Settings from arguments, else environment, else defaults.

    Raises SettingsError with one line that names the flag. Prints help and exits for `--help`.
    """
    parser = parser_for(model, program, summary)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        variable = variable_of(name)
        raw = given.get(name, environment.get(variable) or None)
        if raw is not None:
            values[name] = _split(raw) if _is_tuple(field) else raw
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SettingsError(_one_line(error)) from None


def load_or_exit(model: type[S], program: str, summary: str) -> S:
    """As `load`, from this process; a wrong setting ends the process with one line and status 2."""
    try:
        return load(model, program, summary, sys.argv[1:], os.environ)
    except SettingsError as error:
        print(f"{program}: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def parser_for(model: type[Settings], program: str, summary: str) -> argparse.ArgumentParser:
    """The parser whose help lists every setting with its variable and default."""
    parser = argparse.ArgumentParser(prog=program, description=summary, allow_abbrev=False)
    for name, field in model.model_fields.items():
        parser.add_argument(
            flag_of(name),
            dest=name,
            default=None,
            metavar=_metavar(field),
            help=f"{field.description} [{variable_of(name)}; default: {_default(field)}]".replace("%", "%%"),
        )
    return parser


def flag_of(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a field."""
    return PREFIX + name.upper()


def start_logging(level: str) -> None:
    """Log lines go to standard error; called once, in `__main__`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _OneLine(logging.Formatter):
    """Writes out control characters: what others send us cannot forge a line of the log, or move a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the name is that of logging)
        line = super().formatMessage(record)
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)


def _is_tuple(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is tuple


def _split(raw: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in raw.split(",") if part.strip())


def _metavar(field: FieldInfo) -> str:
    choices = [str(choice) for choice in get_args(field.annotation) if isinstance(choice, str)]
    if choices:
        return "|".join(choices)
    return "A,B" if _is_tuple(field) else "VALUE"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "none, must be given"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "empty"
    return "none" if value is None else str(value)


def _one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "missing":
        return f"{flag_of(name)} ({variable_of(name)}) must be given"
    what = first["msg"].removeprefix("Value error, ")
    return f"{flag_of(name)} ({variable_of(name)}): {what}, not {first['input']!r}" if name else what
