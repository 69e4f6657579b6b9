"""The contract between the services: messages, topics, catalogue. Imports pydantic and nothing else."""

from schemas.base import HostClock, Message, Model, Quantity
from schemas.catalogue import CATALOGUE, ParameterSet
from schemas.energy import (
    BudgetPart,
    ClockState,
    Comparison,
    EnergyResult,
    Flag,
    PooledEnergy,
    PowerStatistics,
    Quality,
)
from schemas.operations import Board, Disturbance, Operation, OperationEvent, Segment, TimeStatistics
from schemas.samples import MeterKind, SampleBatch
from schemas.status import (
    ClockPing,
    ClockPong,
    Command,
    DeviceDescription,
    Journaled,
    Rejected,
    SeqRange,
    ServiceStatus,
    Skipped,
)
from schemas.topics import ROOT, TOPICS, TopicAddress, parse_topic, slug, slugs, topic, topic_filter

__all__ = [
    "CATALOGUE",
    "ROOT",
    "TOPICS",
    "Board",
    "BudgetPart",
    "ClockPing",
    "ClockPong",
    "ClockState",
    "Command",
    "Comparison",
    "DeviceDescription",
    "Disturbance",
    "EnergyResult",
    "Flag",
    "HostClock",
    "Journaled",
    "Message",
    "MeterKind",
    "Model",
    "Operation",
    "OperationEvent",
    "ParameterSet",
    "PooledEnergy",
    "PowerStatistics",
    "Quality",
    "Quantity",
    "Rejected",
    "SampleBatch",
    "Segment",
    "SeqRange",
    "ServiceStatus",
    "Skipped",
    "TimeStatistics",
    "TopicAddress",
    "parse_topic",
    "slug",
    "slugs",
    "topic",
    "topic_filter",
]
