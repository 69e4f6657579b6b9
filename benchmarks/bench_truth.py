"""`make bench-truth`: trains with a known energy, made by a generator, through the estimator of the aggregator.

For every kind of background: bias of the net power in percent of the step, how often U95 covers the truth, and how many
trains are not called good. Trains of 8 s, as in the demo, and of 60 s, the default. The last line is the figures.
"""

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from aggregator.clocks import Timeline
from aggregator.result import MeterView, of_train
from aggregator.trace import PowerTrace
from runner.segments import PRESETS, plan_train
from schemas import EnergyResult, Segment
from tests.aggregator.trains import SECOND, T0, event

Floats = NDArray[np.float64]
STEP_W, IDLE_W, REPETITION_S, PERIOD_NS, GRID_NS = 1.0, 2.0, 0.01, 10_000_000, 1_000_000
Noise = Callable[[Floats, np.random.Generator], Floats]


def white(t_s: Floats, rng: np.random.Generator) -> Floats:
    """Independent from sample to sample."""
    return rng.normal(0.0, 0.1, len(t_s))


def skewed(t_s: Floats, rng: np.random.Generator) -> Floats:
    """Slow wander, and an exponential tail upwards."""
    wander = lfilter([np.sqrt(1 - 0.9**2)], [1, -0.9], rng.standard_normal(len(t_s)))
    return np.asarray(0.03 * wander + 0.05 * (rng.exponential(1.0, len(t_s)) - 1.0), dtype=np.float64)


def periodic(period_s: float) -> Noise:
    """Background work that comes and goes, of random phase, in white noise."""

    def noise(t_s: Floats, rng: np.random.Generator) -> Floats:
        wave = 0.1 * np.sin(2 * np.pi * (t_s / period_s + rng.random()))
        return np.asarray(wave + rng.normal(0.0, 0.05, len(t_s)), dtype=np.float64)

    return noise


@dataclass(frozen=True)
class Kind:
    """A kind of background and of meter."""

    name: str
    noise: Noise
    settling_s: float = 0.0
    held_s: float = 0.0
    lost: float = 0.0


KINDS = (
    Kind("white", white),
    Kind("skewed", skewed),
    Kind("skewed_held_100ms", skewed, held_s=0.1),
    Kind("skewed_lost_1pc", skewed, lost=0.01),
    Kind("period_1.4s", periodic(1.4)),
    Kind("period_4s", periodic(4.0)),
    Kind("settling_17ms", skewed, settling_s=0.017),
    Kind("settling_60ms", skewed, settling_s=0.060),
    Kind("settling_100ms", skewed, settling_s=0.100),
)


def train(kind: Kind, total_s: float, rng: np.random.Generator) -> EnergyResult:
    """One train of the default preset; repetitions take 10 ms and cost STEP_W x 10 ms."""
    plan = plan_train(int(rng.integers(2**40)), total_s, REPETITION_S, PRESETS["short"])
    segments, at_ns = [], T0
    for planned in plan.segments:
        repetitions = -(-planned.duration_ns // round(REPETITION_S * 1e9)) if planned.kind == "load" else 0
        length_ns = repetitions * round(REPETITION_S * 1e9) or planned.duration_ns
        segments.append(Segment(kind=planned.kind, start_ns=at_ns, end_ns=at_ns + length_ns, repetitions=repetitions))
        at_ns += length_ns
    view = MeterView("m", "simulated", "measured", Timeline("shared", None), _trace(kind, segments, rng))
    return of_train(event(segments, guard_s=plan.guard_s), view, 1, "bench")


def _trace(kind: Kind, segments: list[Segment], rng: np.random.Generator) -> PowerTrace:
    """What the meter says: a value every 10 ms of a power that is made on a grid of 1 ms."""
    grid_ns = np.arange(segments[0].start_ns - SECOND, segments[-1].end_ns + SECOND, GRID_NS, dtype=np.int64)
    load = np.zeros(len(grid_ns))
    for segment in segments:
        if segment.kind == "load":
            load[(grid_ns >= segment.start_ns) & (grid_ns < segment.end_ns)] = STEP_W
    if kind.settling_s:
        keep = np.exp(-GRID_NS / 1e9 / kind.settling_s)
        load = lfilter([1 - keep], [1, -keep], load)
    every = PERIOD_NS // GRID_NS
    t_ns, power_w = grid_ns[::every], IDLE_W + load[::every]
    power_w = power_w + kind.noise((t_ns - t_ns[0]) / 1e9, rng)
    if kind.held_s:
        hold = round(kind.held_s * 1e9) // PERIOD_NS
        power_w = power_w[np.arange(len(power_w)) // hold * hold]
    kept = np.repeat(rng.random(-(-len(t_ns) // 4)) >= kind.lost, 4)[: len(t_ns)]
    return PowerTrace(t_ns[kept], power_w[kept], PERIOD_NS)


def main() -> int:
    """Print the table; the last line is key=value."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trains", type=int, default=400, help="of each kind and length")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    figures = [f"seed={args.seed}", f"trains={args.trains}"]
    print(f"{'background':20} {'train':>6} {'bias %':>8} {'covered %':>10} {'not good %':>11}")
    for kind in KINDS:
        for total_s in (8.0, 60.0):
            results = [train(kind, total_s, rng) for _ in range(args.trains)]
            powers = [each.net_power_w for each in results if each.net_power_w is not None]
            bias = 100 * float(np.mean([power.value for power in powers]) - STEP_W) / STEP_W
            covered = 100 * float(np.mean([abs(power.value - STEP_W) <= power.u95 for power in powers]))
            not_good = 100 * float(np.mean([each.quality != "good" for each in results]))
            print(f"{kind.name:20} {total_s:4.0f} s {bias:8.2f} {covered:10.1f} {not_good:11.1f}", flush=True)
            figures.append(f"{kind.name}_{total_s:.0f}s_bias_pc={bias:.2f}")
            figures.append(f"{kind.name}_{total_s:.0f}s_covered_pc={covered:.1f}")
            figures.append(f"{kind.name}_{total_s:.0f}s_not_good_pc={not_good:.1f}")
    print(" ".join(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
