"""Answers to the aggregator's pings (DESIGN.md 3), given by the connection itself: its service may be busy."""

from dataclasses import dataclass

from pydantic import ValidationError

from bus.outbox import Outgoing, encode
from clock import ServiceClock
from schemas import ClockPing, ClockPong, topic
from schemas.status import Service


@dataclass(frozen=True, slots=True)
class PingAnswerer:
    """Answers what comes on the ping topic of one service, with times of its timeline."""

    site: str
    service: Service
    instance: str
    clock: ServiceClock

    @property
    def topic(self) -> str:
        """Where the aggregator asks."""
        return topic("ping", self.site, service=self.service, instance=self.instance)

    def answer(self, payload: bytes, t2_ns: int) -> Outgoing | None:
        """The pong to a ping that came at t2; None for what is no ping. It says `sent now`, so send it at once."""
        try:
            ping = ClockPing.model_validate_json(payload)
        except ValidationError:
            return None
        pong = ClockPong(
            ping_id=ping.ping_id,
            timeline_id=self.clock.timeline_id,
            t1_ns=ping.t1_ns,
            t2_ns=t2_ns,
            t3_ns=self.clock.now_ns(),
        )
        return encode("pong", self.site, pong, {"service": self.service, "instance": self.instance})
