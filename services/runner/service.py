"""The runner as a service on a broker: its own plan first, then what commands ask for."""

import logging
from dataclasses import dataclass
from typing import Self

from bus import MqttBus, Spool, SpoolingPublisher
from clock import ServiceClock
from file_lock import FileLock, hold_name
from runner.campaign import Executor
from runner.commands import CommandDesk
from runner.description import device
from runner.expansion import expand
from runner.governor import Governor
from runner.link import Link
from runner.machine import read_machine
from runner.notes import drop_note, write_note
from runner.offer import whole_offer
from runner.one_train import Bay
from runner.openssl import OpenSsl
from runner.orders import Order, ordered, own_campaign
from runner.settings import RunnerSettings
from runner.stopping import Stop
from runner.target import PooledBook
from runner.trains_under_way import TrainsUnderWay
from schemas import Command, topic, topic_filter
from schemas.status import CommandAnswer

log = logging.getLogger(__name__)

WAIT_STEP_S = 1.0


@dataclass(slots=True)
class Service:
    """One runner that is connected, or will be."""

    settings: RunnerSettings
    own: Order | None
    link: Link
    desk: CommandDesk[Order]
    executor: Executor
    lock: FileLock

    @classmethod
    def of(cls, settings: RunnerSettings, openssl: OpenSsl, without_lib: str | None, stop: Stop) -> Self:
        """Everything made and joined. Raises SettingsError where the operator must act first."""
        campaign = own_campaign(settings)
        offer = whole_offer(openssl, without_lib)
        own = None if campaign is None else Order(campaign, expand(campaign, offer))
        machine, clock = read_machine(), ServiceClock()
        bus = MqttBus(settings.address(), f"runner-{settings.site}-{settings.dut}", persistent=True)
        bus.answer_pings(settings.site, "runner", settings.instance_name, clock)
        spool, lock = _spool(settings)
        publisher = SpoolingPublisher(bus, spool, settings.site, (settings.dut,), resend_s=settings.resend_s)
        description = device(settings.site, settings.dut, machine, openssl, offer, without_lib)
        link = Link(bus, publisher, clock, description, settings.instance_name, stop)

        def answered(answer: CommandAnswer) -> None:
            link.answer = answer
            link.say()

        def understand(command: Command) -> Order:
            return ordered(command, offer, settings)

        desk = CommandDesk(settings.site, settings.dut, understand, answered, lambda: link.arrived)
        link.listen([topic("command", settings.site, dut=settings.dut)], desk.hear)
        stem = settings.state_dir / f"runner-{settings.dut}"
        governor = Governor(stem.with_name(f"{stem.name}.governor"), wanted=settings.governor == "performance")
        governor.restore_left()
        under_way = TrainsUnderWay(stem)
        link.aborted = under_way.aborted
        bay = Bay(openssl, offer.parameter_sets, clock, stop, link, governor, under_way, settings.message_file)
        book = PooledBook(settings.site, settings.dut)
        executor = Executor(settings, machine.board(openssl.version), bay, lambda: desk.stop_asked, book)
        return cls(settings, own, link, desk, executor, lock)

    @property
    def pending(self) -> int:
        """Events that the aggregator has not confirmed."""
        return self.link.pending

    @property
    def left_out(self) -> int:
        """What the plan has and could not be done."""
        return self.executor.left_out + (len(self.own.plan.skipped) if self.own is not None else 0)

    def run(self) -> bool:
        """The plan and, where asked, commands for ever; whether all events were confirmed. Raises Stopped."""
        if self.own is not None:
            self.desk.running = self.own.campaign.name or "the plan"
            for each in self.own.plan.skipped:
                log.warning("skipped: %s %s: %s", each.operation, each.parameter_set, each.reason)
        if self.own is not None:
            self._execute(self.own)
        while self.own is None or self.settings.then == "wait":
            if (order := self.desk.take()) is not None:
                self._execute(order)
            self.link.speak("waits for commands", WAIT_STEP_S)
        return self.link.wait_until_confirmed(self.settings.confirm_s)

    def leave(self, detail: str) -> None:
        """Say offline and keep what is unconfirmed."""
        self.link.leave(detail)
        self.lock.close()

    def _execute(self, order: Order) -> None:
        self.desk.running = order.campaign.name or "the plan"
        if order.campaign.until is not None and self.executor.book is not None:
            filters = [topic_filter("pooled", self.settings.site, dut=self.settings.dut)]
            self.link.listen(filters, self.executor.book.hear)
        try:
            self.executor.run(order.campaign, order.plan)
        finally:
            self.desk.running, self.desk.stop_asked = "", False


def _spool(settings: RunnerSettings) -> tuple[Spool, FileLock]:
    """On disk, else, with a warning, in memory. Raises SettingsError where another runner has it."""
    path = settings.state_dir / f"runner-{settings.dut}.spool"
    trial = path.with_name(f"{path.name}.trial")
    try:
        write_note(trial, "x" * 65_536)
        drop_note(trial)
    except OSError as error:
        log.warning(
            "%s cannot be written (%s): events wait in memory, and are lost with this process",
            settings.state_dir,
            error.strerror,
        )
        return Spool(None, settings.spool_limit_bytes), hold_name(path, "spool")
    return Spool(path, settings.spool_limit_bytes), hold_name(path, "spool")
