"""What was measured is kept, whatever goes wrong around it, and a campaign never seems to go on when it does not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from errors import SettingsError
from runner import message, one_train
from runner.one_train import Bay
from runner.openssl import OpenSsl
from runner.operations import Bench, Usage, Work, prepare_work, work
from tests.runner.stage import Stage

MakeStage = Callable[[OpenSsl], Stage]
Wrap = Callable[[OpenSsl, str, str], OpenSsl]


def test_a_check_that_cannot_be_done_gives_an_event_with_all_repetitions_failed(
    make_stage: MakeStage, system_openssl: OpenSsl, wrap: Wrap
) -> None:
    stage = make_stage(wrap(system_openssl, "genpkey", 'if [ $count -ge 2 ]; then echo "no keys" >&2; exit 3; fi'))
    stage.run("derive:X25519")
    (event,) = stage.events
    assert (event.repetitions_verified, stage.executor.left_out) == (0, 0)
    assert event.repetitions_failed >= 2
    assert event.first_error is not None
    assert event.first_error.startswith("the check could not be done: ")
    assert event.first_error.endswith("genpkey: exit 3: no keys")


def test_a_usage_that_cannot_be_measured_leaves_the_train_as_it_is(
    make_stage: MakeStage, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def killed() -> Usage:
        raise SettingsError("the process for libcrypto ended: exit -9")

    def prepared(bench: Bench) -> Work:
        return replace(prepare_work(bench), usage=killed)

    monkeypatch.setattr(one_train, "prepare_work", prepared)
    stage = make_stage(system_openssl)
    stage.run("null:1")
    (event,) = stage.events
    assert event.repetitions_verified >= 2 and event.repetitions_failed == 0
    assert event.peak_memory_bytes is None
    assert "null processes=1: memory and CPU time are not known: the process for libcrypto ended" in caplog.text


@pytest.mark.parametrize("plan", ["sign:Ed25519", "verify:Ed25519"])
def test_a_message_that_has_no_room_on_this_machine_is_left_out_in_one_line_and_the_rest_goes_on(
    make_stage: MakeStage, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    monkeypatch.setattr(message, "memory_bytes", lambda: 16 * 10_000)
    stage = make_stage(system_openssl)
    state = stage.run(f"{plan},null,null:1")
    said = "a message of 19600 bytes is too long for the memory of this machine: 10000 at most"
    assert state.left_out_reason.endswith(said)
    assert [event.variant for event in stage.events] == ["processes=1"]
    assert (state.state, state.trains_done, state.left_out) == ("finished", 1, 2)


def test_a_job_for_which_there_is_no_memory_is_left_out(
    make_stage: MakeStage, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(_size_bytes: int, _seed: int) -> bytes:
        raise MemoryError

    monkeypatch.setattr(work, "random_message", greedy)
    state = make_stage(system_openssl).run("sign:Ed25519,sham")
    assert state.left_out_reason == "sign Ed25519: there is not enough memory for it"
    assert (state.trains_done, state.left_out) == (1, 1)


def test_a_campaign_that_an_error_ends_is_told_as_failed(
    make_stage: MakeStage, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Bay, "measure", broken)
    stage = make_stage(system_openssl)
    with pytest.raises(ZeroDivisionError):
        stage.run("sham")
    stage.link.leave("ended by an error")
    campaign = stage.statuses[-1].campaign
    assert campaign is not None
    assert (campaign.state, campaign.detail) == ("failed", "an error ended it, see the log of the runner")
