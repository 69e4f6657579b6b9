"""The pooled example of the aggregator's README: every figure computed anew, and by the code."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from scipy.special import stdtrit

from aggregator.pooling import PooledTrain, pooled_energy, random_effects
from aggregator.uncertainty import Standard
from tests.aggregator.pools import key
from tests.aggregator.trains import T0

GAIN_U = 0.0041


@dataclass(frozen=True)
class Example:
    """The trains, and the figures as printed."""

    trains: list[list[str]]
    figures: dict[str, str]


@pytest.fixture(scope="module")
def example(repository: Path) -> Example:
    """Read from the README."""
    text = (repository / "services/aggregator/README.md").read_text("utf-8")
    section = text.partition("## Pooled means")[2].partition("\n## ")[0]
    trains = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| \d.*$", section, re.M)]
    (block,) = re.findall(r"```text\n(.*?)```", section, re.S)
    return Example(trains, dict(re.findall(r"^(\w+) +([-\d.]+)", block, re.M)))


def _rounds_to(value: float, printed: str) -> bool:
    return f"{value:.{len(printed.partition('.')[2])}f}" == printed


def _by_hand(trains: list[list[str]]) -> tuple[dict[str, float], list[float]]:
    """The formulas of the README, written down once more without the code."""
    x, u, nu = ([float(row[column]) for row in trains] for column in (1, 2, 3))
    k = len(x)
    mean_u2 = sum(each**2 for each in u) / k
    v = [ui**2 + 4 / (n + 4) * (mean_u2 - ui**2) for ui, n in zip(u, nu, strict=True)]
    w = [1 / each for each in v]
    m_0 = sum(wi * xi for wi, xi in zip(w, x, strict=True)) / sum(w)
    q = sum(wi * (xi - m_0) ** 2 for wi, xi in zip(w, x, strict=True))
    tau2 = max(0.0, (q - (k - 1)) / (sum(w) - sum(wi**2 for wi in w) / sum(w)))
    w = [1 / (each + tau2) for each in v]
    mean = sum(wi * xi for wi, xi in zip(w, x, strict=True)) / sum(w)
    u_hk = math.sqrt(sum(wi * (xi - mean) ** 2 for wi, xi in zip(w, x, strict=True)) / ((k - 1) * sum(w)))
    u_gain = GAIN_U * mean
    u_pool = math.hypot(u_hk, u_gain)
    dof = u_pool**4 / (u_hk**4 / (k - 1))
    figures = {
        "tau": math.sqrt(tau2),
        "mean": mean,
        "u_HK": u_hk,
        "u_pool_gain": u_gain,
        "u_pool": u_pool,
        "dof_pool": dof,
        "U95_pool": float(stdtrit(dof, 0.975)) * u_pool,
    }
    return figures, v


def test_every_figure_of_the_example_follows_from_its_trains(example: Example) -> None:
    figures, v = _by_hand(example.trains)
    assert example.figures.keys() == figures.keys()
    assert {name: figures[name] for name, text in example.figures.items() if not _rounds_to(figures[name], text)} == {}
    assert all(_rounds_to(each, row[4]) for each, row in zip(v, example.trains, strict=True))


def test_the_code_gives_the_figures_of_the_example(example: Example) -> None:
    figures, _ = _by_hand(example.trains)
    given = [(float(x) * 1e-3, Standard(float(u) * 1e-3, float(nu))) for _, x, u, nu, _ in example.trains]
    found = random_effects([x for x, _ in given], [own for _, own in given])
    assert 1e3 * found.between == pytest.approx(figures["tau"])
    assert 1e3 * found.standard.u == pytest.approx(figures["u_HK"])
    trains = [PooledTrain(str(number), T0 + number, x, own, GAIN_U, ()) for number, (x, own) in enumerate(given)]
    pooled = pooled_energy(key(), trains)
    assert pooled is not None
    net = pooled.net_j_per_op
    assert [1e3 * net.value, 1e3 * net.u, net.dof, 1e3 * net.u95] == pytest.approx(
        [figures[name] for name in ("mean", "u_pool", "dof_pool", "U95_pool")]
    )
