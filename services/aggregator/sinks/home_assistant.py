"""Home Assistant's MQTT discovery: one retained `homeassistant/COMPONENT/NODE/OBJECT/config` per thing to show.

Home Assistant then reads our own topics by the templates in it. What was published is listed in a file, so that it can
be taken away when the setting is switched off. (Home Assistant's documentation: "MQTT discovery", "MQTT sensor".)
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bus import Bus
from errors import SettingsError
from schemas import OperationEvent, SampleBatch, ServiceStatus, topic

log = logging.getLogger(__name__)

EXPIRE_S = 10
"""A meter that is silent for so long has no power to show; batches come each second."""
FLUSH_S = 5.0
_TOPICS = TypeAdapter(tuple[str, ...])
_POWER = (
    "{{% if value_json.meter == '{meter}' and value_json.power_w %}}"
    "{{{{ value_json.power_w | sum / value_json.power_w | count }}}}{{% endif %}}"
)
_NET = "{% if value_json.net_j_per_op %}{{ value_json.net_j_per_op.value }}{% else %}None{% endif %}"
_WHAT = "{{ value_json.operation }} {{ value_json.parameter_set }}{{ ' SIMULATED' if value_json.simulated }}"
_ATTRIBUTES = (
    "{{ {'quality': value_json.quality, 'flags': value_json.flags, 'reason': value_json.reason,"
    " 'simulated': value_json.simulated, 'net_j_per_op': value_json.net_j_per_op,"
    " 'crypto_j_per_op': value_json.crypto_j_per_op, 'net_power_w': value_json.net_power_w,"
    " 'repetitions': value_json.repetitions, 'start_time': value_json.start_time} | tojson }}"
)
_PRESENT = "{{ 'OFF' if value_json.state == 'offline' else 'ON' }}"
_HEALTH = "{{ dict(value_json.health, state=value_json.state, detail=value_json.detail) | tojson }}"
Config = dict[str, Any]


class HomeAssistant:
    """Announces boards, meters and services once each, as they are heard of."""

    def __init__(self, bus: Bus, path: Path, version: str) -> None:
        self._bus, self._path, self._version = bus, path, version
        self._listed = read_list(path)
        self._announced: set[str] = set()
        self._known: dict[tuple[str, ...], object] = {}
        self._simulated: dict[tuple[str, ...], bool] = {}

    def saw(self, message: SampleBatch | OperationEvent) -> None:
        """A board has a meter: its power. Or it has results: the last one, and its energy."""
        key = (message.site, message.dut)
        if isinstance(message, SampleBatch):
            simulated = message.meter_kind == "simulated"
            self._simulated[*key, message.meter] = simulated
            if self._is_news(("power", *key, message.meter), simulated):
                self._announce(power(*key, message.meter, simulated))
            return
        simulated = any(made_up for meter, made_up in self._simulated.items() if meter[:2] == key)
        if self._is_news(("result", *key), (message.board.model, simulated)):
            for each in last_result(*key, message.board.model, simulated):
                self._announce(each)

    def saw_status(self, site: str, status: ServiceStatus) -> None:
        """There is a service: whether it is there."""
        if self._is_news(("health", site, status.service, status.instance), None):
            self._announce(health(site, status.service, status.instance))

    def _is_news(self, key: tuple[str, ...], what: object) -> bool:
        if not self._bus.connected or (key in self._known and self._known[key] == what):
            return False
        self._known[key] = what
        return True

    def _announce(self, entity: tuple[str, Config]) -> None:
        """Into the list first: what may lie on the broker must be found again."""
        where, config = entity
        if where not in self._listed:
            self._listed = (*self._listed, where)
            write_list(self._path, self._listed)
        origin = {"name": "opjoule", "sw_version": self._version}
        self._bus.publish_elsewhere(where, json.dumps({**config, "origin": origin}).encode())


def remove(bus: Bus, path: Path) -> bool:
    """Take away what was announced before the setting was switched off; False where the broker has yet to hear it."""
    listed = read_list(path)
    if not listed:
        return True
    if not bus.connected:
        return False
    for where in listed:
        bus.publish_elsewhere(where, b"")
    if not bus.flush(FLUSH_S):
        return False
    path.unlink(missing_ok=True)
    log.info("took %d entries away from Home Assistant", len(listed))
    return True


def power(site: str, dut: str, meter: str, simulated: bool) -> tuple[str, Config]:
    """The mean power of each sample batch."""
    node = _node(site, dut)
    return _config("sensor", node, f"power-{meter}"), {
        "name": f"Power {meter}{' SIMULATED' if simulated else ''}",
        "unique_id": f"{node}-power-{meter}",
        "state_topic": topic("samples", site, dut=dut),
        "value_template": _POWER.format(meter=meter),
        "unit_of_measurement": "W",
        "device_class": "power",
        "state_class": "measurement",
        "suggested_display_precision": 3,
        "expire_after": EXPIRE_S,
        "device": _board(site, dut),
    }


def last_result(site: str, dut: str, model: str, simulated: bool = False) -> list[tuple[str, Config]]:
    """What ran last, and its net energy per operation; both with quality, flags and U95 as attributes."""
    node, where = _node(site, dut), topic("results", site, dut=dut)
    shared: Mapping[str, Any] = {
        "state_topic": where,
        "json_attributes_topic": where,
        "json_attributes_template": _ATTRIBUTES,
        "device": {**_board(site, dut), "model": model},
    }
    what = {
        "name": "Last result",
        "unique_id": f"{node}-result",
        "value_template": _WHAT,
    }
    energy = {
        "name": f"Energy of last result{' SIMULATED' if simulated else ''}",
        "unique_id": f"{node}-energy",
        "value_template": _NET,
        "unit_of_measurement": "J",
        "suggested_display_precision": 6,
    }
    return [
        (_config("sensor", node, "result"), {**what, **shared}),
        (_config("sensor", node, "energy"), {**energy, **shared}),
    ]


def health(site: str, service: str, instance: str) -> tuple[str, Config]:
    """Whether a service is there, with its counters."""
    node, status = _node(site, "services"), topic("status", site, service=service, instance=instance)
    return _config("binary_sensor", node, f"{service}-{instance}"), {
        "name": f"{service} {instance}",
        "unique_id": f"{node}-{service}-{instance}",
        "state_topic": status,
        "value_template": _PRESENT,
        "json_attributes_topic": status,
        "json_attributes_template": _HEALTH,
        "device_class": "connectivity",
        "entity_category": "diagnostic",
        "device": {"identifiers": [node], "name": f"opjoule {site}", "manufacturer": "opjoule"},
    }


def read_list(path: Path) -> tuple[str, ...]:
    """The topics that were written to; none where there is no list. Raises SettingsError."""
    try:
        return _TOPICS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return ()
    except ValidationError:
        raise SettingsError(f"{path} is no list of Home Assistant topics: move it away") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None


def write_list(path: Path, topics: tuple[str, ...]) -> None:
    """Replace the list at once. Raises SettingsError."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(_TOPICS.dump_json(topics))
        new.replace(path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None


def _config(component: str, node: str, name: str) -> str:
    return f"homeassistant/{component}/{node}/{name}/config"


def _node(site: str, name: str) -> str:
    """Unlike for any two boards: names may hold the hyphen that joins them, the digest tells them apart."""
    return f"opjoule-{site}-{name}-{hashlib.sha256(f'{site}/{name}'.encode()).hexdigest()[:8]}"


def _board(site: str, dut: str) -> Config:
    return {"identifiers": [_node(site, dut)], "name": f"{dut} ({site})", "manufacturer": "opjoule"}
