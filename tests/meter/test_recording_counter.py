"""The energy channel of a recording as the counter of its meter."""

from array import array
from itertools import pairwise

import pytest

from meter.protocols.recording import Recording


def _step_j(*energy_j: float) -> float | None:
    column = array("d", energy_j) if energy_j else None
    t_s = array("d", (0.02 * row for row in range(max(1, len(energy_j)))))
    return Recording(50.0, t_s, array("d", (1.0 for _ in t_s)), None, None, column, {}, ()).energy_step_j


def test_the_step_of_the_energy_channel_is_its_smallest_increase() -> None:
    steps = [0, 0, 2, 3, 3, 6]
    assert _step_j(*(0.036 * step for step in steps)) == pytest.approx(0.036)
    assert min(after - before for before, after in pairwise(steps) if after > before) == 1


def test_a_channel_that_falls_or_stands_still_or_is_not_there_has_no_step() -> None:
    assert _step_j(3.6, 3.6, 0.0) is None
    assert _step_j(3.6) is None
    assert _step_j() is None
