"""What the broker lets each member do: its access list, made from the table of topics. Pure.

Every member has a block of its own. mosquitto's `pattern ... %u` lines would hold for all accounts alike, and the topic
of a runner's status cannot be written with them (README.md in deploy/mosquitto).
"""

from collections.abc import Iterable
from typing import Literal

from opjoule.fleet.members import Member
from schemas.topics import ROOT, TOPICS, Kind, topic_filter

Access = Literal["read", "write", "readwrite"]
Rule = tuple[Access, str]

_OF_A_DUT: dict[str, tuple[tuple[Kind, ...], tuple[Kind, ...]]] = {
    "runner": (("operations", "device"), ("command", "journaled", "results", "latest", "pooled")),
    "meter": (("samples",), ("journaled",)),
}
"""What a role writes and reads of each of its DUTs."""
_AGGREGATOR_READS: tuple[Kind, ...] = ("samples", "operations", "device", "status", "pong")
_DISCOVERY = "homeassistant/+/+/+/config"
"""Home Assistant's MQTT discovery: component, node and object (its documentation, "MQTT discovery")."""
_HOME_ASSISTANT_STATUS = "homeassistant/status"


def access_list(members: Iterable[Member]) -> str:
    """The file that `acl_file` names."""
    blocks = ["# Written by `opjoule fleet`; changes made here are lost."]
    for member in members:
        lines = [f"topic {access} {topic}" for access, topic in rules(member)]
        blocks.append("\n".join([f"user {member.username}", *lines]))
    return "\n\n".join(blocks) + "\n"


def rules(member: Member) -> list[Rule]:
    """What is allowed; all else is not."""
    if member.role in _OF_A_DUT:
        return [*_of_duts(member), *_own(member, member.site or "+")]
    site = member.site or "+"
    if member.role == "aggregator":
        return [*_of_aggregator(site), *_own(member, site), *_discovery(member, "write", "read")]
    if member.role == "operator":
        return [("read", f"{ROOT}/{site}/#"), ("write", topic_filter("command", site))]
    promised: list[Rule] = [("read", topic_filter(spec.kind, site)) for spec in TOPICS.values() if spec.promised]
    power: list[Rule] = [("read", topic_filter("samples", site))] if member.home_assistant else []
    return [*promised, *power, *_discovery(member, "read", "write")]


def _of_duts(member: Member) -> list[Rule]:
    writes, reads = _OF_A_DUT[member.role]
    site, found = member.site or "+", list[Rule]()
    for dut in member.duts:
        found += [("write", topic_filter(kind, site, dut=dut)) for kind in writes]
        found += [("read", topic_filter(kind, site, dut=dut)) for kind in reads]
    return found


def _own(member: Member, site: str) -> list[Rule]:
    """Its own status, which `opjoule health` reads with the same account, and its side of the clock exchange."""
    levels = {"service": member.role, "instance": member.name}
    status: Rule = ("readwrite", topic_filter("status", site, **levels))
    if member.role == "aggregator":
        return [status]
    return [status, ("read", topic_filter("ping", site, **levels)), ("write", topic_filter("pong", site, **levels))]


def _of_aggregator(site: str) -> list[Rule]:
    writes = [spec.kind for spec in TOPICS.values() if spec.sender == "aggregator"]
    return [
        *(("read", topic_filter(kind, site)) for kind in _AGGREGATOR_READS),
        *(("write", topic_filter(kind, site)) for kind in writes),
    ]


def _discovery(member: Member, to_config: Access, to_status: Access) -> list[Rule]:
    return [(to_config, _DISCOVERY), (to_status, _HOME_ASSISTANT_STATUS)] if member.home_assistant else []
