"""Figures show two digits of their uncertainty, one prefix for both, and never more than is known."""

import pytest

from opjoule.figures import plain, with_u95
from schemas import Quantity


def shown(value: float, u95: float, unit: str = "J") -> str:
    return with_u95(Quantity(value=value, u=u95 / 2, u95=u95), unit)


@pytest.mark.parametrize(
    ("value", "u95", "text"),
    [
        (0.0345, 0.0008, "34.50 ± 0.80 mJ"),
        (0.0345, 0.00123, "34.5 ± 1.2 mJ"),
        (1.5364, 0.021, "1.536 ± 0.021 J"),
        (312.4, 12.3, "312 ± 12 J"),
        (0.000_045_6, 0.000_002_1, "45.6 ± 2.1 µJ"),
        (4.56e-8, 2.1e-9, "45.6 ± 2.1 nJ"),
        (0.9999, 0.01, "1000 ± 10 mJ"),
        (0.0345, 0.000_099_6, "34.50 ± 0.10 mJ"),
        (-0.0345, 0.0008, "-34.50 ± 0.80 mJ"),
        (0.001, 5.0, "0.0 ± 5.0 J"),
        (-0.001, 5.0, "0.0 ± 5.0 J"),
        (0.001, 1234.0, "0 ± 1234 J"),
        (0.0345, 0.0, "34.5000 ± 0.0000 mJ"),
        (0.0, 0.0, "0.0000 ± 0.0000 J"),
        (0.0, 0.002, "0.0 ± 2.0 mJ"),
    ],
)
def test_value_and_uncertainty_share_decimals_and_prefix(value: float, u95: float, text: str) -> None:
    assert shown(value, u95) == text


def test_the_unit_follows_the_prefix() -> None:
    assert shown(0.0021, 0.0004, "W") == "2.10 ± 0.40 mW"


def test_no_figure_is_a_dash_not_a_zero() -> None:
    assert with_u95(None) == plain(None) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.034534, "34.53 mJ"), (1.53641, "1.536 J"), (-0.002, "-2 mJ"), (0.0, "0 J"), (3e-12, "0.003 nJ")],
)
def test_a_figure_without_uncertainty_shows_four_digits(value: float, text: str) -> None:
    assert plain(value) == text
