"""The NULL run of the second published study: a repetition sleeps and starts nothing. Backend `none`."""

import time

from errors import SettingsError
from runner.operations.work import Bench, Work
from runner.procedures import NULL_SLEEP_S, NULL_SLEEP_VARIANT
from runner.train import Repetition

SLEPT = Repetition(None, 0.0)


def prepare_sleep(bench: Bench) -> Work:
    """Repetitions that sleep 5 ms, as in the study. Raises SettingsError for another variant."""
    if bench.job.null_variant != NULL_SLEEP_VARIANT:
        raise SettingsError(f"no null run {bench.job.null_variant!r} without processes: {NULL_SLEEP_VARIANT}")
    return Work(NULL_SLEEP_VARIANT, begin=lambda limit_s: _sleep)


def _sleep() -> Repetition:
    time.sleep(NULL_SLEEP_S)
    return SLEPT
