"""The only door to MQTT: publish with the contract's QoS, subscribe, spool with receipts, status with last will.

`MqttBus` speaks to a broker, `MemoryBus` to its neighbours in one process (tests). `SpoolingPublisher` sits on either
and forgets nothing that the aggregator has not named on `journaled`.
"""

from bus.interface import Bus, Received
from bus.memory import MemoryBroker, MemoryBus
from bus.mqtt import BrokerAddress, MqttBus
from bus.publisher import SpoolingPublisher
from bus.rival import Rival, Sentry
from bus.settings import BrokerSettings, PublisherSettings
from bus.spool import Spool

__all__ = [
    "BrokerAddress",
    "BrokerSettings",
    "Bus",
    "MemoryBroker",
    "MemoryBus",
    "MqttBus",
    "PublisherSettings",
    "Received",
    "Rival",
    "Sentry",
    "Spool",
    "SpoolingPublisher",
]
