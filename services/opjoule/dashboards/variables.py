"""Variables of the dashboards: what the store holds, each narrowed by the site. Pure."""

from opjoule.dashboards.parts import DATASOURCE, Json
from opjoule.dashboards.queries import SIMULATED, TAG_OF, chosen

ALL = ".*"
"""What `All` stands for in a condition."""
ASCENDING, DESCENDING = 1, 2
ON_TIME_RANGE = 2


def several(name: str, label: str, description: str, measurement: str = "operation_energy") -> Json:
    """A variable with any number of the tag's values, at first all of them."""
    return _query(name, label, description, measurement, ASCENDING) | {
        "multi": True,
        "includeAll": True,
        "allValue": ALL,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def variant() -> Json:
    """One variant of what ran: figures of two variants never stand side by side."""
    return one("variant", "variant", "what else distinguishes two measurements", first="none", within=("operation",))


def one(
    name: str,
    label: str,
    description: str,
    *,
    tag: str = "",
    first: str = "",
    last: bool = False,
    within: tuple[str, ...] = (),
) -> Json:
    """A variable with one of the tag's values: `first` where there is such a one, else the first or last by name.

    `within`: variables before it that narrow it, beside the site.
    """
    order = DESCENDING if last else ASCENDING
    current = {"current": {"selected": True, "text": first, "value": first}} if first else {}
    return _query(name, label, description, "operation_energy", order, tag, within) | {
        "multi": False,
        "includeAll": False,
        **current,
    }


def quality() -> Json:
    """Quality is a field, which no query can list."""
    text = "good: nothing to say against it; degraded: the flags say why. Invalid trains have no energy."
    return _custom("quality", text, "good,degraded") | {
        "multi": True,
        "includeAll": True,
        "allValue": ALL,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def power() -> Json:
    """Measured or SIMULATED, as the field `simulated` has it: `of_power` is the condition."""
    text = f"measured by a meter, or {SIMULATED}: figures of the two are never set against each other"
    return _custom("power", text, f"measured : 0,{SIMULATED} : 1") | {
        "multi": False,
        "includeAll": False,
        "current": {"selected": True, "text": "measured", "value": "0"},
    }


def of_power() -> str:
    """What the variable `power` allows, as a condition."""
    return '"simulated" = ${power:raw}'


def one_site() -> Json:
    """The installation, one of them: boards of two sites may share a name."""
    return one("site", "site", "the installation; boards of two sites may share a name")


def site(measurement: str = "operation_energy") -> Json:
    """The installation."""
    return several("site", "site", "the installation", measurement)


def board() -> Json:
    """The device under test."""
    return several("board", "board", "device under test")


def algorithm() -> Json:
    """The family of parameter sets."""
    return several("algorithm", "algorithm", "family of parameter sets")


def _custom(name: str, description: str, values: str) -> Json:
    return {
        "type": "custom",
        "name": name,
        "label": name,
        "description": description,
        "query": values,
        "options": [],
        "skipUrlSync": False,
        "hide": 0,
    }


def _query(
    name: str, label: str, description: str, measurement: str, order: int, tag: str = "", within: tuple[str, ...] = ()
) -> Json:
    text = f'SHOW TAG VALUES FROM "{measurement}" WITH KEY = "{tag or TAG_OF.get(name, name)}"'
    text += "" if name == "site" else f" WHERE {chosen('site', *within)}"
    return {
        "type": "query",
        "name": name,
        "label": label,
        "description": description,
        "datasource": DATASOURCE,
        "query": text,
        "refresh": ON_TIME_RANGE,
        "sort": order,
        "regex": "",
        "options": [],
        "skipUrlSync": False,
        "hide": 0,
    }
