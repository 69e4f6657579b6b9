"""What is right or wrong with a published figure: derived from the recordings, never listed. Pure."""

from dataclasses import dataclass

from opjoule.study.published import PublishedRow

TOLERANCE = 1e-3
"""Figures agree within 0.1 %."""

_MOST_DECIMALS = 10
"""An FNB58 counts in 1e-10 W."""

AGREES = "agrees"
TIMING_ONLY = "timing only"
NOT_PUBLISHED = "not published"
NOT_RECORDED = "not recorded"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the recordings say: mean powers in W, net energy per operation in J."""

    idle_w: float
    load_w: float
    j_per_op: float


def verdict(published: PublishedRow, recorded: Recorded) -> str:
    """Why a published energy differs from the recorded one, or that it agrees.

    A typed power is named as the cause where the study's own equation (P_load - P_idle) x time per operation gives the
    published energy with it and not without it.
    """
    if published.j_per_op is None:
        return TIMING_ONLY
    if _same(recorded.j_per_op, published.j_per_op):
        return AGREES
    return _cause(published, recorded, published.j_per_op) or (
        f"published energy follows neither from the recordings ({_ratio(recorded.j_per_op, published.j_per_op)})"
        " nor from its own powers and time"
    )


def is_failure(said: str) -> bool:
    """Whether a verdict means that something which should have been done was left out."""
    return said == NOT_RECORDED or said.startswith(UNREADABLE)


def _cause(published: PublishedRow, recorded: Recorded, published_j: float) -> str:
    """The typed powers that the published energy follows from and that are not the recorded ones; empty if none do."""
    if published.idle_w is None or published.load_w is None:
        return ""
    idle = _typed("idle", published.idle_text, published.idle_w, recorded.idle_w)
    load = _typed("load", published.load_text, published.load_w, recorded.load_w)
    causes = (
        ((published.idle_w, recorded.load_w), (idle,)),
        ((recorded.idle_w, published.load_w), (load,)),
        ((published.idle_w, published.load_w), (idle, load)),
    )
    for (idle_w, load_w), said in causes:
        if _same((load_w - idle_w) * published.s_per_op, published_j):
            return "; ".join(said)
    return ""


def _ratio(recorded_j: float, published_j: float) -> str:
    return f"ratio {recorded_j / published_j:.4f}" if published_j else f"{recorded_j:.4g} J"


def _typed(which: str, text: str, published_w: float, recorded_w: float) -> str:
    """Both with the decimals that were typed, or more where only those show the difference."""
    decimals = len(text.partition(".")[2]) or 5
    while decimals < _MOST_DECIMALS and f"{published_w:.{decimals}f}" == f"{recorded_w:.{decimals}f}":
        decimals += 1
    return (
        f"published {which} power differs from the recording:"
        f" {published_w:.{decimals}f} W against {recorded_w:.{decimals}f} W"
    )


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * abs(b)
