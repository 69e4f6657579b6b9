"""One train and one meter's power trace become a result: figures, uncertainty, flags, quality. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from aggregator.clocks import Timeline, place, shifted
from aggregator.counter import CounterReading, compare, disagrees
from aggregator.energy import (
    FEW_SEGMENTS,
    TrainEnergy,
    measure,
    scatter,
    transient,
    unsettled,
)
from aggregator.flags import judge
from aggregator.meters import MeterFacts, facts, stated
from aggregator.robust import statistics
from aggregator.trace import PowerTrace, without_stuck
from aggregator.uncertainty import Standard, combine, quantity
from clock import rfc3339
from schemas import (
    CATALOGUE,
    BudgetPart,
    ClockState,
    EnergyResult,
    Flag,
    MeterKind,
    OperationEvent,
    Quality,
)

FAILED_FRACTION = 0.01
"""More failed repetitions than this make a train invalid."""
COARSE_CLOCK = 0.25
"""A clock bound that exceeds the guard by more of the shortest segment than this may show idle as load: README.md."""
MOST_REASON = 500
"""Characters of a reason."""


@dataclass(frozen=True, slots=True)
class MeterView:
    """What one meter saw of a train: its identity, its timeline and the samples around the segments."""

    meter: str
    model: str
    kind: MeterKind
    timeline: Timeline
    trace: PowerTrace
    counter: tuple[CounterReading, ...] = ()
    """Of its own energy counter, in order of time; empty where it has none."""
    gain_u: float | None = None
    """Relative standard uncertainty of this very meter, as its operator states it; None: what the model has."""
    clock: ClockState | None = None
    """How the train lies on the timeline; None: as far as it needs no exchange."""


def of_train(event: OperationEvent, view: MeterView, revision: int, software: str) -> EnergyResult:
    """The result of a train at one meter. Deterministic: same event and samples, same result."""
    clock = view.clock or place(Timeline(event.timeline_id, event.host_clock), view.timeline)
    segments = shifted(event.segments, clock)
    guard_ns = round(event.guard_s * 1e9)
    trace = without_stuck(view.trace)
    energy = measure(trace, segments, guard_ns)
    standard = scatter(trace, segments, guard_ns, energy) if energy.loads else None
    known = stated(facts(view.model), view.gain_u)
    flags = set(_event_flags(event)) | set(_energy_flags(event, energy, standard, clock, known, trace.period_ns))
    flags |= {"simulated"} if view.kind == "simulated" else set()
    flags |= {"stuck"} if trace is not view.trace else set()
    counter = view.counter if event.separate_timing_s is None else ()
    check = compare(trace, counter, segments[0].start_ns, segments[-1].end_ns, known.counter_u)
    flags |= {"counter_disagrees"} if disagrees(check) else set()
    if energy.loads and unsettled(trace, segments, guard_ns):
        flags.add("unsettled")
    invalid = energy.dropped > len(energy.loads) or _failed_fraction(event) > FAILED_FRACTION
    quality, reason = judge(flags, invalid)
    figures: dict[str, object] = {}
    if quality != "invalid" and standard is not None:
        figures = _figures(event, energy, standard, clock, known, trace.period_ns)
        figures |= {"statistics": statistics(trace, segments, guard_ns), "counter": check}
    figures |= {
        "meter": view.meter,
        "meter_model": view.model,
        "meter_kind": view.kind,
        "simulated": view.kind == "simulated",
        "repetitions": energy.repetitions,
        "load_segments_used": len(energy.loads),
        "load_s": energy.load_s,
        "samples": sum(len(trace.samples(s.start_ns, s.end_ns)) for s in segments),
        "new_values": sum(trace.new_values(s.start_ns, s.end_ns) for s in segments),
        "missing_s": round(max(0.0, sum(trace.stretch(s.start_ns, s.end_ns).missing_s for s in segments)), 6),
    }
    return _result(event, clock, quality, flags, reason, revision, software, figures)


def without_meter(event: OperationEvent, revision: int, software: str) -> EnergyResult:
    """The result of a train on a DUT that is configured without a meter: times, and no energy."""
    flags = set(_event_flags(event))
    invalid = _failed_fraction(event) > FAILED_FRACTION or "no_repetitions" in flags
    quality: Quality = "invalid" if invalid else "time_only"
    return _result(event, None, quality, flags, judge(flags, invalid)[1], revision, software)


def not_computable(event: OperationEvent, view: MeterView, revision: int, software: str) -> EnergyResult:
    """The result of a train whose numbers break the arithmetic at a meter: no energy, and no other train waits."""
    simulated = view.kind == "simulated"
    flags: set[Flag] = {"not_computable", "simulated"} if simulated else {"not_computable"}
    quality, reason = judge(flags, True)
    meter = {"meter": view.meter, "meter_model": view.model, "meter_kind": view.kind, "simulated": simulated}
    return _result(event, None, quality, flags, reason, revision, software, meter)


def without_samples(event: OperationEvent, revision: int, software: str) -> EnergyResult:
    """The result of a train that no meter saw before its deadline."""
    flags: set[Flag] = {"no_samples", *_event_flags(event)}
    quality, reason = judge(flags, True)
    return _result(event, None, quality, flags, reason, revision, software)


def _event_flags(event: OperationEvent) -> list[Flag]:
    """Flags that the event alone gives."""
    checks: dict[Flag, bool] = {
        "failed_repetitions": event.repetitions_failed > 0,
        "no_repetitions": not event.repetitions_verified
        and event.separate_timing_s is None
        and event.operation != "sham",
        "throttled": bool(event.disturbance.throttled),
        "busy": bool(event.disturbance.busy),
        "size_unknown": event.size_unknown,
        "separate_timing": event.separate_timing_s is not None,
        "as_published": event.procedure == "as_published",
    }
    return [flag for flag, raised in checks.items() if raised]


def _with_error(event: OperationEvent, reason: str) -> str:
    """The reason, and what the first repetition that failed said."""
    said = " ".join((event.first_error or "").split()) if event.repetitions_failed else ""
    return "; ".join(filter(None, [reason, said]))[:MOST_REASON]


def _energy_flags(
    event: OperationEvent,
    energy: TrainEnergy,
    standard: Standard | None,
    clock: ClockState,
    known: MeterFacts,
    period_ns: int,
) -> list[Flag]:
    """Flags that the samples and the clocks give."""
    checks: dict[Flag, bool] = {
        "clock_unknown": clock.bound_s is None or _is_too_coarse(clock.bound_s, event),
        "gap": energy.dropped > 0 and not energy.no_baseline,
        "no_baseline": energy.no_baseline,
        "no_samples": standard is None and (energy.dropped == 0 or bool(energy.loads)),
        "few_segments": event.separate_timing_s is None and len(energy.loads) < FEW_SEGMENTS,
        "guard_short": event.separate_timing_s is None and event.guard_s < _guard_needed_s(clock, known, period_ns),
        "single_baseline": energy.single_baseline,
        "gain_unknown": known.gain_u is None,
        "no_repetitions": bool(energy.loads) and _divisor(event, energy) == 0 and event.operation != "sham",
    }
    return [flag for flag, raised in checks.items() if raised]


def _is_too_coarse(bound_s: float, event: OperationEvent) -> bool:
    """Whether the edges lie so wrong that neither the step of power nor its uncertainty can be taken from the train."""
    shortest_s = min(segment.duration_s for segment in event.segments)
    return bound_s > event.guard_s + COARSE_CLOCK * shortest_s


def _guard_needed_s(clock: ClockState, known: MeterFacts, period_ns: int) -> float:
    return (clock.bound_s or 0.0) + max(known.hold_s, period_ns / 1e9)


def _failed_fraction(event: OperationEvent) -> float:
    tried = event.repetitions_failed + event.repetitions_verified
    return event.repetitions_failed / tried if tried else 0.0


def _divisor(event: OperationEvent, energy: TrainEnergy) -> float:
    """What E_net is divided by: verified repetitions, or how many the separately taken time makes of the load."""
    if event.separate_timing_s is not None:
        return energy.load_s / event.separate_timing_s
    return energy.repetitions


def _figures(
    event: OperationEvent,
    energy: TrainEnergy,
    standard: Standard,
    clock: ClockState,
    known: MeterFacts,
    period_ns: int,
) -> dict[str, object]:
    """Energies with their uncertainty and budget, by field name."""
    step_w = energy.net_j / energy.load_s
    short_s = (
        max(0.0, _guard_needed_s(clock, known, period_ns) - event.guard_s) if event.separate_timing_s is None else 0.0
    )
    clock_part = Standard(len(energy.loads) * short_s * abs(step_w) / np.sqrt(3))
    parts = [standard, clock_part, Standard((known.gain_u or 0.0) * abs(energy.net_j))]
    whole = combine(parts)
    divisor = _divisor(event, energy)
    per = 1.0 / divisor if divisor else 1.0 / energy.load_s
    names = (("scatter", "the data"), ("clock", clock.method), ("gain", known.gain_source))
    figures: dict[str, object] = {
        "net_j": quantity(energy.net_j, whole),
        "net_power_w": quantity(step_w, whole.scaled(1.0 / energy.load_s)),
        "gross_j": energy.gross_j,
        "baseline_w": energy.baseline_w,
        "load_w": energy.gross_j / energy.load_s,
        "budget": tuple(
            BudgetPart(name=name, u=part.u * per, dof=part.dof, source=source)  # type: ignore[arg-type]
            for (name, source), part in zip(names, parts, strict=True)
        ),
    }
    if divisor:
        figures["net_j_per_op"] = quantity(energy.net_j * per, whole.scaled(per))
    check = transient(energy)
    if check is not None:
        figures["plateau_j"] = check[0]
        figures["transient_j"] = quantity(check[1], check[2])
    return figures


def _result(
    event: OperationEvent,
    clock: ClockState | None,
    quality: Quality,
    flags: set[Flag],
    reason: str,
    revision: int,
    software: str,
    figures: Mapping[str, object] = MappingProxyType({}),
) -> EnergyResult:
    """A result with all that the event says and the figures given; validated whole, so no NaN leaves here."""
    offset_ns = clock.offset_ns if clock else 0
    start_ns, end_ns = event.start_ns + offset_ns, event.end_ns + offset_ns
    known = CATALOGUE.get(event.parameter_set)
    fields: dict[str, object] = dict(
        event_id=event.event_id,
        revision=revision,
        site=event.site,
        dut=event.dut,
        run_id=event.run_id,
        origin=event.origin,
        operation=event.operation,
        parameter_set=event.parameter_set,
        algorithm=known.family if known else event.parameter_set,
        category=known.category if known else None,
        variant=event.variant,
        procedure=event.procedure,
        null_variant=event.null_variant,
        backend=event.backend,
        processes_per_repetition=event.processes_per_repetition,
        board=event.board,
        meter=None,
        meter_model=None,
        meter_kind=None,
        simulated=False,
        start_ns=start_ns,
        end_ns=end_ns,
        start_time=rfc3339(start_ns),
        end_time=rfc3339(end_ns),
        quality=quality,
        flags=tuple(sorted(flags)),
        reason=_with_error(event, reason),
        repetitions=event.repetitions_verified,
        repetitions_failed=event.repetitions_failed,
        load_segments=sum(segment.kind == "load" for segment in event.segments),
        load_segments_used=0,
        guard_s=event.guard_s,
        load_s=0.0,
        clock=clock,
        time_per_repetition=event.time_per_repetition,
        output_bytes=event.output_bytes,
        peak_memory_bytes=event.peak_memory_bytes,
        cpu_time_s=event.cpu_time_s,
        handshake=event.handshake,
        software=software,
    )
    return EnergyResult.model_validate(fields | dict(figures))
