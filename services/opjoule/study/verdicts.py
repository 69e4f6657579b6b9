"""What is right or wrong with a published figure: derived from the recordings, never listed. Pure."""

from dataclasses import dataclass

from opjoule.study.published import PublishedRow

TOLERANCE = 1e-3
"""Figures agree within 0.1 %."""

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
    if published.j_per_op is None or published.idle_w is None or published.load_w is None:
        return TIMING_ONLY
    if _same(recorded.j_per_op, published.j_per_op):
        return AGREES
    idle = _typed("idle", published.idle_text, published.idle_w, recorded.idle_w)
    load = _typed("load", published.load_text, published.load_w, recorded.load_w)
    causes = (
        ((published.idle_w, recorded.load_w), (idle,)),
        ((recorded.idle_w, published.load_w), (load,)),
        ((published.idle_w, published.load_w), (idle, load)),
    )
    for (idle_w, load_w), said in causes:
        if _same((load_w - idle_w) * published.s_per_op, published.j_per_op):
            return "; ".join(said)
    ratio = recorded.j_per_op / published.j_per_op if published.j_per_op else float("inf")
    return f"published energy follows neither from the recordings (ratio {ratio:.4f}) nor from its own powers and time"


def is_failure(said: str) -> bool:
    """Whether a verdict means that something which should have been done was left out."""
    return said == NOT_RECORDED or said.startswith(UNREADABLE)


def _typed(which: str, text: str, published_w: float, recorded_w: float) -> str:
    decimals = len(text.partition(".")[2]) or 5
    return (
        f"published {which} power differs from the recording:"
        f" {published_w:.{decimals}f} W against {recorded_w:.{decimals}f} W"
    )


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * abs(b)
