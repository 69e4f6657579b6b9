"""Uncertainty formulae against numbers that are worked out by hand or known from the literature."""

import math

import numpy as np
import pytest

from aggregator.uncertainty import Standard, combine, of_mean, of_scatter, quantity


def test_u95_is_student_t_times_u() -> None:
    assert quantity(1.0, Standard(0.1, 6)).u95 == pytest.approx(0.24469, abs=1e-5)
    assert quantity(1.0, Standard(0.1, None)).u95 == pytest.approx(0.195996, abs=1e-6)


def test_scatter_of_equal_segments_is_the_standard_error_of_their_mean() -> None:
    energy_j = np.array([1.0, 2.0, 1.5, 1.2, 1.8])
    length_s = np.full(5, 0.5)
    g = (energy_j - energy_j.mean()) / 2.5
    r1 = float(g[1:] @ g[:-1] / (g @ g))
    assert r1 < 0
    expected = energy_j.std(ddof=1) * math.sqrt(5)
    assert of_scatter(energy_j, length_s).u == pytest.approx(expected)
    assert of_scatter(energy_j, length_s).dof == 4


def test_positive_correlation_of_neighbours_widens_and_negative_never_shrinks() -> None:
    length_s = np.full(6, 1.0)
    drifting = of_scatter(np.array([1.0, 1.2, 1.4, 1.6, 1.8, 2.0]), length_s)
    alternating = of_scatter(np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0]), length_s)
    assert drifting.u > np.array([1.0, 1.2, 1.4, 1.6, 1.8, 2.0]).std(ddof=1) * math.sqrt(6) * 1.2
    assert alternating.u == pytest.approx(np.array([1.0, 2.0] * 3).std(ddof=1) * math.sqrt(6))


def test_segments_without_scatter_have_none() -> None:
    assert of_scatter(np.full(5, 2.0), np.full(5, 1.0)).u == 0.0


def test_independent_parts_add_in_quadrature_with_welch_satterthwaite() -> None:
    whole = combine([Standard(3.0, 4), Standard(4.0, None)])
    assert whole.u == pytest.approx(5.0)
    assert whole.dof == pytest.approx(5.0**4 / (3.0**4 / 4))
    assert combine([Standard(1.0), Standard(1.0)]).dof is None


def test_white_noise_has_the_textbook_standard_error_within_a_factor() -> None:
    values = np.random.default_rng(5).normal(0, 1, 1500)
    standard = of_mean(values)
    assert standard is not None
    assert 0.9 < standard.u * math.sqrt(1500) < 3.0


def test_held_values_are_not_taken_for_independent_samples() -> None:
    held = np.repeat(np.random.default_rng(6).normal(0, 1, 150), 10)
    standard = of_mean(held)
    assert standard is not None
    naive = held.std(ddof=1) / math.sqrt(len(held))
    assert standard.u > 2.5 * naive


def test_fewer_than_six_samples_say_nothing() -> None:
    assert of_mean(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) is None
