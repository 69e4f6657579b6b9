"""Timing on this machine runs exactly as many repetitions as it says, and times nothing but them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from errors import SettingsError
from opjoule.run.timing import repetitions_here, time_work, usual_repetitions
from runner.job import Job
from runner.operations import Work
from runner.procedures import Study
from runner.train import Repetition

NOTHING_BETWEEN: Callable[[int, int], None] = lambda done, count: None  # noqa: E731


class _Loop:
    """Work that counts, and fails at these numbers."""

    def __init__(self, failing: Iterator[int] | range = range(0), check: str | None = None) -> None:
        self.counts: list[int] = []
        self._failing = set(failing)
        self.work = Work("", begin=self._begin, check=lambda: check)

    def _begin(self, limit_s: float) -> Callable[[], Repetition]:
        self.counts.append(0)

        def repeat() -> Repetition:
            self.counts[-1] += 1
            failed = len(self.counts) > 1 and self.counts[-1] in self._failing
            return Repetition("exit 1" if failed else None, 0.0)

        return repeat


def test_as_many_repetitions_as_were_asked_for_are_timed_after_the_trial() -> None:
    loop = _Loop()
    timed = time_work(loop.work, lambda median_s: 17, NOTHING_BETWEEN)
    assert loop.counts[-1] == 17 and len(loop.counts) == 2
    assert timed.times is not None and timed.times.count == 17
    assert timed.failed == 0 and timed.start_ns <= timed.stop_ns


def test_failed_repetitions_are_counted_and_are_in_no_time() -> None:
    loop = _Loop(failing=range(3, 6))
    timed = time_work(loop.work, lambda median_s: 10, NOTHING_BETWEEN)
    assert timed.times is not None and timed.times.count == 7
    assert (timed.failed, timed.first_error) == (3, "exit 1")


def test_when_all_fail_there_is_no_time() -> None:
    timed = time_work(_Loop(failing=range(11)).work, lambda median_s: 10, NOTHING_BETWEEN)
    assert (timed.times, timed.failed) == (None, 10)


def test_a_check_that_fails_takes_all_repetitions_back() -> None:
    timed = time_work(_Loop(check="the signature does not verify").work, lambda median_s: 10, NOTHING_BETWEEN)
    assert (timed.times, timed.failed, timed.first_error) == (None, 10, "the signature does not verify")


def test_a_check_that_cannot_be_done_takes_all_repetitions_back_with_its_reason() -> None:
    def check() -> str | None:
        raise SettingsError("the peer's keygen failed")

    timed = time_work(replace(_Loop().work, check=check), lambda median_s: 10, NOTHING_BETWEEN)
    assert (timed.times, timed.failed) == (None, 10)
    assert timed.first_error == "the check could not be done: the peer's keygen failed"


def test_how_far_it_is_is_told_after_every_repetition() -> None:
    told: list[tuple[int, int]] = []
    time_work(_Loop().work, lambda median_s: 3, lambda done, count: told.append((done, count)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_sham_cannot_be_timed() -> None:
    with pytest.raises(SettingsError, match="nothing to time"):
        time_work(Work(""), lambda median_s: 1, NOTHING_BETWEEN)


@pytest.mark.parametrize(("median_s", "count"), [(0.001, 100), (1.0, 100), (1.01, 10), (95.0, 10)])
def test_slow_operations_are_repeated_ten_times_and_others_a_hundred(median_s: float, count: int) -> None:
    assert usual_repetitions(median_s) == count


@pytest.mark.parametrize(
    ("study", "name", "median_s", "count"),
    [
        (None, "RSA-4096", 1.5, 10),
        (1, "RSA-4096", 1.5, 100),
        (2, "RSA-4096", 1.5, 20),
        (2, "RSA-1024", 0.05, 1000),
        (2, "ML-KEM-768", 0.005, 10_000),
    ],
)
def test_as_published_each_study_has_its_own_number_of_repetitions(
    study: Study | None, name: str, median_s: float, count: int
) -> None:
    assert repetitions_here(study, Job("keygen", name), median_s) == count
