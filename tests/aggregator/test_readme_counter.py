"""The counter's example in the aggregator's README: every figure computed anew, and by the code."""

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from aggregator.counter import HELD_S, CounterReading, compare, disagrees
from aggregator.meters import METERS, facts
from aggregator.trace import PowerTrace
from schemas import CounterCheck
from tests.aggregator.trains import SECOND, T0

STEP_J, PERIOD_S, COUNTER_U = 3.6, 0.1, 0.002 / math.sqrt(3)


@dataclass(frozen=True)
class Example:
    """Stretches of constant power (from s, to s, W), readings (s, mWh), and the figures as printed."""

    powers: list[tuple[float, ...]]
    readings: list[tuple[float, ...]]
    figures: dict[str, str]


@pytest.fixture(scope="module")
def section(repository: Path) -> str:
    """From heading to heading."""
    text = (repository / "services/aggregator/README.md").read_text("utf-8")
    return text.partition("## The meter's own counter")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def example(section: str) -> Example:
    """Read from the README."""
    lines = re.findall(r"^\| \d.*$", section, re.M)
    rows = [tuple(float(cell) for cell in line.strip("|").split("|")) for line in lines]
    (block,) = re.findall(r"```text\n(.*?)```", section, re.S)
    figures = dict(re.findall(r"^(\w+) +(-?[\d.]+)", block, re.M))
    return Example([row for row in rows if len(row) == 3], [row for row in rows if len(row) == 2], figures)


def _by_hand(example: Example) -> dict[str, float]:
    """The formulas of the README, written down once more without the code."""
    c = (example.readings[-1][1] - example.readings[0][1]) * STEP_J
    u_step, u_power = STEP_J / math.sqrt(6), COUNTER_U * c
    u_c = math.hypot(u_step, u_power)
    watts = [power for _, _, power in example.powers]
    steps = [after - before for before, after in pairwise(watts)]
    u_between = math.sqrt(sum((0.5 * step) ** 2 / 2 for step in steps))
    u_ends = PERIOD_S * math.sqrt((watts[0] ** 2 + watts[-1] ** 2) / 3)
    integral = sum((end - start) * power for start, end, power in example.powers)
    u_i = math.hypot(u_between, u_ends)
    return {
        "C": c,
        "u_step": u_step,
        "u_power": u_power,
        "u_C": u_c,
        "I": integral,
        "u_between": u_between,
        "u_ends": u_ends,
        "u_I": u_i,
        "difference": c - integral,
        "limit": 3 * math.hypot(u_c, u_i),
    }


def _check(example: Example) -> CounterCheck:
    t_s = np.arange(0, example.powers[-1][1] + PERIOD_S / 2, PERIOD_S)
    starts = np.array([start for start, _, _ in example.powers])
    watts = np.array([power for _, _, power in example.powers])
    power_w = watts[np.searchsorted(starts, t_s + 1e-9, side="right") - 1]
    trace = PowerTrace(T0 + np.round(t_s * 1e9).astype(np.int64), power_w, round(PERIOD_S * SECOND))
    readings = [CounterReading(T0 + round(t * SECOND), mwh * STEP_J, STEP_J) for t, mwh in example.readings]
    check = compare(trace, readings, T0, T0 + 60 * SECOND, facts("TC66C").counter_u)
    assert check is not None
    return check


def _rounds_to(value: float, printed: str) -> bool:
    return f"{value:.{len(printed.partition('.')[2])}f}" == printed


def test_every_figure_of_the_counter_example_follows_from_its_tables(example: Example) -> None:
    figures = _by_hand(example)
    assert example.figures.keys() == figures.keys()
    wrong = {name: figures[name] for name, text in example.figures.items() if not _rounds_to(figures[name], text)}
    assert wrong == {}


def test_the_code_gives_the_figures_of_the_counter_example(example: Example) -> None:
    figures, check = _by_hand(example), _check(example)
    assert check.span_s == pytest.approx(60.0)
    assert (check.counter_j.value, check.counter_j.u) == pytest.approx((figures["C"], figures["u_C"]))
    assert check.integral_j is not None
    assert (check.integral_j.value, check.integral_j.u) == pytest.approx((figures["I"], figures["u_I"]))
    assert not disagrees(check)


def test_the_longest_time_that_a_value_is_held_is_that_of_the_readme(section: str) -> None:
    assert f"at most {HELD_S} s" in section


def test_the_readme_lists_the_gain_of_every_model_with_its_source(repository: Path) -> None:
    text = (repository / "services/aggregator/README.md").read_text("utf-8")
    table = text.partition("## Gain by model")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| .*$", table, re.M)]
    listed = {name.strip(): (u, source) for names, u, source in rows for name in names.split(",")}
    for model, known in METERS.items():
        u, source = listed[model]
        assert u == ("unknown" if known.gain_u is None else f"{known.gain_u:g}")
        assert source.startswith(known.gain_source)
