"""How often a meter really says something new. Pure: times come with the samples.

A value that is only held is no measurement: an FNB58 sends 100 samples a second and held 40 % of them in the recordings
of the study, on a grid of 100 ms. An interpolated value cannot be told from a measured one, so the rate of new values
of an FNB48S (25 measurements a second, three of four samples interpolated: baryluk, issue 21) is an upper bound.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_NS = 10_000_000_000
_FEWEST_NS = 1_000_000_000
"""Before a second has passed there is no rate."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One report: when its last sample was taken, its samples, those of them that differ from the one before."""

    t_ns: int
    samples: int
    new: int


class Rates:
    """Over the last ten seconds."""

    def __init__(self) -> None:
        self._parts: deque[_Part] = deque()
        self._last: object = None
        self._samples = 0
        self._new = 0

    def add(self, t_ns: int, values: Sequence[object]) -> None:
        """Consecutive samples (anything that can be compared), the last of them taken at `t_ns`."""
        new = sum(value != before for value, before in zip(values, [self._last, *values], strict=False))
        self._parts.append(_Part(t_ns, len(values), new))
        self._last = values[-1]
        self._samples += len(values)
        self._new += new
        while t_ns - self._parts[0].t_ns > WINDOW_NS:
            self._forget_oldest()

    @property
    def samples_hz(self) -> float | None:
        """Samples received per second, lost ones not among them."""
        return self._per_second(self._samples - self._parts[0].samples) if self._parts else None

    @property
    def new_values_hz(self) -> float | None:
        """Samples per second that differ from the one before."""
        return self._per_second(self._new - self._parts[0].new) if self._parts else None

    def _per_second(self, count: int) -> float | None:
        """The first report only says when the time begins."""
        span_ns = self._parts[-1].t_ns - self._parts[0].t_ns
        return count * 1e9 / span_ns if span_ns >= _FEWEST_NS else None

    def _forget_oldest(self) -> None:
        oldest = self._parts.popleft()
        self._samples -= oldest.samples
        self._new -= oldest.new
