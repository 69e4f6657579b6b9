"""The worked example of the aggregator's README: every figure computed anew, and by the code."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import stdtrit

from aggregator.clocks import Timeline
from aggregator.crypto import with_crypto
from aggregator.energy import guarded, measure
from aggregator.result import MeterView, of_train
from aggregator.trace import PowerTrace
from aggregator.uncertainty import Standard, quantity
from schemas import BudgetPart, EnergyResult, Quantity, Segment
from tests.aggregator.trains import EVENT_ID, SECOND, T0, event

GUARD_S = 0.12
GAIN_U = 0.0041
NULL = "processes=2,reads=key"
NULL_J, NULL_U_J, NULL_DOF = 3.900e-3, 0.040e-3, 9
PERIOD_NS = 10_000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """The tables and figures, as printed where they are results."""

    given: Floats
    per_segment: list[list[str]]
    figures: dict[str, str]


@pytest.fixture(scope="module")
def example(repository: Path) -> Example:
    """Read from the README."""
    text = (repository / "services/aggregator/README.md").read_text("utf-8")
    section = text.partition("## Worked example")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| \d.*$", section, re.M)]
    blocks = "\n".join(re.findall(r"```text\n(.*?)```", section, re.S))
    figures = dict(re.findall(r"^(\w+) +([-\d.e]+)", blocks, re.M))
    given = np.array([row for row in rows if len(row) == 7], dtype=np.float64)
    return Example(given, [row for row in rows if len(row) == 5], figures)


def _same(printed: str, value: float) -> bool:
    """Whether the value rounds to what is printed."""
    mantissa, _, exponent = printed.partition("e")
    decimals = len(mantissa.partition(".")[2])
    scale: float = 10.0 ** int(exponent or 0)
    return bool(abs(float(mantissa) - value / scale) <= 0.5000001 * 10.0**-decimals)


def _by_hand(given: Floats) -> tuple[dict[str, float], dict[str, Floats]]:
    """The formulas of the README, written down once more without the code."""
    _, before, after, load, settling, t, n = given.T
    b = (before + after) / 2
    e = load * t + GUARD_S * before + GUARD_S * settling - b * (t + 2 * GUARD_S)
    plateau = (load - b) * t
    total, k = t.sum(), len(t)
    mean = e.sum() / total
    g = t * (e / t - mean) / total
    r1 = (g[1:] * g[:-1]).sum() / (g**2).sum()
    v0 = k / (k - 1) * (g**2).sum()
    v = v0 * max(1.0, 1.0 + 2.0 * r1)
    u_scatter, u_gain = total * np.sqrt(v), GAIN_U * e.sum()
    u = np.sqrt(u_scatter**2 + u_gain**2)
    dof = u**4 / (u_scatter**4 / (k - 1))
    factor = stdtrit(dof, 0.975)
    per_op = e.sum() / n.sum()
    crypto = per_op - NULL_J
    parts = (u_scatter / n.sum(), NULL_U_J, GAIN_U * crypto)
    u_crypto = np.sqrt(sum(part**2 for part in parts))
    dof_crypto = u_crypto**4 / (parts[0] ** 4 / (k - 1) + parts[1] ** 4 / NULL_DOF)
    figures = {
        "E_net": e.sum(),
        "E_plateau": plateau.sum(),
        "transient": (e - plateau).sum(),
        "u_transient": np.sqrt(k) * (e - plateau).std(ddof=1),
        "T": total,
        "e": mean,
        "sum_g2": (g**2).sum(),
        "r1": r1,
        "V0": v0,
        "V": v,
        "u_scatter": u_scatter,
        "u_clock": 0.0,
        "u_gain": u_gain,
        "u": u,
        "dof": dof,
        "t": factor,
        "U95": factor * u,
        "N": n.sum(),
        "E_op": 1e3 * per_op,
        "U95_op": 1e3 * factor * u / n.sum(),
        "E_crypto": 1e3 * crypto,
        "u_crypto": 1e3 * u_crypto,
        "dof_crypto": dof_crypto,
        "U95_crypto": 1e3 * stdtrit(dof_crypto, 0.975) * u_crypto,
    }
    return {name: float(value) for name, value in figures.items()}, {"b": b, "E": e, "plateau": plateau, "g": 1e3 * g}


def _train(given: Floats) -> tuple[tuple[Segment, ...], PowerTrace]:
    """The train of the example: power constant in each stretch, stepping within one sample at its start."""
    segments: list[Segment] = []
    levels: list[tuple[int, float]] = []
    at_ns, idle_ns, guard_ns = T0, SECOND // 2, round(GUARD_S * SECOND)
    levels.append((at_ns, given[0][1]))
    for _, _, after, load, settling, t, n in given:
        segments.append(Segment(kind="idle", start_ns=at_ns, end_ns=at_ns + idle_ns))
        start_ns = at_ns + idle_ns
        at_ns = start_ns + round(t * SECOND)
        segments.append(Segment(kind="load", start_ns=start_ns, end_ns=at_ns, repetitions=int(n)))
        levels += [(start_ns, load), (at_ns, settling), (at_ns + guard_ns, after)]
    segments.append(Segment(kind="idle", start_ns=at_ns, end_ns=at_ns + idle_ns))
    t_ns = np.arange(T0, at_ns + idle_ns + 1, PERIOD_NS, dtype=np.int64)
    edges_ns, powers_w = np.array([t for t, _ in levels]), np.array([power for _, power in levels])
    return tuple(segments), PowerTrace(t_ns, powers_w[np.searchsorted(edges_ns, t_ns, side="right") - 1], PERIOD_NS)


@pytest.fixture(scope="module")
def result(example: Example) -> EnergyResult:
    """What the code makes of it."""
    segments, trace = _train(example.given)
    view = MeterView("fnb58", "FNB58", "measured", Timeline("shared", None), trace)
    return of_train(event(segments, guard_s=GUARD_S, null_variant=NULL), view, 1, "test")


def test_every_figure_of_the_example_follows_from_its_table(example: Example) -> None:
    figures, _ = _by_hand(example.given)
    assert example.figures.keys() == figures.keys()
    assert {name: figures[name] for name, printed in example.figures.items() if not _same(printed, figures[name])} == {}


def test_every_row_of_the_example_follows_from_its_table(example: Example) -> None:
    _, columns = _by_hand(example.given)
    assert len(example.per_segment) == len(example.given) == 5
    for k, (_, *printed) in enumerate(example.per_segment):
        assert all(_same(text, columns[name][k]) for text, name in zip(printed, columns, strict=True)), printed


def test_the_idle_segments_of_the_example_are_shared_by_neighbours(example: Example) -> None:
    assert example.given[1:, 1] == pytest.approx(example.given[:-1, 2])


def test_the_code_gives_the_energies_of_the_example(example: Example, result: EnergyResult) -> None:
    figures, columns = _by_hand(example.given)
    segments, trace = _train(example.given)
    loads = measure(trace, segments, round(GUARD_S * SECOND)).loads
    assert [load.baseline_w for load in loads] == pytest.approx(columns["b"])
    assert [load.net_j for load in loads] == pytest.approx(columns["E"], rel=5e-5)
    assert [load.plateau_j for load in loads] == pytest.approx(columns["plateau"], rel=5e-5)
    assert result.quality == "good" and result.flags == ()
    assert result.net_j is not None and result.transient_j is not None and result.net_j_per_op is not None
    assert result.net_j.value == pytest.approx(figures["E_net"], rel=5e-5)
    assert result.transient_j.u == pytest.approx(figures["u_transient"], rel=5e-3)
    assert 1e3 * result.net_j_per_op.value == pytest.approx(figures["E_op"], rel=5e-5)


def test_the_code_gives_the_uncertainty_of_the_example(example: Example, result: EnergyResult) -> None:
    figures, _ = _by_hand(example.given)
    assert result.net_j is not None
    per_op = {part.name: part.u for part in result.budget}
    assert per_op["scatter"] * figures["N"] == pytest.approx(figures["u_scatter"], rel=5e-4)
    assert per_op["gain"] * figures["N"] == pytest.approx(figures["u_gain"], rel=5e-4)
    assert per_op["clock"] == 0.0
    assert result.net_j.u == pytest.approx(figures["u"], rel=5e-4)
    assert result.net_j.dof == pytest.approx(figures["dof"], rel=5e-4)
    assert result.net_j.u95 == pytest.approx(figures["U95"], rel=5e-4)


def test_the_code_gives_the_crypto_energy_of_the_example(example: Example, result: EnergyResult) -> None:
    figures, _ = _by_hand(example.given)
    scatter = BudgetPart(name="scatter", u=NULL_U_J, dof=NULL_DOF, source="the data")
    gain = BudgetPart(name="gain", u=GAIN_U * NULL_J, source="claimed")
    null: Quantity = quantity(NULL_J, Standard(NULL_U_J, NULL_DOF))
    other = {
        "operation": "null",
        "variant": NULL,
        "net_j_per_op": null,
        "budget": (scatter, gain),
        "event_id": EVENT_ID,
    }
    crypto = with_crypto(result, [result.model_copy(update=other)]).crypto_j_per_op
    assert crypto is not None
    assert 1e3 * crypto.value == pytest.approx(figures["E_crypto"], rel=3e-4)
    assert 1e3 * crypto.u == pytest.approx(figures["u_crypto"], rel=5e-4)
    assert crypto.dof == pytest.approx(figures["dof_crypto"], rel=1e-3)
    assert 1e3 * crypto.u95 == pytest.approx(figures["U95_crypto"], rel=5e-4)


def test_the_guard_of_the_example_leaves_idle_power_alone(example: Example) -> None:
    segments, trace = _train(example.given)
    idle = [s for s in segments if s.kind == "idle"]
    means_w = [trace.samples(*guarded(segment, round(GUARD_S * SECOND))).mean() for segment in idle]
    assert means_w == pytest.approx([*example.given[:, 1], example.given[-1, 2]])
