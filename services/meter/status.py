"""What the meter says of itself, and when. Pure: the moment comes as an argument."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clock import rfc3339
from meter.readings import FRESH_NS
from schemas import MeterState, ServiceStatus

FRESH_S = FRESH_NS / 1e9
"""A meter is online for a DUT only while a valid sample is younger (DESIGN.md 2)."""
REPEAT_S = 10.0
"""The status goes out at least so often, for its counters."""
MOST_DETAIL = 500
"""Characters: the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What never changes while the service runs."""

    instance: str
    version: str
    started_ns: int
    constants: Mapping[str, float] = field(default_factory=dict)
    """Published beside the counters."""


class StatusBoard:
    """Knows which DUTs have fresh samples, and whether the status is due again."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._seen_s: dict[str, float] = {}
        self._told_duts: tuple[str, ...] | None = None
        self._told_news: object = None
        self._told_s = 0.0
        self._told_samples = 0

    def saw_sample(self, dut: str, taken_s: float) -> None:
        """A valid sample of a DUT was taken at this moment of the monotonic clock."""
        self._seen_s[dut] = max(taken_s, self._seen_s.get(dut, taken_s))

    def is_due(self, now_s: float, news: object = None) -> bool:
        """Whether the status must go out: something other than a counter changed, or it is time.

        `news` is what is not equal to before when a meter comes, goes or is in trouble.
        """
        is_changed = self._fresh(now_s) != self._told_duts or news != self._told_news
        return is_changed or now_s - self._told_s >= REPEAT_S

    def tell(
        self,
        now_s: float,
        samples: int,
        health: Mapping[str, float],
        meters: Sequence[MeterState] = (),
        remark: str = "",
        news: object = None,
    ) -> ServiceStatus:
        """The status at this moment; `samples` is the total so far, `health` the counters that stand beside it."""
        duts = self._fresh(now_s)
        since_s = now_s - self._told_s
        rate = (samples - self._told_samples) / since_s if self._told_duts is not None and since_s > 0 else 0.0
        self._told_duts, self._told_s, self._told_samples, self._told_news = duts, now_s, samples, news
        detail = _detail(duts, meters, remark)
        return self._status("online", duts, detail, {"samples_per_s": rate, **health}, meters)

    def offline(self, health: Mapping[str, float]) -> ServiceStatus:
        """The last status of a service that stops."""
        return self._status("offline", (), "stopped", {"samples_per_s": 0.0, **health}, ())

    def _fresh(self, now_s: float) -> tuple[str, ...]:
        return tuple(sorted(dut for dut, seen_s in self._seen_s.items() if now_s - seen_s < FRESH_S))

    def _status(
        self,
        state: str,
        duts: tuple[str, ...],
        detail: str,
        health: Mapping[str, float],
        meters: Sequence[MeterState],
    ) -> ServiceStatus:
        return ServiceStatus.model_validate(
            {
                "service": "meter",
                "instance": self._identity.instance,
                "state": state,
                "version": self._identity.version,
                "started_ns": self._identity.started_ns,
                "started_time": rfc3339(self._identity.started_ns),
                "duts": duts,
                "detail": detail,
                "health": {**health, **self._identity.constants},
                "meters": tuple(meters),
            }
        )


def _detail(duts: Sequence[str], meters: Sequence[MeterState], remark: str) -> str:
    """What is wrong, in one line; every meter in trouble is named."""
    troubles = [f"{each.meter} of {each.dut}: {each.detail}" for each in meters if each.detail]
    parts = [*([] if duts else ["no data"]), *troubles, *([remark] if remark else [])]
    return "; ".join(parts)[:MOST_DETAIL]
