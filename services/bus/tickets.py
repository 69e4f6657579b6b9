"""Which received message may be acknowledged next."""

from collections import OrderedDict


class Tickets:
    """Tokens of received messages. MQTT 5 (4.6) wants acknowledgements in order of arrival; iotcore insists."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._last = 0
        self._open: OrderedDict[int, int] = OrderedDict()
        self._done: set[int] = set()

    def issue(self, packet_id: int) -> int:
        """The token of a message that just arrived; never 0."""
        self._last += 1
        self._open[self._last] = packet_id
        return (self._generation << 32) | self._last

    def acknowledge(self, token: int) -> list[int]:
        """Packet ids that may be acknowledged now; none for a token of an earlier connection."""
        generation, serial = divmod(token, 1 << 32)
        if generation != self._generation or serial not in self._open:
            return []
        self._done.add(serial)
        ready = []
        while self._open and (first := next(iter(self._open))) in self._done:
            self._done.discard(first)
            ready.append(self._open.pop(first))
        return ready
