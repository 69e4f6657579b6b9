"""How regularly a meter that is asked gives its samples, and where some are missing. Pure: times come as arguments."""

_MEMORY = 16
"""Intervals that the usual interval is averaged over, exponentially."""


class Cadence:
    """The usual interval of a stream, from those that nothing disturbed; a disturbed one that is longer is a gap."""

    def __init__(self, period_ns: int) -> None:
        self._usual_ns = float(period_ns)
        self._last_ns: int | None = None
        self._is_disturbed = False
        self.gaps = 0
        self.lost_samples = 0

    def disturb(self) -> None:
        """Something went wrong, or came late, since the last sample."""
        self._is_disturbed = True

    def add(self, t_ns: int) -> None:
        """A sample of this moment. Lost are as many as the usual interval would have fitted before it."""
        interval_ns = t_ns - (self._last_ns if self._last_ns is not None else t_ns)
        if self._is_disturbed:
            lost = max(0, round(interval_ns / self._usual_ns) - 1)
            self.lost_samples += lost
            self.gaps += lost > 0
        elif self._last_ns is not None:
            self._usual_ns += (interval_ns - self._usual_ns) / _MEMORY
        self._last_ns, self._is_disturbed = t_ns, False
