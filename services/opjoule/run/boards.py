"""What `opjoule run` knows of the boards from their messages. Pure: this machine's time is passed in."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from pydantic import ValidationError

from bus.interface import Received
from opjoule.run.rows import Row
from schemas import (
    DeviceDescription,
    EnergyResult,
    Message,
    OperationEvent,
    ServiceStatus,
    parse_topic,
)
from schemas.status import CampaignState
from schemas.topics import TOPICS, Kind

SILENCE_NS = 120 * 10**9
"""How much longer than it said a runner may be silent."""
LATEST_NS = 86_400 * 10**9
READ: tuple[Kind, ...] = ("status", "device", "operations", "results")
Phase = Literal["asked", "refused", "running", "ended", "lost"]
ResultKey = tuple[UUID, str | None]


@dataclass
class Board:
    """One board: its runner's last words and, once it was asked, what became of that."""

    dut: str
    status: ServiceStatus | None = None
    device: DeviceDescription | None = None
    command_id: str = ""
    phase: Phase = "asked"
    reason: str = ""
    deadline_ns: int = 0
    earlier_run_id: str = ""
    run_id: str = ""
    events: dict[UUID, OperationEvent] = field(default_factory=dict)
    results: dict[ResultKey, EnergyResult] = field(default_factory=dict)

    @property
    def online(self) -> bool:
        """Whether its runner is there, be it silent in a train."""
        return self.status is not None and self.status.state != "offline"

    @property
    def campaign(self) -> CampaignState | None:
        """The campaign that was asked for, as far as the runner has spoken of it."""
        told = self.status.campaign if self.status is not None else None
        return told if told is not None and self.run_id and told.run_id == self.run_id else None

    @property
    def left_out(self) -> str:
        """Which train could not be measured, and why; empty where none was left out while it ran."""
        return self.campaign.left_out_reason if self.campaign is not None else ""

    @property
    def well(self) -> bool:
        """Whether everything that it was to measure has its result."""
        finished = self.phase == "ended" and self.campaign is not None and self.campaign.state == "finished"
        return finished and not self.left_out and not self.missing

    @property
    def missing(self) -> int:
        """Trains without a result."""
        return len(self.events.keys() - {event_id for event_id, _ in self.results})

    def ask(self, command_id: str, now_ns: int) -> None:
        """It is told to do something now."""
        self.command_id, self.phase, self.reason = command_id, "asked", ""
        self.deadline_ns = _deadline_ns(self.status, now_ns)
        if self.status is not None and self.status.campaign is not None:
            self.earlier_run_id = self.status.campaign.run_id

    def hear(self, status: ServiceStatus, now_ns: int) -> None:
        """Its runner said something."""
        self.status = status
        self.deadline_ns = _deadline_ns(status, now_ns)
        if self.phase == "asked" and status.answer is not None and status.answer.command_id == self.command_id:
            self.phase = "running" if status.answer.accepted else "refused"
            self.reason = status.answer.reason
        if self.phase == "running":
            self._follow(status)

    def give_up(self, now_ns: int) -> None:
        """Lost, where it has been silent for longer than it said."""
        silent = self.phase == "asked" or (self.status is not None and self.status.state == "measuring")
        if self.phase in ("asked", "running") and silent and now_ns > self.deadline_ns:
            waits_for = "has not answered" if self.phase == "asked" else "has not come back from a train"
            self.phase = "lost"
            self.reason = f"{waits_for}, {SILENCE_NS // 10**9} s after it should have: is the board running?"

    def _follow(self, status: ServiceStatus) -> None:
        told = status.campaign
        if told is not None and not self.run_id and told.run_id != self.earlier_run_id:
            self.run_id = told.run_id
        if self.campaign is not None and self.campaign.state != "running":
            self.phase, self.reason = "ended", self.campaign.detail
        elif status.state == "offline":
            self.phase, self.reason = "lost", f"its runner went offline: {status.detail or 'without a word'}"

    def note(self, event: OperationEvent) -> bool:
        """Take a train of the campaign; whether it is one."""
        if not self.run_id or not event.run_id.startswith(self.run_id):
            return False
        self.events[event.event_id] = event
        return True

    def note_result(self, result: EnergyResult) -> bool:
        """Take a result of the campaign; whether it is one. One at a meter replaces that without."""
        if not self.run_id or not result.run_id.startswith(self.run_id):
            return False
        self.results[result.event_id, result.meter] = result
        if result.meter is not None:
            self.results.pop((result.event_id, None), None)
        return True

    def rows(self) -> list[Row]:
        """One for each train and meter, in the order of their start; by time alone where there is no result."""
        found = []
        for event in sorted(self.events.values(), key=lambda each: each.start_ns):
            results = [each for (event_id, _), each in self.results.items() if event_id == event.event_id]
            found += [_row(event, each) for each in results] or [_row(event, None)]
        return found


@dataclass
class Boards:
    """All boards of a site that were heard of."""

    site: str
    by_dut: dict[str, Board] = field(default_factory=dict)

    @property
    def online(self) -> list[str]:
        """Names of boards whose runner is there, in order."""
        return sorted(dut for dut, board in self.by_dut.items() if board.online)

    def take(self, messages: Iterable[Received], now_ns: int) -> list[EnergyResult]:
        """Take note of what came; the results among it that belong to what was asked for."""
        news = []
        for received in messages:
            message = _read(self.site, received)
            if isinstance(message, ServiceStatus):
                self._hear(message, now_ns)
            elif isinstance(message, DeviceDescription):
                self._board(message.dut).device = message
            elif isinstance(message, OperationEvent):
                self._board(message.dut).note(message)
            elif isinstance(message, EnergyResult) and self._board(message.dut).note_result(message):
                news.append(message)
        return news

    def _hear(self, status: ServiceStatus, now_ns: int) -> None:
        if status.service == "runner":
            for dut in status.duts:
                self._board(dut).hear(status, now_ns)

    def _board(self, dut: str) -> Board:
        return self.by_dut.setdefault(dut, Board(dut))


def _deadline_ns(status: ServiceStatus | None, now_ns: int) -> int:
    """When a runner must have spoken again; a clock that is more than a day off is not believed."""
    until_ns = status.until_ns if status is not None and status.state == "measuring" else None
    silent_ns = max(0, until_ns - now_ns) if until_ns is not None else 0
    return now_ns + (silent_ns if silent_ns <= LATEST_NS else 0) + SILENCE_NS


def _read(site: str, received: Received) -> Message | None:
    """The message; None where it is none, or claims to be of another than its topic."""
    address = parse_topic(received.topic)
    if address is None or address.site != site or address.kind not in READ:
        return None
    try:
        message = TOPICS[address.kind].message.model_validate_json(received.payload)
    except ValidationError:
        return None
    claims = getattr(message, "dut", None) or getattr(message, "instance", None)
    return message if claims == (address.dut or address.levels.get("instance")) else None


def _row(event: OperationEvent, result: EnergyResult | None) -> Row:
    return Row(
        machine=event.dut,
        operation=event.operation,
        parameter_set=event.parameter_set,
        variant=event.variant,
        backend=event.backend,
        start_ns=event.start_ns,
        stop_ns=event.end_ns,
        times=event.time_per_repetition,
        failed=event.repetitions_failed,
        first_error=event.first_error or "",
        openssl=event.board.openssl,
        null_variant=event.null_variant,
        result=result,
    )
