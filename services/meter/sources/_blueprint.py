"""The shape of a source. To add a meter copy this file and

1. put the meaning of its bytes into `protocols/` (bytes in, values out) and the moving of bytes into `transports/`;
2. add how it is opened to `plugged_in.py`, and its name to `config.Kind`, `SOURCES` and `MeterSettings.source`;
3. add a capture of real bytes with the expected values to `tests/meter/`, naming where it came from.
"""

from collections.abc import Callable

from clock import ServiceClock
from meter.readings import Counts, MeterHealth, Reading, Stream

Receive = Callable[[float], bytes]
"""From a transport: one frame, empty after the time-out in s. Raises OSError when the meter is gone."""
Decode = Callable[[bytes], tuple[float, float]]
"""From a protocol: VBUS in V and IBUS in A of one frame. Raises FrameError."""


class BlueprintSource:
    """Voltage and current become power; the time is taken beside the read."""

    def __init__(self, stream: Stream, receive: Receive, decode: Decode, clock: ServiceClock) -> None:
        self.stream = stream
        self._receive = receive
        self._decode = decode
        self._clock = clock

    def read(self, timeout_s: float) -> list[Reading] | None:
        """PBUS in W since the last call; empty after the time-out."""
        frame = self._receive(timeout_s)
        t_ns = self._clock.now_ns()
        if not frame:
            return []
        voltage_v, current_a = self._decode(frame)
        return [Reading(t_ns, voltage_v * current_a, voltage_v, current_a)]

    @property
    def counts(self) -> Counts:
        """Rejected frames by reason, lost samples and gaps: nothing is lost in silence."""
        return Counts()

    @property
    def health(self) -> MeterHealth:
        """For the status: a meter that says nothing is not connected."""
        return MeterHealth(model=self.stream.meter_model)

    def close(self) -> None:
        """Give the device back."""
