"""The topics, in one place: who sends what where, with which QoS, retained or not."""

import re
from dataclasses import dataclass
from typing import Literal

from schemas.base import RESERVED_DUTS, Message
from schemas.energy import Comparison, EnergyResult, PooledEnergy
from schemas.operations import OperationEvent
from schemas.samples import SampleBatch
from schemas.status import (
    ClockPing,
    ClockPong,
    Command,
    DeviceDescription,
    Journaled,
    Rejected,
    ServiceStatus,
)

ROOT = "opjoule/v1"
Kind = Literal[
    "samples",
    "operations",
    "device",
    "results",
    "latest",
    "pooled",
    "comparisons",
    "journaled",
    "command",
    "status",
    "ping",
    "pong",
    "rejected",
]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One row of the contract. `pattern` has its variable levels in braces, below the root and the site."""

    kind: Kind
    pattern: str
    sender: str
    qos: Literal[0, 1]
    retain: bool
    message: type[Message]
    promised: bool = False


TOPICS: dict[Kind, TopicSpec] = {
    spec.kind: spec
    for spec in (
        TopicSpec("samples", "{dut}/samples", "meter", 1, False, SampleBatch),
        TopicSpec("operations", "{dut}/operations", "runner", 1, False, OperationEvent),
        TopicSpec("device", "{dut}/device", "runner", 1, True, DeviceDescription, promised=True),
        TopicSpec("results", "{dut}/results", "aggregator", 1, False, EnergyResult, promised=True),
        TopicSpec(
            "latest",
            "{dut}/results/latest/{backend}/{operation}/{slug}",
            "aggregator",
            1,
            True,
            EnergyResult,
            promised=True,
        ),
        TopicSpec(
            "pooled",
            "{dut}/pooled/{backend}/{operation}/{slug}/{variant}",
            "aggregator",
            1,
            True,
            PooledEnergy,
            promised=True,
        ),
        TopicSpec("comparisons", "comparisons/{slug}", "aggregator", 1, True, Comparison, promised=True),
        TopicSpec("journaled", "{dut}/journaled", "aggregator", 1, False, Journaled),
        TopicSpec("command", "{dut}/command", "operator", 1, False, Command),
        TopicSpec("status", "services/{service}/{instance}/status", "each", 1, True, ServiceStatus, promised=True),
        TopicSpec("ping", "services/{service}/{instance}/clock/ping", "aggregator", 0, False, ClockPing),
        TopicSpec("pong", "services/{service}/{instance}/clock/pong", "each", 0, False, ClockPong),
        TopicSpec("rejected", "rejected", "aggregator", 1, False, Rejected),
    )
}


@dataclass(frozen=True, slots=True)
class TopicAddress:
    """What a topic says of the message on it."""

    kind: Kind
    site: str
    levels: dict[str, str]

    @property
    def dut(self) -> str:
        """The DUT named in the topic; empty where it names none."""
        return self.levels.get("dut", "")


def topic(kind: Kind, site: str, **levels: str) -> str:
    """The topic of a kind of message, e.g. `topic("samples", "lab", dut="pi4")`.

    Raises ValueError for a level that is empty or holds `/`, `+` or `#`.
    """
    for level in (site, *levels.values()):
        if not level or set(level) & set("/+#"):
            raise ValueError(f"{level!r} cannot be one level of a topic")
    return f"{ROOT}/{site}/{TOPICS[kind].pattern.format(**levels)}"


def topic_filter(kind: Kind, site: str = "+", **levels: str) -> str:
    """The subscription that matches a kind of message; levels that are not given match all."""
    pattern = re.sub(r"\{(\w+)\}", lambda match: levels.get(match[1], "+"), TOPICS[kind].pattern)
    return f"{ROOT}/{site}/{pattern}"


def _expression(pattern: str) -> re.Pattern[str]:
    levels = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/+#]+)", re.escape(pattern))
    return re.compile(rf"{re.escape(ROOT)}/(?P<site>[^/+#]+)/{levels}\Z")


_EXPRESSIONS = {kind: _expression(spec.pattern) for kind, spec in TOPICS.items()}


def parse_topic(name: str) -> TopicAddress | None:
    """What a topic addresses; None for a topic that is not of the contract."""
    for kind, expression in _EXPRESSIONS.items():
        match = expression.match(name)
        if match is None or match.groupdict().get("dut") in RESERVED_DUTS:
            continue
        levels = match.groupdict()
        return TopicAddress(kind, levels.pop("site"), levels)
    return None


def slug(parameter_set: str) -> str:
    """A parameter set or variant as one level of a topic: lower case, every other character a hyphen; never empty."""
    return re.sub(r"[^a-z0-9]", "-", parameter_set.lower()) or "none"


def latest_has_variant(operation: str) -> bool:
    """Whether the latest results of an operation have a topic for each variant."""
    return operation in ("null", "handshake")


def latest_slug(operation: str, parameter_set: str, variant: str) -> str:
    """Last level of the topic of latest results.

    The parameter set; of a null train its variant, which is all that tells null trains apart; of a handshake group and
    variant, since its certificate is half of what it measured.
    """
    if operation == "null":
        return slug(variant)
    return "-".join(map(slug, [parameter_set, *([variant] if variant and latest_has_variant(operation) else [])]))


def slugs(parameter_sets: list[str]) -> dict[str, str]:
    """Slug of each name. Raises ValueError where two names would share a topic."""
    owners: dict[str, str] = {}
    for name in parameter_sets:
        owner = owners.setdefault(slug(name), name)
        if owner != name:
            raise ValueError(f"{owner!r} and {name!r} would share the topic level {slug(name)!r}")
    return {name: each for each, name in owners.items()}
