"""Two clocks and the network between them, in simulation: the true offset is known at every time."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from aggregator.exchange import Exchange
from tests.aggregator.trains import SECOND

PPM = 1e-6


@dataclass
class Pair:
    """A publisher whose clock is `ahead_ns` ahead of the asker's at its time 0, and drifts."""

    ahead_ns: int
    drift_ppm: float = 0.0
    seed: int = 1
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def publisher_ns(self, asker_ns: int) -> int:
        """What the publisher's clock says at a time of the asker's."""
        return asker_ns + self.ahead_ns + round(asker_ns * self.drift_ppm * PPM)

    def offset_ns(self, publisher_ns: int) -> int:
        """The truth at a time of the publisher."""
        asker_ns = (publisher_ns - self.ahead_ns) / (1 + self.drift_ppm * PPM)
        return publisher_ns - round(asker_ns)

    def exchange(self, t1_ns: int, there_ns: int, back_ns: int, busy_ns: int = 100_000) -> Exchange:
        """Asked at t1, with these delays on the way."""
        arrived_ns = t1_ns + there_ns
        t4_ns = arrived_ns + busy_ns + back_ns
        return Exchange(t1_ns, self.publisher_ns(arrived_ns), self.publisher_ns(arrived_ns + busy_ns), t4_ns)

    def exchanges(self, at_s: Iterable[float], least_ms: float = 1.0, scatter_ms: float = 2.0) -> list[Exchange]:
        """Asked at these times, with delays that scatter, each way on its own."""

        def delay_ns() -> int:
            return round((least_ms + self.chance.expovariate(1 / scatter_ms)) * 1e6)

        return [self.exchange(round(at * SECOND), delay_ns(), delay_ns()) for at in at_s]


def burst(at_s: float, count: int = 8) -> list[float]:
    """Times of pings in quick succession."""
    return [at_s + 0.25 * i for i in range(count)]
