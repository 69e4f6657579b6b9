"""`SpoolingPublisher`: forgets nothing that the aggregator has not named on `journaled` (DESIGN.md 6)."""

import logging
import time
from collections.abc import Callable, Sequence

from pydantic import ValidationError

from bus.interface import Bus, Received
from bus.labels import Spoolable
from bus.spool import Spool
from schemas import Journaled, OperationEvent, parse_topic, topic_filter
from schemas.topics import Kind

log = logging.getLogger(__name__)

SEND_PER_STEP = 100
"""So that a backlog does not flood the broker; the rest goes with the next steps."""
WAIT_S = 0.1


class SpoolingPublisher:
    """Publishes operation events and sample batches of its DUTs until they are journaled. Duplicates are harmless."""

    def __init__(
        self,
        bus: Bus,
        spool: Spool,
        site: str,
        duts: Sequence[str],
        monotonic: Callable[[], float] = time.monotonic,
        resend_s: float = 30.0,
    ) -> None:
        self._bus = bus
        self._spool = spool
        self._monotonic = monotonic
        self._resend_s = resend_s
        self._others: list[Received] = []
        self.bad_receipts = 0
        owners = sorted({(site, dut) for dut in duts} | spool.owners)
        bus.subscribe([topic_filter("journaled", owner, dut=dut) for owner, dut in owners])

    @property
    def pending(self) -> int:
        """Messages that no receipt has named."""
        return self._spool.pending

    def put(self, message: Spoolable) -> None:
        """Keep, and send if there is a broker and nothing older waits."""
        self._spool.add(message, self._monotonic())
        self._send_due()

    def step(self) -> list[Received]:
        """Take receipts, send what is due, let the spool spill. Returns what came beside receipts, unacknowledged."""
        self._take(self._bus.receive(0.0))
        self._send_due()
        self._spool.spill(self._monotonic())
        others, self._others = self._others, []
        return others

    def wait_until_confirmed(self, timeout_s: float) -> bool:
        """Whether everything is journaled before the time-out. What else comes meanwhile is for the next `step`."""
        deadline_s = time.monotonic() + timeout_s
        while self.pending:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            self._take(self._bus.receive(min(left_s, WAIT_S)))
            self._send_due()
            self._spool.spill(self._monotonic())
        return True

    def close(self) -> None:
        """Write what is unconfirmed to disk; the bus stays as it is."""
        self._spool.close()

    def _send_due(self) -> None:
        if not self._bus.connected:
            return
        for message in self._spool.take_due(self._monotonic(), self._resend_s, SEND_PER_STEP):
            kind: Kind = "operations" if isinstance(message, OperationEvent) else "samples"
            self._bus.publish(kind, message.site, message, dut=message.dut)

    def _take(self, messages: Sequence[Received]) -> None:
        receipts: list[Received] = []
        for message in messages:
            address = parse_topic(message.topic)
            if address is None or address.kind != "journaled":
                self._others.append(message)
                continue
            receipts.append(message)
            self._confirm(message, address.site, address.dut)
        if receipts:
            self._bus.acknowledge(receipts)

    def _confirm(self, message: Received, site: str, dut: str) -> None:
        try:
            receipt = Journaled.model_validate_json(message.payload)
        except ValidationError as error:
            self._refuse(message.topic, f"{error.error_count()} errors in it")
            return
        if (receipt.site, receipt.dut) != (site, dut):
            self._refuse(message.topic, f"it claims to be of {receipt.site}/{receipt.dut}")
            return
        self._spool.confirm(receipt)

    def _refuse(self, topic: str, reason: str) -> None:
        self.bad_receipts += 1
        log.warning("receipt on %s refused (%d so far): %s", topic, self.bad_receipts, reason)
