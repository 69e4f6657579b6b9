"""Trains with samples, and the result of one, for tests of sinks."""

from uuid import UUID

import numpy as np

from schemas import EnergyResult, OperationEvent, SampleBatch
from tests.aggregator.conftest import Lab
from tests.aggregator.trains import SECOND, T0, batches, event, segments, steps, trace

TRAIN_S = 12.0


def train(number: int = 1, start_ns: int = T0, **changes: object) -> OperationEvent:
    """A train of six loads; trains of different numbers start `TRAIN_S` apart."""
    parts = segments(6, start_ns=start_ns + round((number - 1) * TRAIN_S * SECOND))
    return event(parts, event_id=UUID(f"01890a5d-ac96-774b-bcce-{number:012x}"), **changes)


def samples(*trains: OperationEvent, start_ns: int = T0, **changes: object) -> list[SampleBatch]:
    """What a meter sees of trains from `start_ns` on: 2 W, 5 W in loads, and noise."""
    rng = np.random.default_rng(11)
    loads = [part for each in trains for part in each.segments]
    first = loads[0].model_copy(update={"kind": "idle", "start_ns": start_ns, "end_ns": start_ns + 1, "repetitions": 0})
    square = steps([first, *loads], 2.0, 5.0)
    data = trace(lambda t: square(t) + rng.normal(0, 0.05, len(t)), len(trains) * TRAIN_S, start_ns=start_ns)
    return batches(data, **changes)  # type: ignore[arg-type]


def good_result(lab: Lab) -> EnergyResult:
    """What an aggregator makes of one train."""
    lab.send(*samples(train()), train())
    lab.run()
    (result,) = lab.results()
    assert result.quality == "good"
    return result
