"""The words of `opjoule run` become a campaign: `sign ML-DSA-65`, a file, a shipped campaign, a comma list. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from errors import SettingsError
from runner.campaign_file import Campaign, MeasuredOperation, parse_campaign
from runner.expansion import Offer, Plan, expand
from runner.suggest import nearest
from schemas import Skipped

OPERATIONS: tuple[str, ...] = get_args(MeasuredOperation)
EVERYTHING = "all"
_PLACE = "the command line"


@dataclass(frozen=True, slots=True)
class Details:
    """What the flags say of the operations that are named on the command line; empty where they say nothing."""

    backends: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    message_bytes: int | None = None
    certificates: tuple[str, ...] = ()
    train_s: float | None = None
    rounds: int | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The flags that were given."""
        flags = {
            "--backend": self.backends,
            "--form": self.forms,
            "--message-bytes": self.message_bytes,
            "--certificate": self.certificates,
            "--train-s": self.train_s,
            "--rounds": self.rounds,
        }
        return tuple(flag for flag, value in flags.items() if value not in (None, ()))


@dataclass(frozen=True, slots=True)
class Asked:
    """A campaign, and the text of it that a runner is sent."""

    title: str
    campaign: Campaign
    text: str


def campaign_of(words: Sequence[str], details: Details, load: Callable[[str], Campaign]) -> Asked:
    """What the words ask for; `load` knows shipped campaigns, files and comma lists.

    Raises SettingsError for words that mean nothing, and for flags that a campaign's own text decides.
    """
    first, rest = words[0].lower(), tuple(words[1:])
    if first in OPERATIONS:
        return _of_text(" ".join((first, *rest)), _text((first,), rest or _every(first), details))
    if rest:
        raise SettingsError(f"{words[0]!r} is no operation: {nearest(words[0], OPERATIONS)}")
    if first == EVERYTHING and details.given:
        return _of_text(EVERYTHING, _text(("*",), ("*",), details))
    if details.given:
        raise SettingsError(f"{details.given[0]} goes with operations or `all`: a campaign's own text decides that")
    campaign = load(words[0])
    text = campaign.source.text
    return Asked(words[0], campaign, text) if text else _of_text(words[0], _text_of_items(campaign))


def is_in_process(campaign: Campaign) -> bool:
    """Whether some of it is done by the backend lib, as every handshake is."""
    measured = any("lib" in each.backends or "handshake" in each.operations for each in campaign.measure)
    return measured or any(item.lower().startswith(("lib/", "handshake")) for item in campaign.items)


def named(campaign: Campaign, skipped: Iterable[Skipped]) -> list[Skipped]:
    """Those left out that were asked for by name, not by a pattern."""
    names = {each.lower() for measure in campaign.measure for each in measure.sets}
    items = ",".join(campaign.items).lower()
    return [each for each in skipped if each.parameter_set.lower() in names or each.parameter_set.lower() in items]


def _every(operation: str) -> tuple[str, ...]:
    if operation == "handshake":
        raise SettingsError("handshake needs a group, e.g. handshake X25519MLKEM768 --certificate ML-DSA-65")
    return ("*",)


def _of_text(title: str, text: str) -> Asked:
    """Our own text; a message about it names the flag's value, not a line that nobody wrote."""
    try:
        return Asked(title, parse_campaign(text, _PLACE), text)
    except SettingsError as error:
        raise _without_place(error) from None


def expand_asked(asked: Asked, offer: Offer) -> Plan:
    """The plan on a board that offers this. Raises SettingsError for a name that nobody has."""
    try:
        return expand(asked.campaign, offer)
    except SettingsError as error:
        raise _without_place(error) from None


def _without_place(error: SettingsError) -> SettingsError:
    return SettingsError(re.sub(rf"^{_PLACE}(, line \d+)?(: | has )", "", str(error)))


def _text(operations: Sequence[str], sets: Sequence[str], details: Details) -> str:
    """A campaign file; strings and lists of JSON are TOML too."""
    above: dict[str, object] = {
        "name": " ".join((*operations, *sets))[:64],
        "train_s": details.train_s,
        "rounds": details.rounds,
    }
    measure: dict[str, object] = {
        "operations": list(operations),
        "sets": list(sets),
        "backends": list(details.backends),
        "forms": list(details.forms),
        "message_bytes": details.message_bytes,
        "certificates": list(details.certificates),
    }
    return f"{_lines(above)}\n[[measure]]\n{_lines(measure)}"


def _text_of_items(campaign: Campaign) -> str:
    """A comma list as a campaign file: its items and the sham train that every campaign has."""
    return _lines({"name": ", ".join(campaign.items)[:64], "items": campaign.items, "null_every": campaign.null_every})


def _lines(values: dict[str, object]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value not in (None, []))
