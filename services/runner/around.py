"""What surrounds repetitions, in trains and where they are timed alone: the longest time of one, the check, its usage.

What was measured is never thrown away for something that goes wrong after it.
"""

from errors import SettingsError
from runner.operations.work import Usage, Work

LEAST_LIMIT_S = 10.0
LIMIT_MEDIANS = 20.0
"""A repetition is killed after this many times what the trial took, and after `LEAST_LIMIT_S` at the earliest."""


def limit_s(median_s: float) -> float:
    """The longest time that a repetition may take, by the median of the trial, in s."""
    return max(LEAST_LIMIT_S, LIMIT_MEDIANS * median_s)


def check_error(work: Work) -> str | None:
    """What the check after the repetitions finds wrong; a check that cannot be done has found nothing right either."""
    try:
        return work.check()
    except OSError as error:
        return f"the check could not be done: {error.strerror}"
    except SettingsError as error:
        return f"the check could not be done: {error}"


def usage_of(work: Work) -> Usage:
    """Memory and CPU time of repetitions; without both, and with the reason, where they cannot be measured."""
    try:
        return work.usage()
    except (OSError, SettingsError) as error:
        return Usage(error=str(error))
