"""Standard uncertainties and coverage intervals, as in the GUM (JCGM 100). Pure; README.md has a worked example."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from schemas import Quantity

Floats = NDArray[np.float64]
MINIMUM_BLOCKS = 6
"""Batch means use at least this many blocks: a 30 s recording is judged by means of up to 5 s."""


@dataclass(frozen=True, slots=True)
class Standard:
    """A standard uncertainty with its degrees of freedom; None means unlimited."""

    u: float
    dof: float | None = None

    def scaled(self, factor: float) -> "Standard":
        """The uncertainty of `factor` times the quantity."""
        return Standard(abs(factor) * self.u, self.dof)


def combine(parts: Sequence[Standard]) -> Standard:
    """Independent parts in quadrature, degrees of freedom by Welch-Satterthwaite (JCGM 100, G.4.1)."""
    u = math.hypot(*(part.u for part in parts))
    weight = sum(part.u**4 / part.dof for part in parts if part.dof is not None)
    return Standard(u, u**4 / weight if weight > 0 else None)


def quantity(value: float, standard: Standard) -> Quantity:
    """Value with u, degrees of freedom and U95 by Student's t."""
    factor = 1.959963984540054 if standard.dof is None else float(stdtrit(standard.dof, 0.975))
    return Quantity(value=value, u=standard.u, dof=standard.dof, u95=factor * standard.u)


def of_scatter(energy_j: Floats, length_s: Floats) -> Standard:
    """Uncertainty of the sum of `energy_j` (k,) from its scatter over segments of `length_s` (k,), k >= 2.

    With e_k = E_k / T_k and e = sum E / sum T: g_k = T_k (e_k - e) / sum T, V0 = K/(K-1) sum g_k^2, and
    V = V0 max(1, 1 + 2 r1), r1 the lag-1 autocorrelation of g: neighbours share an idle segment. Never shrunk.
    """
    k = len(energy_j)
    total_s = float(length_s.sum())
    g_w = (energy_j - length_s * (energy_j.sum() / total_s)) / total_s
    squares = float(g_w @ g_w)
    if squares == 0.0:
        return Standard(0.0, k - 1)
    r1 = float(g_w[1:] @ g_w[:-1]) / squares
    variance_w2 = k / (k - 1) * squares * max(1.0, 1.0 + 2.0 * r1)
    return Standard(math.sqrt(variance_w2) * total_s, k - 1)


def of_mean(values: Floats) -> Standard | None:
    """Uncertainty of the mean of correlated samples (n,), by batch means; None for fewer than six samples.

    The block length is found from the data: block lengths double while six blocks fit, and the largest standard error
    counts, so that neither held values nor slow wander are taken for independent samples.
    """
    best: Standard | None = None
    length = 1
    while len(values) // length >= MINIMUM_BLOCKS:
        blocks = len(values) // length
        means = values[: blocks * length].reshape(blocks, length).mean(axis=1)
        u = float(means.std(ddof=1)) / math.sqrt(blocks)
        if best is None or u > best.u:
            best = Standard(u, blocks - 1)
        length *= 2
    return best
