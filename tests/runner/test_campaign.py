"""Trains from plan to event, on a bus in memory and with segments of a few hundredths of a second."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bus import MemoryBus
from runner import one_train
from runner.openssl import OpenSsl, find_openssl
from runner.settings import RunnerSettings
from runner.start import serve
from runner.stopping import Stop, Stopped
from runner.train import Repeat, TrainRecord
from schemas import DeviceDescription, Journaled
from tests.runner.stage import Stage

MakeFake = Callable[[str], OpenSsl]
MakeStage = Callable[[OpenSsl], Stage]


def test_every_train_of_the_plan_becomes_one_event_and_is_silent(
    make_stage: MakeStage, system_openssl: OpenSsl
) -> None:
    stage = make_stage(system_openssl)
    stage.link.speak("starting", 0.0)
    stage.run("sham,null:2,keygen:X25519,sign:ECDSA-P-256,verify:ECDSA-P-256")
    stage.link.leave("plan finished")
    events = {event.operation: event for event in stage.events}
    assert set(events) == {"sham", "null", "keygen", "sign", "verify"}
    assert stage.states == ["online", *["measuring", "online"] * 5, "offline"]
    assert stage.connected_inside == [False] * 5
    assert stage.published_inside == [0] * 5
    assert len(stage.said("device")) == 1
    sham, null, sign = events["sham"], events["null"], events["sign"]
    assert (sham.backend, sham.parameter_set, sham.repetitions_verified) == ("none", "none", 0)
    assert (null.backend, null.variant, null.processes_per_repetition) == ("cli", "processes=2", 2)
    assert sign.repetitions_failed == 0
    assert sign.repetitions_verified == sum(segment.repetitions for segment in sign.segments) >= 5
    assert sign.time_per_repetition is not None
    assert sign.time_per_repetition.count == sign.repetitions_verified
    assert len({event.run_id for event in events.values()}) == 1
    assert sign.board.openssl == system_openssl.version


def test_segments_touch_and_lie_before_the_end_that_the_status_promised(
    make_stage: MakeStage, system_openssl: OpenSsl
) -> None:
    stage = make_stage(system_openssl)
    stage.link.speak("starting", 0.0)
    stage.run("null:1")
    (event,) = stage.events
    assert [segment.kind for segment in event.segments][:3] == ["idle", "load", "idle"]
    assert all(a.end_ns == b.start_ns for a, b in zip(event.segments, event.segments[1:], strict=False))
    (until_ns,) = {status.until_ns for status in stage.statuses if status.state == "measuring"}
    assert until_ns is not None
    assert event.end_ns < until_ns


def test_the_same_seed_gives_the_same_order_and_segments(make_stage: MakeStage, system_openssl: OpenSsl) -> None:
    runs = []
    for _ in range(2):
        stage = make_stage(system_openssl)
        stage.run("sham,null:1,null:2")
        runs.append([(event.operation, event.variant, event.seed, event.guard_s) for event in stage.events])
    assert runs[0] == runs[1]


def test_failed_repetitions_travel_in_the_event_with_the_first_error(
    make_stage: MakeStage, make_fake: MakeFake
) -> None:
    stage = make_stage(make_fake('if [ $((count % 3)) = 2 ]; then echo "no luck" >&2; exit 4; fi'))
    stage.run("sign:Ed25519")
    (event,) = stage.events
    assert event.repetitions_failed > 0
    assert event.repetitions_verified > 0
    assert event.first_error == "pkeyutl: exit 4: no luck"


def test_signatures_that_do_not_verify_are_all_failed(
    make_stage: MakeStage, make_fake: MakeFake, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stage = make_stage(make_fake('head -c 64 /dev/zero > "$8"; exit 0'))
    stage.run("sign:Ed25519")
    (event,) = stage.events
    assert event.repetitions_verified == 0
    assert event.repetitions_failed >= 5
    assert event.time_per_repetition is None
    assert event.first_error is not None
    assert event.first_error.startswith("the signature does not verify")
    assert "sign Ed25519: 0 repetitions in" in caplog.text


def test_what_cannot_be_prepared_is_left_out_and_the_rest_goes_on(
    make_stage: MakeStage, make_fake: MakeFake, caplog: pytest.LogCaptureFixture
) -> None:
    stage = make_stage(make_fake("echo out of order >&2; exit 1"))
    state = stage.run("sign:Ed25519,sham")
    assert [event.operation for event in stage.events] == ["sham"]
    assert stage.executor.left_out == 1
    assert state.left_out_reason.startswith("sign Ed25519: sign Ed25519 with OpenSSL")
    assert "left out (1 so far): sign Ed25519: sign Ed25519 with OpenSSL" in caplog.text


def test_without_a_broker_there_is_one_warning_and_events_arrive_when_it_comes(
    make_stage: MakeStage, system_openssl: OpenSsl, caplog: pytest.LogCaptureFixture
) -> None:
    stage = make_stage(system_openssl)
    stage.broker.stop()
    stage.link.speak("starting", 0.0)
    stage.run("sham,null:1")
    assert (stage.events, stage.link.pending) == ([], 2)
    assert caplog.text.count("no broker") == 1
    stage.broker.start()
    stage.link.speak("again", 0.0)
    assert len(stage.events) == 2
    (description,) = (DeviceDescription.model_validate_json(payload) for payload in stage.said("device"))
    assert description.backends == ("cli",)


def test_a_broker_that_answers_after_the_first_words_is_never_called_away(
    make_stage: MakeStage, system_openssl: OpenSsl, caplog: pytest.LogCaptureFixture
) -> None:
    stage = make_stage(system_openssl)
    stage.broker.stop()
    stage.link.speak("starting", 0.0)
    stage.broker.start()
    stage.link.speak("waits", 0.0)
    assert "no broker" not in caplog.text
    for _ in range(3):
        stage.broker.stop()
        for _ in range(3):
            stage.link.speak("waits", 0.0)
        stage.broker.start()
        stage.link.speak("waits", 0.0)
    assert caplog.text.count("no broker") == 3


def test_events_are_kept_until_the_aggregator_has_named_them(make_stage: MakeStage, system_openssl: OpenSsl) -> None:
    stage = make_stage(system_openssl)
    stage.link.speak("starting", 0.0)
    stage.run("sham")
    assert stage.link.wait_until_confirmed(0.0) is False
    aggregator = MemoryBus(stage.broker, "aggregator")
    aggregator.connect(0.0)
    receipt = Journaled(site="lab", dut="pi4", event_ids=tuple(event.event_id for event in stage.events))
    aggregator.publish("journaled", "lab", receipt, dut="pi4")
    assert stage.link.wait_until_confirmed(5.0) is True


@pytest.mark.not_emulated
def test_a_request_to_end_in_a_train_leaves_no_event(
    make_stage: MakeStage, system_openssl: OpenSsl, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage(system_openssl)

    def interrupted(_plan: object, repeat: Repeat, *_: object) -> TrainRecord:
        stop.request()
        repeat()
        raise AssertionError("not stopped")

    monkeypatch.setattr(one_train, "run_train", interrupted)
    with pytest.raises(Stopped):
        stage.run("null:1")
    stage.link.leave("stopped")
    assert (stage.events, stage.link.pending) == ([], 0)
    assert stage.states[-1] == "offline"
    campaign = stage.statuses[-1].campaign
    assert campaign is not None and campaign.state == "stopped"


def test_a_finite_plan_with_something_skipped_ends_with_status_1_and_says_what(
    tmp_path: Path, stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "openssl"
    program.write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo OpenSSL 3.0.17 1 Jul 2025 || echo "    IDs: { X25519 } @ default"\n'
    )
    program.chmod(0o755)
    settings = RunnerSettings.model_validate(
        {
            "dut": "pi4",
            "plan": "sham,keygen:ML-KEM-768",
            "openssl": str(program),
            "broker_url": "mqtt://127.0.0.1:9",
            "state_dir": tmp_path / "state",
            "train_s": 1,
            "rounds": 1,
            "gap_s": 0.5,
            "start_delay_s": 0,
            "confirm_s": 0,
            "busy_wait_s": 0,
        }
    )
    assert serve(settings, find_openssl(str(program)), "not asked for", stop) == 1
    assert "skipped: keygen ML-KEM-768: OpenSSL 3.0.17 lacks ML-KEM-768" in caplog.text
    assert "1 of the plan left out" in caplog.text
    assert "1 events wait in the spool" in caplog.text
