"""How figures are shown to people: value and U95 with the digits that the uncertainty leaves."""

import math

from runner.job import MESSAGE_BYTES
from schemas import EnergyResult, Quantity

_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def with_u95(quantity: Quantity | None, unit: str = "J") -> str:
    """`34.50 ± 0.80 mJ`: two digits of U95, one SI prefix for both. A dash where there is no figure."""
    if quantity is None:
        return "–"
    scale, prefix = _prefix(max(abs(quantity.value), quantity.u95))
    digits = _decimals(quantity.u95 / scale)
    return f"{quantity.value / scale:z.{digits}f} ± {quantity.u95 / scale:.{digits}f} {prefix}{unit}"


def plain(value: float | None, unit: str = "J", digits: int = 4) -> str:
    """`34.53 mJ`: a figure whose uncertainty nobody stated."""
    if value is None:
        return "–"
    scale, prefix = _prefix(abs(value))
    return f"{value / scale:.{digits}g} {prefix}{unit}"


def headline(result: EnergyResult) -> str:
    """What a result is about: net energy per operation; for a sham train its mean power; without a meter the time."""
    if result.quality == "time_only" and result.time_per_repetition is not None:
        return f"{plain(result.time_per_repetition.mean_s, 's', 3)}/op"
    if result.operation == "sham":
        return with_u95(result.net_power_w, "W")
    return with_u95(result.net_j_per_op)


def subject(result: EnergyResult) -> str:
    """What ran: the parameter set; what a null train starts and reads; for a handshake its group and variant."""
    if result.operation == "null":
        return null_name(result.variant)
    return (
        f"{result.parameter_set} {result.variant}".strip() if result.operation == "handshake" else result.parameter_set
    )


def null_name(variant: str) -> str:
    """`1 process: key+message` of `processes=1,reads=key+message,message_bytes=19600`: what is started and read."""
    known = dict(part.partition("=")[::2] for part in variant.split(","))
    number = known.get("processes", "")
    if not number:
        return variant
    size = known.get("message_bytes", str(MESSAGE_BYTES))
    reads = f": {known['reads']}" if "reads" in known else ""
    return f"{number} process{'es' * (number != '1')}{reads}{f' {size} B' * (size != str(MESSAGE_BYTES))}"


def quality(result: EnergyResult) -> str:
    """Quality and, where power is simulated, the word that must stand beside every such figure."""
    return f"{result.quality} SIMULATED" if result.simulated else result.quality


def _prefix(size: float) -> tuple[float, str]:
    for scale, prefix in _PREFIXES:
        if size >= scale:
            return scale, prefix
    return _PREFIXES[-1] if size > 0 else _PREFIXES[0]


def _decimals(uncertainty: float) -> int:
    """Decimals that leave two digits of the uncertainty."""
    if uncertainty <= 0 or not math.isfinite(uncertainty):
        return 4
    rounded = float(f"{uncertainty:.1e}")  # 0.0996 is 0.10, which needs one decimal less
    return max(0, 1 - math.floor(math.log10(rounded)))
