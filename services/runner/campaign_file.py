"""Campaigns: what to measure on a board, how and how often, as a TOML file says it. Pure."""

import re
import reprlib
import tomllib
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic_core import ErrorDetails

from errors import SettingsError
from runner.campaign_text import Source
from runner.job import MESSAGE_BYTES, MOST_MESSAGE_BYTES, Form
from runner.procedures import Study
from runner.segments import PresetName
from runner.suggest import nearest
from schemas.operations import ParameterSetName

MeasuredOperation = Literal["keygen", "encaps", "decaps", "derive", "sign", "verify", "encrypt", "decrypt", "handshake"]
LEAST_TRAINS_UNTIL = 10
"""Of a stopping rule on U95 (DESIGN.md 4)."""
MOST = 1_000_000
"""Of rounds and of whatever else is counted."""
MOST_S = 1e9
TARGET = re.compile(r"\s*u95\s*<=\s*(\d{1,3}(?:\.\d+)?)\s*%\s*")


def _listed(value: object) -> object:
    """One value stands for a list of one."""
    return value if isinstance(value, list | tuple) else (value,)


def _operations(value: object) -> object:
    """`*` is every operation but handshake, which needs certificates."""
    every = tuple(each for each in get_args(MeasuredOperation) if each != "handshake")
    return every if value in ("*", ["*"]) else _listed(value)


MessageBytes = Annotated[int, Field(ge=1, le=MOST_MESSAGE_BYTES, strict=True)]
SetPattern = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9*?\[][A-Za-z0-9 ._:+*?\[\]!-]*$")]
Mask = Annotated[str, Field(max_length=128, pattern=r"^$|^OPENSSL_(armcap|ia32cap|riscvcap)=[0-9A-Za-z:~+_-]+$")]
Every = BeforeValidator(_listed)


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Measure(_Table):
    """One `[[measure]]`: every combination of what it lists that there is."""

    operations: Annotated[tuple[MeasuredOperation, ...], BeforeValidator(_operations), Field(min_length=1)]
    sets: Annotated[tuple[SetPattern, ...], Every, Field(min_length=1, description="parameter sets or patterns")]
    backends: Annotated[tuple[Literal["cli", "lib"], ...], Every, Field(min_length=1)] = ("cli",)
    forms: Annotated[tuple[Form, ...], Every, Field(min_length=1)] = ("",)
    message_bytes: Annotated[tuple[MessageBytes, ...], Every] = ()
    capability_masks: Annotated[tuple[Mask, ...], Every, Field(min_length=1)] = ("",)
    certificates: Annotated[tuple[ParameterSetName, ...], Every] = ()


class Campaign(_Table):
    """A plan with its times. `items` are written as in a comma list; times in s."""

    name: Annotated[str, Field(max_length=64, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")] = ""
    description: Annotated[str, Field(max_length=1000)] = ""
    procedure: Literal["train", "as-published"] = "train"
    study: Study | None = None
    items: Annotated[tuple[str, ...], Every] = ()
    measure: tuple[Measure, ...] = ()
    train_s: Annotated[float, Field(ge=1, le=86_400, strict=True)] = 60.0
    preset: PresetName = "short"
    gap_s: Annotated[float, Field(ge=0.5, le=86_400, strict=True)] = 2.0
    every_s: Annotated[float | None, Field(ge=1, le=86_400, strict=True)] = None
    rounds: Annotated[int, Field(ge=0, le=MOST, strict=True)] = 1
    order: Literal["random", "as-written"] = "random"
    seed: Annotated[int | None, Field(ge=0, lt=2**53, strict=True)] = None
    message_bytes: MessageBytes = MESSAGE_BYTES
    until: Annotated[str | None, Field(pattern=TARGET.pattern.join("^$"))] = None
    least_trains: Annotated[int, Field(ge=LEAST_TRAINS_UNTIL, le=MOST, strict=True)] = LEAST_TRAINS_UNTIL
    most_trains: Annotated[int | None, Field(ge=LEAST_TRAINS_UNTIL, le=MOST, strict=True)] = None
    most_s: Annotated[float | None, Field(gt=0, le=MOST_S, strict=True)] = None
    null_every: Annotated[int, Field(ge=0, le=MOST, strict=True)] = 20
    sham_every: Annotated[int, Field(ge=0, le=MOST, strict=True)] = 20
    _source: Source = PrivateAttr(default_factory=Source)

    @property
    def source(self) -> Source:
        """Where it came from, for messages."""
        return self._source

    @property
    def target(self) -> float | None:
        """The relative U95 at which a job is known well enough, 0.02 for 2 %; None without `until`."""
        found = TARGET.fullmatch(self.until) if self.until is not None else None
        return float(found.group(1)) / 100 if found else None


def parse_campaign(text: str, name: str) -> Campaign:
    """The campaign in a TOML text. Raises SettingsError: `name`, the line, what is wrong there, what was meant."""
    source = Source(name, text)
    try:
        values = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError is one, and so is an integer of thousands of digits
        raise SettingsError(f"{name}: not TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{name}: not TOML for a campaign: nested too deeply") from None
    try:
        campaign = Campaign.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(f"{source.at(first['loc'], first['input'])}: {_said(first)}") from None
    _refuse_contradictions(campaign, source)
    if not campaign.name:
        campaign = campaign.model_copy(update={"name": _short(name)})
    campaign._source = source
    return campaign


def campaign_of_items(text: str, name: str = "the plan") -> Campaign:
    """The campaign of a comma list: its items and nothing else, no null or sham train but those that it names."""
    items = tuple(item.strip() for item in text.split(",") if item.strip())
    campaign = Campaign(name="", items=items, null_every=0, sham_every=0)
    campaign._source = Source(name)
    return campaign


def _short(name: str) -> str:
    """The name of a file without its folder and ending."""
    return name.replace("\\", "/").rpartition("/")[2].removesuffix(".toml")[:64]


def _said(error: ErrorDetails) -> str:
    """One line about one value."""
    place, context = error["loc"], error.get("ctx", {})
    value = reprlib.repr(error["input"])
    key = next((str(each) for each in reversed(place) if isinstance(each, str)), "")
    match error["type"]:
        case "extra_forbidden":
            return _unknown_key(key, place[0] == "measure" and len(place) > 1)
        case "missing":
            return f"{key} is missing"
        case "literal_error":
            return f"{key} is {value}: {_meant(str(error['input']), key, str(context['expected']))}"
        case "string_pattern_mismatch" if key == "until":
            return f'until is {value}: write it as "u95 <= 2 %"'
        case "tuple_type" | "model_type" if key == "measure":
            return "write [[measure]] with two brackets, and its keys below it"
        case _:
            message = error["msg"].replace("valid tuple", "list")
            return f"{key} is {value}: {message[:1].lower()}{message[1:]}"


def _meant(word: str, key: str, expected: str) -> str:
    if key == "operations" and word in ("null", "sham"):
        return "null and sham trains come by themselves, see null_every and sham_every"
    return nearest(word, [each for each in re.findall(r"'([^']*)'", expected) if each] or [expected])


def _unknown_key(key: str, in_measure: bool) -> str:
    here, other = (Measure, Campaign) if in_measure else (Campaign, Measure)
    if key in other.model_fields:
        where = "above the first [[measure]]" if in_measure else "in a [[measure]]"
        return f"{key} belongs {where}"
    written = key if key.isidentifier() else reprlib.repr(key)
    return f"there is no key {written}: {nearest(key, here.model_fields)}"


def _refuse_contradictions(campaign: Campaign, source: Source) -> None:
    """Raises SettingsError for values that are right alone and wrong together, by the line of one of them."""
    wrong: list[tuple[str, bool, str]] = [
        ("measure", not (campaign.items or campaign.measure), "nothing to measure: add a [[measure]] or items"),
        ("sham_every", campaign.sham_every == 0, "at least one sham train is part of every round: 1 or more"),
        ("every_s", _shorter(campaign.every_s, campaign.train_s), "trains cannot start faster than train_s"),
        ("procedure", campaign.study is None and _as_published(campaign), '"as-published" needs study, 1 or 2'),
        ("study", campaign.study is not None and not _as_published(campaign), 'is for procedure "as-published"'),
        ("until", campaign.target == 0, "is never met: write more than 0 %"),
        ("until", _endless(campaign), "needs a maximum: most_trains or most_s"),
        ("until", campaign.until is not None and _as_published(campaign), "is for trains, not for as-published"),
        ("rounds", campaign.until is not None and "rounds" in campaign.model_fields_set, "until says when it ends"),
        ("most_trains", _shorter(campaign.most_trains, campaign.least_trains), "is less than least_trains"),
    ]
    keys_of_until = ("least_trains", "most_trains", "most_s")
    given = campaign.model_fields_set if campaign.until is None else frozenset[str]()
    wrong += [(key, key in given, "is for campaigns with until") for key in keys_of_until]
    for key, is_wrong, message in wrong:
        if is_wrong:
            raise SettingsError(f"{source.at((key,))}: {key}: {message}")
    _refuse_measures(campaign, source)


def _refuse_measures(campaign: Campaign, source: Source) -> None:
    for number, measure in enumerate(campaign.measure):
        shakes = "handshake" in measure.operations
        if shakes and not measure.certificates:
            raise SettingsError(f'{source.at(("measure", number))}: handshake needs certificates, e.g. ["ML-DSA-65"]')
        if measure.certificates and not shakes:
            place = ("measure", number, "certificates")
            raise SettingsError(f"{source.at(place)}: certificates are for the operation handshake")


def _as_published(campaign: Campaign) -> bool:
    return campaign.procedure == "as-published"


def _endless(campaign: Campaign) -> bool:
    return campaign.until is not None and campaign.most_trains is None and campaign.most_s is None


def _shorter(value: float | None, than: float) -> bool:
    return value is not None and value < than
