"""The process in which the `lib` backend works apart: it prepares one case and does what it is asked.

Started as `python -m runner.operations.lib.child`; its questions and answers are pickles (runner/openssl/lib/child.py).
"""

import os
import pickle
import select
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, BinaryIO

from errors import SettingsError
from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.openssl.lib import load
from runner.openssl.lib.memory import growth_bytes
from runner.operations.lib.prepare import prepare_in_process
from runner.operations.lib.questions import Prepared, Refused
from runner.operations.work import Usage, Work
from runner.segments import TrainPlan
from runner.train import Repeat, Repetition, TrainRecord, draw_every, run_train, trial_s

MEMORY_CALLS, MOST_MEMORY_CALLS = 5, 40
"""Linux counts memory for each processor and adds up late (since 6.2), so that most calls may show nothing."""
USAGE_S = 0.3


class Served:
    """A prepared case: each public method answers the question of its name."""

    def __init__(self, work: Work, repeat: Repeat) -> None:
        self._work = work
        self._repeat = repeat

    def repetition(self) -> Repetition:
        """One repetition."""
        return self._repeat()

    def train(self, plan: TrainPlan, every: int) -> TrainRecord:
        """A whole train. The asker's trial counted its questions in, so that `every` is found anew here."""
        _, least_s = trial_s(self._repeat, time.monotonic_ns)
        every = max(every, draw_every(plan.load_ns, least_s))
        return run_train(plan, self._repeat, every, _wait_until, time.monotonic_ns)

    def check(self) -> str | None:
        """What is wrong with the outputs, if anything."""
        return self._work.check()

    def usage(self) -> Usage:
        """Mean CPU time of repetitions, and memory of the greediest of a few after those: then all code is mapped.

        A repetition that takes long is its own mean and its own peak. All by CPU time: what other programs take of the
        clock does not make one long.
        """
        start_s = time.process_time()
        peak_bytes, calls = growth_bytes(self._repeat), 1
        if time.process_time() - start_s >= USAGE_S:
            return Usage(peak_bytes, time.process_time() - start_s)
        while time.process_time() - start_s < USAGE_S:
            self._repeat()
            calls += 1
        cpu_time_s = (time.process_time() - start_s) / calls
        return Usage(self._peak_bytes(), cpu_time_s)

    def _peak_bytes(self) -> int | None:
        """The most of as many calls as there is time for."""
        seen: list[int] = []
        end_s = time.process_time() + USAGE_S
        while len(seen) < MEMORY_CALLS or (len(seen) < MOST_MEMORY_CALLS and time.process_time() < end_s):
            seen.append(growth_bytes(self._repeat) or 0)
        return max(seen) or None


def main() -> int:
    """Answer about one case of libcrypto."""
    return answer_questions(lambda opening: prepare_in_process(load(opening.library), opening.case))


def answer_questions(prepare: Callable[[Any], Work]) -> int:
    """Answer until the questions end; the first is what `prepare` takes."""
    with os.fdopen(_answers(), "wb") as answers:
        opening = pickle.load(sys.stdin.buffer)
        try:
            work = prepare(opening)
        except SettingsError as error:
            _answer(answers, Refused(str(error)))
            return 1
        with closing(work):
            assert work.begin is not None
            served = Served(work, work.begin(PREPARATION_LIMIT_S))
            handshake = work.handshake() if work.handshake else None
            _answer(answers, Prepared(work.variant, work.null_variant, work.output_bytes, work.size_unknown, handshake))
            _serve(served, answers)
    return 0


def _serve(served: Served, answers: BinaryIO) -> None:
    methods: dict[str, Callable[..., Any]] = {
        each.__name__: each for each in (served.repetition, served.train, served.check, served.usage)
    }
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        _answer(answers, methods[name](*arguments))


def _answer(answers: BinaryIO, answer: object) -> None:
    pickle.dump(answer, answers)
    answers.flush()


def _answers() -> int:
    """A descriptor of their own: whatever else writes to standard output goes to standard error."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


def _wait_until(monotonic_ns: int) -> None:
    """Sleep until then; the process ends when its parent has, or wants no answer any more."""
    while (left_ns := monotonic_ns - time.monotonic_ns()) > 0:
        if select.select([sys.stdin], [], [], left_ns / 1e9)[0]:
            sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
