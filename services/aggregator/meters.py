"""What is known of the meters: gain uncertainty, hold time and counter per model, each with its source. Pure.

Nobody has verified any of these meters for us. A figure that is only claimed says so, and whose claim it is; where not
even a claim was found there is no figure, and the result is marked `gain_unknown`.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class MeterFacts:
    """`gain_u` is the relative standard uncertainty of a power difference; None where nobody knows it."""

    gain_u: float | None
    gain_source: str
    hold_s: float = 0.0
    """How long the meter may show one value before the next."""
    counter_u: float = 0.0
    """How far the power that its energy counter counts may be off voltage times current, a relative u."""


_UNKNOWN = MeterFacts(None, "no statement of accuracy found")
_TC66 = replace(_UNKNOWN, counter_u=0.002 / 3**0.5)
_SIMULATED = " (simulated)"
"""Ends the model of a simulated device that speaks the protocol of the real one."""

METERS: dict[str, MeterFacts] = {
    "FNB58": MeterFacts(
        gain_u=0.0041,
        gain_source="maker's claim at second hand (unofficial manual), not verified: 0.5 % of V and of I, rectangular",
        hold_s=0.1,
    ),
    "FNB48S": replace(_UNKNOWN, hold_s=0.04),
    "FNB48P": replace(_UNKNOWN, hold_s=0.04),
    "TC66": _TC66,
    "TC66C": _TC66,
    "simulated": MeterFacts(gain_u=0.0, gain_source="simulated: no gain error"),
}
"""By meter model.

FNB58: 0.0041 is 0.5 % x sqrt(2) / sqrt(3). The manual that says so (Shadester/fnb58manual) is compiled from the maker's
pages and others; of the claims that circulate it is the widest. The meter holds values on a 100 ms grid in its PC
recordings. FNB48S: 25 measurements a second, the samples between them interpolated (baryluk, issue 21). TC66C: no
statement of its maker found. Its own power is the current times the voltage cut to 10 mV, so up to 0.2 % low at 5 V, in
19 of 19 published readings (meter/protocols/tc66c.py); that its counter counts this power is assumed, rectangular.
"""


def facts(model: str) -> MeterFacts:
    """What is known of a model. A simulated device measures anew for every sample and has no gain error."""
    if model.endswith(_SIMULATED):
        known = METERS.get(model.removesuffix(_SIMULATED), _UNKNOWN)
        return replace(known, gain_u=0.0, gain_source=METERS["simulated"].gain_source, hold_s=0.0)
    return METERS.get(model, _UNKNOWN)


def stated(known: MeterFacts, gain_u: float | None) -> MeterFacts:
    """With the gain uncertainty that the operator states for this very meter, where there is one."""
    return known if gain_u is None else replace(known, gain_u=gain_u, gain_source="stated by the operator")
