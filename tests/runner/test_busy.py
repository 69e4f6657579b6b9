"""A machine that others keep busy: waited for before every train, the first of a campaign among them, then told."""

from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from runner import campaign as campaign_module
from runner.openssl import OpenSsl
from tests.runner.stage import Stage

MakeStage = Callable[[OpenSsl], Stage]
BUSY, QUIET = 3.0, 0.1


class Others:
    """What others keep busy, look by look, and how often it was looked."""

    def __init__(self, *cores: float | None, then: float | None = QUIET) -> None:
        self._cores: Iterator[float | None] = chain(cores, repeat(then))

    def cores(self) -> float | None:
        return next(self._cores)


@pytest.fixture
def make_busy(
    make_stage: MakeStage, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Others, float], Stage]:
    """A stage on a machine with these others, and how long a train waits for them."""

    def make(others: Others, busy_wait_s: float) -> Stage:
        monkeypatch.setattr(campaign_module, "OthersLoad", lambda: others)
        monkeypatch.setattr(campaign_module, "STEP_S", 0.01)
        stage = make_stage(system_openssl)
        stage.executor.settings = stage.settings.model_copy(update={"busy_wait_s": busy_wait_s})
        return stage

    return make


MakeBusy = Callable[[Others, float], Stage]


def _marks(stage: Stage) -> list[bool | None]:
    return [event.disturbance.busy for event in sorted(stage.events, key=lambda event: event.start_ns)]


def _waits(stage: Stage) -> bool:
    return any("waits, other programs keep the machine busy" in status.detail for status in stage.statuses)


def test_the_first_train_waits_until_the_machine_is_quiet(make_busy: MakeBusy) -> None:
    stage = make_busy(Others(BUSY, BUSY), 60.0)
    stage.run("sham")
    assert _marks(stage) == [False]
    assert _waits(stage)


def test_a_machine_that_stays_busy_is_waited_for_no_longer_than_asked_and_the_train_is_marked(
    make_busy: MakeBusy,
) -> None:
    stage = make_busy(Others(then=BUSY), 0.05)
    stage.run("sham")
    assert _marks(stage) == [True]
    assert _waits(stage)


def test_a_machine_that_became_busy_since_the_last_campaign_is_seen_by_the_next(make_busy: MakeBusy) -> None:
    stage = make_busy(Others(QUIET, QUIET, then=BUSY), 0.0)
    stage.run("sham")
    stage.run("sham")
    assert _marks(stage) == [False, True]
    assert not _waits(stage)


def test_what_was_seen_after_a_train_marks_the_next(make_busy: MakeBusy) -> None:
    stage = make_busy(Others(QUIET, BUSY, None), 0.0)
    stage.run("null:1,null:2,sham", order="as-written")
    assert _marks(stage) == [False, True, None]


def test_a_request_to_stop_ends_the_wait_for_a_busy_machine(make_busy: MakeBusy) -> None:
    stage = make_busy(Others(then=BUSY), 60.0)
    stage.halted = lambda: _waits(stage)
    state = stage.run("sham")
    assert (state.state, state.trains_done) == ("stopped", 0)


def test_a_campaign_is_told_as_running_while_the_runner_waits_before_its_first_train(make_busy: MakeBusy) -> None:
    stage = make_busy(Others(), 0.0)
    stage.executor.settings = stage.settings.model_copy(update={"start_delay_s": 0.05})
    stage.run("sham")
    first = next(status for status in stage.statuses if status.detail == "starting")
    assert first.campaign is not None
    assert (first.campaign.state, first.campaign.trains_done) == ("running", 0)
