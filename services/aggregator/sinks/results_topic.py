"""Publishes results from the journal: a result counts as published when the broker has confirmed it."""

from aggregator.journal import Journal
from bus import Bus
from schemas import latest_slug

FLUSH_S = 5.0


class ResultsTopic:
    """The journal is the outbox: what a kill leaves unpublished goes out at the next start."""

    def __init__(self, bus: Bus, journal: Journal) -> None:
        self._bus, self._journal = bus, journal

    def publish(self) -> None:
        """Publish what has not been; nothing happens while the broker is away."""
        if not self._bus.connected:
            return
        pending = self._journal.results.unpublished()
        for _, result in pending:
            self._bus.publish("results", result.site, result, dut=result.dut)
            if self._journal.results.is_latest(result):
                self._bus.publish(
                    "latest",
                    result.site,
                    result,
                    dut=result.dut,
                    backend=result.backend,
                    operation=result.operation,
                    slug=latest_slug(result.operation, result.parameter_set, result.variant),
                )
        if pending and self._bus.flush(FLUSH_S):
            self._journal.results.mark_published(row for row, _ in pending)
