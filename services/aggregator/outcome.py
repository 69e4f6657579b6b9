"""One result of a train at a meter, whatever its numbers do to the arithmetic; and whether it says anything new."""

import logging

from aggregator.result import MeterView, not_computable, of_train
from schemas import EnergyResult, OperationEvent

log = logging.getLogger(__name__)


def of_view(event: OperationEvent, view: MeterView, software: str) -> EnergyResult:
    """The result, its first revision; `not_computable` where the numbers break the arithmetic."""
    try:
        return of_train(event, view, 1, software)
    except (ArithmeticError, ValueError) as error:
        log.warning("train %s of %s cannot be computed for %s: %s", event.event_id, event.dut, view.meter, error)
        return not_computable(event, view, 1, software)


def revised(result: EnergyResult, previous: EnergyResult | None, newest: int) -> EnergyResult | None:
    """The result as the next revision; None where it says nothing new."""
    if previous is not None and result.model_copy(update={"revision": previous.revision}) == previous:
        return None
    return result.model_copy(update={"revision": newest + 1})
