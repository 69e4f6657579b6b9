"""What was found out about a meter, and what that comes to. Pure."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from meter.config import Kind
from meter.readings import Counts, MeterHealth, Reading
from opjoule.figures import plain

Level = Literal["ok", "doubt", "error"]
STATUS: dict[Level, int] = {"ok": 0, "doubt": 1, "error": 2}
"""Exit status of the command."""
_LEAST_RATE = 0.95
"""Of the nominal rate of a meter that streams; below it samples are missing."""
_LEAST_VOLTAGE_V = 4.0
"""An FNB58 that is not powered by its PC port works from here on, and every USB device needs more (METERS.md 1.1)."""
_LEAST_CURRENT_A = 0.001
"""FNB58 and FNB48 show 60 to 110 uA with nothing connected (METERS.md 6)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    level: Level
    subject: str
    text: str

    def __str__(self) -> str:
        return f"  {self.level:6} {self.subject:8} {self.text}"


@dataclass(frozen=True, slots=True)
class Heard:
    """What a meter said; `counts` and `health` at the end."""

    source: Kind
    period_ns: int
    readings: tuple[Reading, ...]
    counts: Counts
    health: MeterHealth
    implausible: tuple[Reading, ...] = ()
    """Readings that the meter service would refuse; none of them is in `readings`."""


def of_samples(heard: Heard) -> list[Finding]:
    """Rate, gaps, refused frames, values, temperature: each with a level."""
    if len(heard.readings) < 2:
        return [Finding("error", "samples", _why_none(heard))]
    return [_rate(heard), _gaps(heard), _frames(heard), _values(heard.readings), *_meter(heard)]


def worst(findings: Sequence[Finding]) -> Level:
    """The worst level; nothing found is well."""
    return max((each.level for each in findings), key=lambda level: STATUS[level], default="ok")


def verdict(name: str, findings: Sequence[Finding]) -> str:
    """One line: fine, or what raises a doubt, or who must act."""
    level = worst(findings)
    if level == "ok":
        return f"verdict: {name} works"
    reasons = "; ".join(each.text for each in findings if each.level == level)
    if level == "doubt":
        return f"verdict: {name} works, with a doubt: {reasons}"
    return f"verdict: {name}: somebody must act: {reasons}"


def _why_none(heard: Heard) -> str:
    refused = _listed(heard.counts.rejected)
    came = f"; it sent {refused}, which were refused" if refused else ""
    if heard.implausible:
        return f"no samples{came}: {_implausible(heard)}"
    return f"no samples{came}: {heard.health.detail or 'it says nothing'}"


def _rate(heard: Heard) -> Finding:
    """Values that stand still are no doubt: those of an idle board at a good supply do (METERS.md 0.4)."""
    span_s = (heard.readings[-1].t_ns - heard.readings[0].t_ns) / 1e9
    rate_hz = (len(heard.readings) - 1) / span_s if span_s > 0 else 0.0
    new_hz = heard.health.new_values_hz
    text = f"{len(heard.readings)} samples in {span_s:.1f} s, {rate_hz:.1f} a second"
    if new_hz is not None:
        text += f", of which {new_hz:.1f} differ from the one before"
    nominal_hz = 1e9 / heard.period_ns
    if heard.source == "fnirsi" and rate_hz < _LEAST_RATE * nominal_hz:
        return Finding("doubt", "rate", f"{text}, where {nominal_hz:.0f} are expected")
    return Finding("ok", "rate", text)


def _gaps(heard: Heard) -> Finding:
    counts = heard.counts
    if counts.gaps or heard.health.reopened:
        again = f", opened again {heard.health.reopened} times" if heard.health.reopened else ""
        return Finding("doubt", "gaps", f"{counts.lost_samples} samples lost in {counts.gaps} gaps{again}")
    return Finding("ok", "gaps", "no sample lost")


def _frames(heard: Heard) -> Finding:
    """Those after opening may be stale, are never used, and prove nothing."""
    rejected = Counter(heard.counts.rejected)
    first = rejected.pop("after_opening", 0)
    left_out = f"{first} left out after opening" if first else ""
    wrong = [f"refused: {_listed(rejected)}"] if rejected.total() else []
    wrong += [_implausible(heard)] if heard.implausible else []
    if wrong:
        return Finding("doubt", "frames", "; ".join([*wrong, left_out] if left_out else wrong))
    return Finding("ok", "frames", "none refused" + (f", {left_out}" if left_out else ""))


def _implausible(heard: Heard) -> str:
    """`397 of 1000 readings refused as implausible, the last: 295 W, 36.0000 V, 8.2000 A`."""
    last, count = heard.implausible[-1], len(heard.implausible)
    said = [f"{last.power_w:g} W"]
    said += [f"{last.voltage_v:.4f} V"] if last.voltage_v is not None else []
    said += [f"{last.current_a:.4f} A"] if last.current_a is not None else []
    all_of = count + len(heard.readings)
    return f"{count} of {all_of} readings refused as implausible, the last: {', '.join(said)}"


def _values(readings: Sequence[Reading]) -> Finding:
    power_w = [each.power_w for each in readings]
    parts = [
        f"{plain(statistics.fmean(power_w), 'W')}, standard deviation {plain(statistics.stdev(power_w), 'W', 3)}"
        " (of meter and load together)"
    ]
    voltage_v = _mean([each.voltage_v for each in readings])
    current_a = _mean([each.current_a for each in readings])
    if voltage_v is not None and current_a is not None:
        parts.append(f"{voltage_v:.4f} V, {current_a:.4f} A")
    if voltage_v is not None and voltage_v < _LEAST_VOLTAGE_V:
        parts.append("no supply is on the measured side")
    elif current_a is not None and current_a < _LEAST_CURRENT_A:
        parts.append("no load is on the measured side")
    else:
        return Finding("ok", "values", "; ".join(parts))
    return Finding("doubt", "values", "; ".join(parts))


def _meter(heard: Heard) -> list[Finding]:
    """What else it says about itself."""
    health = heard.health
    said = [f"serial {health.serial}"] if health.serial else []
    said += [f"firmware {health.firmware}"] if health.firmware else []
    if health.temperature_c is not None:
        said.append(f"{health.temperature_c:.1f} °C" + (" (or °F, as it is set)" if heard.source == "tc66c" else ""))
    counters = [each.energy_counter_j for each in heard.readings if each.energy_counter_j is not None]
    said += [f"energy counter {plain(counters[-1])}"] if counters else []
    return [Finding("ok", "meter", ", ".join(said))] if said else []


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _listed(rejected: Mapping[str, int]) -> str:
    """`3 bad_crc, 1 short`."""
    return ", ".join(f"{count} {reason}" for reason, count in sorted(rejected.items()) if count)
