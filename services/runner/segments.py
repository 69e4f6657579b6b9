"""The plan of a train: idle and load segments in turn, of random lengths (DESIGN.md 4). Pure."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from errors import SettingsError

PresetName = Literal["short", "medium", "long"]
LONG_REPETITION_S = 2.0
"""From here on a load segment is one long repetition, and the idle segments are as long as it is."""
LONGEST_IDLE_REFERENCE_S = 30.0
SHORT_REPETITION_S = 0.05
"""Up to here the repetition that crosses the end of a load segment is not counted in: half of it, on average."""
LEAST_LOADS = 5
LEAST_LONG_LOADS = 3
LONGEST_TRAIN_S = 86_000.0
"""The contract's day, less what repetitions may take longer than in the trial."""
MOST_SEGMENTS = 99_999
"""Of the contract's 100,000: a train has an odd number."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Lengths are drawn uniformly between `low_s` and `high_s`; `guard_s` is cut from both ends of idle segments."""

    low_s: float
    high_s: float
    guard_s: float


PRESETS: Mapping[PresetName, Preset] = MappingProxyType(
    {"short": Preset(0.4, 1.0, 0.12), "medium": Preset(0.8, 1.6, 0.3), "long": Preset(3.0, 6.0, 1.4)}
)
"""By settling time: up to 17 ms, 40 ms and 200 ms (DESIGN.md 4: the guard holds seven settling constants)."""


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """A load segment runs until the repetition that crosses its planned end."""

    kind: Literal["idle", "load"]
    duration_ns: int


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """Begins and ends with idle. `expected_s` counts in that repetitions are finished."""

    segments: tuple[PlannedSegment, ...]
    guard_s: float
    expected_s: float

    @property
    def load_ns(self) -> int:
        """Planned length of all load segments together."""
        return sum(segment.duration_ns for segment in self.segments if segment.kind == "load")


def plan_train(seed: int, total_s: float, repetition_s: float, preset: Preset) -> TrainPlan:
    """A train of about `total_s`, longer where the least number of load segments does not fit into that.

    `repetition_s` is what one repetition takes, 0 for a sham train. The same arguments give the same plan, and for
    repetitions of up to `SHORT_REPETITION_S` the plan does not depend on their time, so that a run can be repeated
    exactly though trials scatter. Raises SettingsError when the least number of segments does not fit a day.
    """
    draw = random.Random(seed)
    least_loads = LEAST_LONG_LOADS if repetition_s > LONG_REPETITION_S else LEAST_LOADS
    expected_s = _idle_s(draw, preset, repetition_s)
    segments = [_planned("idle", expected_s)]
    while True:
        load_s = draw.uniform(preset.low_s, preset.high_s)
        idle_s = _idle_s(draw, preset, repetition_s)
        pair_s = _with_last_repetition(load_s, repetition_s) + idle_s
        full = expected_s + pair_s > LONGEST_TRAIN_S or len(segments) + 2 > MOST_SEGMENTS
        if len(segments) // 2 >= least_loads and (full or expected_s + pair_s / 2 > total_s):
            return TrainPlan(tuple(segments), preset.guard_s, expected_s)
        if full:
            raise SettingsError(
                f"one repetition takes {repetition_s:.0f} s: {least_loads} of them fit no train of a day"
            )
        segments += [_planned("load", load_s), _planned("idle", idle_s)]
        expected_s += pair_s


def _idle_s(draw: random.Random, preset: Preset, repetition_s: float) -> float:
    if repetition_s <= LONG_REPETITION_S:
        return draw.uniform(preset.low_s, preset.high_s)
    reference_s = min(_with_last_repetition(preset.low_s, repetition_s), LONGEST_IDLE_REFERENCE_S)
    return max(draw.uniform(0.5 * reference_s, 1.5 * reference_s), preset.low_s)


def _with_last_repetition(load_s: float, repetition_s: float) -> float:
    """Length of a load segment, which ends with the repetition that crosses its planned end."""
    return math.ceil(load_s / repetition_s) * repetition_s if repetition_s > SHORT_REPETITION_S else load_s


def _planned(kind: Literal["idle", "load"], duration_s: float) -> PlannedSegment:
    return PlannedSegment(kind, round(duration_s * 1e9))
