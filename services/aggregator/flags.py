"""What each flag does to the quality of a result, and how it is said to a person. Pure."""

from collections.abc import Set

from schemas import Flag, Quality

INVALID: dict[Flag, str] = {
    "clock_unknown": "the clocks of runner and meter have not been compared well enough to place the segments",
    "no_baseline": "a load segment has no idle segment beside it",
    "no_repetitions": "no repetition succeeded and was verified",
    "no_samples": "too few power samples in the segments",
    "not_computable": "the numbers of this train or of its samples cannot be computed with",
}
"""Any of these, and there is no energy."""

DEGRADED: dict[Flag, str] = {
    "as_published": "measured as a published study did it, faults included",
    "busy": "the board was busy with other work",
    "counter_disagrees": "the meter's own energy counter and the integral of its samples differ",
    "failed_repetitions": "some repetitions failed",
    "few_segments": "fewer than five load segments",
    "gain_unknown": "the gain error of this meter model is not known and not in the uncertainty",
    "gap": "samples are missing or too few; load segments that they touch were left out",
    "guard_short": "the guard is shorter than clock error and hold time or period of the meter",
    "separate_timing": "time per repetition was taken in another run",
    "stuck": "the meter repeated one value for seconds; that time was left out",
    "single_baseline": "idle power from one side only; no coverage is claimed",
    "throttled": "the board was throttled",
    "unsettled": "power still settles after the guard",
}

INFORMATION: dict[Flag, str] = {
    "simulated": "SIMULATED power",
    "size_unknown": "output size not in the catalogue",
}


def judge(flags: Set[Flag], invalid: bool) -> tuple[Quality, str]:
    """Quality and one line of reasons. `invalid` is for what a flag alone does not tell: too much failed or missing."""
    fatal = [INVALID[flag] for flag in sorted(flags) if flag in INVALID]
    doubtful = [DEGRADED[flag] for flag in sorted(flags) if flag in DEGRADED]
    quality: Quality = "invalid" if fatal or invalid else "degraded" if doubtful else "good"
    return quality, "; ".join(fatal + doubtful)
