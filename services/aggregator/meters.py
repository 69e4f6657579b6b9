"""What is known of the meters: gain uncertainty and hold time per model, with its source."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeterFacts:
    """`gain_u` is the relative standard uncertainty of a power difference; None where nobody knows it."""

    gain_u: float | None
    gain_source: str
    hold_s: float


_UNKNOWN = MeterFacts(None, "no statement of accuracy found", 0.0)

METERS: dict[str, MeterFacts] = {
    "FNB58": MeterFacts(
        gain_u=0.0041,
        gain_source="claimed, not verified: 0.5 % each of V and I, rectangular (community manual)",
        hold_s=0.1,
    ),
    "simulated": MeterFacts(gain_u=0.0, gain_source="simulated: no gain error", hold_s=0.0),
}
"""By meter model. The FNB58 holds values on a 100 ms grid in its PC recordings."""


def facts(model: str) -> MeterFacts:
    """What is known of a model."""
    return METERS.get(model, _UNKNOWN)
