"""The aggregator as a whole, on a broker in memory: nothing lost, nothing double, whatever order things come in."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from bus.outbox import Outgoing
from errors import SettingsError
from schemas import EnergyResult, OperationEvent, SampleBatch
from tests.aggregator.conftest import Lab
from tests.aggregator.trains import SECOND, T0, batches, event, segments, steps, trace

LOADS = 6
NULL: dict[str, Any] = {"operation": "null", "parameter_set": "none", "variant": "processes=2"}


def _number(n: int) -> UUID:
    return UUID(f"01890a5d-ac96-774b-bcce-{n:012x}")


def _train(n: int = 1, start_s: float = 0.0, **changes: object) -> OperationEvent:
    return event(segments(LOADS, start_ns=T0 + round(start_s * SECOND)), event_id=_number(n), **changes)


def _samples(duration_s: float, *trains: OperationEvent, **changes: object) -> list[SampleBatch]:
    rng = np.random.default_rng(11)
    loads = [part for train in trains for part in train.segments]
    first = loads[0].model_copy(update={"kind": "idle", "start_ns": T0, "end_ns": T0 + 1, "repetitions": 0})
    square = steps([first, *loads], 2.0, 5.0)
    data = trace(lambda t: square(t) + rng.normal(0, 0.05, len(t)), duration_s)
    return batches(data, **changes)  # type: ignore[arg-type]


def _final(results: list[EnergyResult]) -> list[EnergyResult]:
    """Results but for the revision number."""
    return [result.model_copy(update={"revision": 0}) for result in results]


def test_samples_and_a_train_become_one_good_result_with_a_receipt_for_each(lab: Lab) -> None:
    samples, train = _samples(12.0, _train()), _train()
    lab.send(*samples, train)
    lab.run()
    (result,) = lab.results()
    assert (result.quality, result.revision, result.meter) == ("good", 1, "m1")
    assert result.net_j_per_op is not None
    assert abs(result.net_j_per_op.value - 0.021) < 3 * result.net_j_per_op.u
    receipts = lab.receipts()
    assert {event_id for receipt in receipts for event_id in receipt.event_ids} == {train.event_id}
    assert [(r.first, r.last) for receipt in receipts for r in receipt.ranges] == [(0, len(samples) - 1)]
    assert len(lab.published("/results")) == len(lab.published("/results/latest/cli/keygen/ml-kem-768")) == 1


def test_a_train_waits_for_the_samples_that_it_needs(lab: Lab) -> None:
    samples = _samples(12.0, _train())
    lab.send(_train(), *samples[:8])
    lab.run()
    assert lab.results() == []
    assert lab.aggregator is not None and lab.aggregator.held == 1
    lab.send(*samples[8:])
    lab.run()
    assert [result.quality for result in lab.results()] == ["good"]


def test_everything_sent_twice_counts_once_and_is_receipted_twice(lab: Lab) -> None:
    samples = _samples(12.0, _train())
    lab.send(*samples, _train())
    lab.run()
    once = lab.results()
    lab.send(*samples, _train())
    lab.run()
    assert lab.results() == once
    assert lab.journal.counts()["batches"] == len(samples)
    assert sum(len(receipt.event_ids) for receipt in lab.receipts()) == 2
    assert len(lab.published("/results")) == 1


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_arrival_gives_the_same_final_result(make_lab: Callable[..., Lab], seed: int) -> None:
    busy = {"disturbance": {"busy": True}}
    trains = [
        _train(1),
        _train(2, 12.0, **NULL, **busy),
        _train(3, 24.0, **NULL),
        _train(4, 36.0),
        _train(5, 48.0, **busy),
    ]
    messages: list[SampleBatch | OperationEvent] = [*_samples(60.0, *trains), *trains]
    straight = make_lab()
    straight.send(*messages)
    straight.run()
    shuffled = make_lab()
    for i in np.random.default_rng(seed).permutation(len(messages)):
        shuffled.send(messages[i])
        shuffled.run()
    assert _final(shuffled.results()) == _final(straight.results())
    subtracted = [result.null_event_id for result in straight.results(operation="keygen")]
    assert subtracted == [trains[2].event_id] * 3


def test_a_batch_that_comes_after_the_deadline_revises_the_result(lab: Lab) -> None:
    samples = _samples(12.0, _train())
    lab.send(*samples[:3], *samples[5:], _train())
    lab.run()
    assert lab.results() == []
    lab.now_ns += 91 * SECOND
    lab.run()
    (early,) = lab.results()
    assert (early.quality, early.flags, early.load_segments_used < LOADS) == (
        "degraded",
        ("few_segments", "gap", "simulated"),
        True,
    )
    lab.send(*samples[3:5])
    lab.run()
    (late,) = lab.results()
    assert (late.quality, late.revision, late.load_segments_used) == ("good", 2, LOADS)


def test_batches_from_before_the_first_subscription_that_come_again_complete_their_trains(lab: Lab) -> None:
    trains = [_train(1), _train(2, 12.0)]
    samples = _samples(24.0, *trains)
    lab.send(*trains, *samples[12:])
    lab.run()
    assert [result.event_id for result in lab.results()] == [trains[1].event_id]
    lab.send(*samples[:12])
    lab.run()
    assert [result.quality for result in lab.results()] == ["good", "good"]


def test_after_a_missing_batch_was_given_up_later_trains_do_not_wait_for_it(lab: Lab) -> None:
    trains = [_train(1), _train(2, 12.0)]
    samples = _samples(24.0, *trains)
    lab.send(*samples[:3], *samples[4:12], trains[0])
    lab.run()
    lab.now_ns += 91 * SECOND
    lab.run()
    lab.send(*samples[12:], trains[1])
    lab.run()
    assert [result.quality for result in lab.results()] == ["degraded", "good"]


def test_a_train_that_no_meter_saw_is_marked_and_replaced_when_samples_come(lab: Lab) -> None:
    lab.send(_train())
    lab.run()
    lab.now_ns += 91 * SECOND
    lab.run()
    assert [(result.quality, result.flags) for result in lab.results()] == [("invalid", ("no_samples",))]
    lab.send(*_samples(12.0, _train()))
    lab.run()
    assert [(result.quality, result.meter, result.revision) for result in lab.results()] == [("good", "m1", 2)]


def test_a_dut_without_a_meter_gives_times_at_once(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(without_meter=("pi4",))
    lab.send(_train())
    lab.run()
    assert [result.quality for result in lab.results()] == ["time_only"]


def test_a_kill_before_a_train_without_a_meter_was_computed_leaves_it_waiting_for_nothing(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab(without_meter=("pi4",))
    lab.send(_train())
    _kill_at(lab, "_join")
    lab.start()
    lab.run()
    assert [result.quality for result in lab.results()] == ["time_only"]


def test_two_meters_on_one_dut_give_two_results(lab: Lab) -> None:
    lab.send(*_samples(12.0, _train()), *_samples(12.0, _train(), meter="m2"), _train())
    lab.run()
    assert [result.meter for result in lab.results()] == ["m1", "m2"]


def test_a_null_train_that_comes_later_gives_the_earlier_train_its_crypto_energy(lab: Lab) -> None:
    trains = [_train(1), _train(2, 12.0, **NULL)]
    samples = _samples(24.0, *trains)
    lab.send(*samples[:12], trains[0])
    lab.run()
    assert lab.results(operation="keygen")[0].crypto_j_per_op is None
    lab.send(*samples[12:], trains[1])
    lab.run()
    (result,) = lab.results(operation="keygen")
    assert result.crypto_j_per_op is not None
    assert (result.null_event_id, result.revision) == (trains[1].event_id, 2)


@pytest.mark.parametrize("killed_after", range(1, 14))
def test_a_kill_between_any_two_messages_loses_and_doubles_nothing(
    make_lab: Callable[..., Lab], killed_after: int
) -> None:
    messages: list[SampleBatch | OperationEvent] = [*_samples(12.0, _train()), _train()]
    undisturbed, lab = make_lab(), make_lab()
    undisturbed.send(*messages)
    undisturbed.run()
    lab.send(*messages[:killed_after])
    lab.run()
    lab.kill()
    lab.send(*messages[killed_after:])
    lab.start()
    lab.run()
    assert _final(lab.results()) == _final(undisturbed.results())
    assert len(lab.published("/results")) == 1


def test_a_kill_after_the_commit_and_before_the_acknowledgement_counts_nothing_twice(lab: Lab) -> None:
    messages: list[SampleBatch | OperationEvent] = [*_samples(12.0, _train()), _train()]
    lab.send(*messages)
    lab.bus.acknowledge = lambda messages: None  # type: ignore[method-assign]
    lab.run()
    first = lab.results()
    lab.kill()
    lab.start()
    lab.run()
    assert lab.results() == first
    assert len(lab.published("/results")) == 1


def test_a_kill_before_a_late_batch_was_made_use_of_loses_no_revision(lab: Lab) -> None:
    samples, train = _samples(12.0, _train()), _train()
    lab.send(*samples[3:], train)
    lab.run()
    assert [result.quality for result in lab.results()] == ["degraded"]
    lab.send(*samples[:3])
    assert lab.aggregator is not None
    _kill_at(lab, "_revise_late")
    lab.start()
    lab.run()
    assert [(result.quality, result.revision) for result in lab.results()] == [("good", 2)]


def test_a_kill_after_a_null_train_was_stored_loses_no_crypto_energy(lab: Lab) -> None:
    trains = [_train(1), _train(2, 12.0, **NULL)]
    lab.send(*_samples(24.0, *trains), trains[0])
    lab.run()
    lab.send(trains[1])
    _kill_at(lab, "_revise_crypto")
    lab.start()
    lab.run()
    (result,) = lab.results(operation="keygen")
    assert result.null_event_id == trains[1].event_id


def _kill_at(lab: Lab, method: str) -> None:
    """The aggregator's process ends where it would call this."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    assert lab.aggregator is not None
    setattr(lab.aggregator, method, killed)
    with pytest.raises(KeyboardInterrupt):
        lab.aggregator.step(0)
    lab.kill()


def test_a_result_that_was_stored_and_not_published_goes_out_at_the_next_start(lab: Lab) -> None:
    lab.send(*_samples(12.0, _train()), _train())
    lab.bus.flush = lambda timeout_s: False  # type: ignore[method-assign]
    assert lab.aggregator is not None
    lab.aggregator.step(0)
    lab.kill()
    lab.start()
    lab.run()
    assert len(lab.published("/results")) >= 2
    assert len(lab.results()) == 1


def test_what_cannot_be_used_is_acknowledged_refused_and_changes_nothing_else(lab: Lab) -> None:
    lab.send(*_samples(12.0, _train()))
    lab.client.publish("operations", "lab", _train().model_copy(update={"dut": "pi5"}), dut="pi4")
    lab.send(_train())
    lab.run()
    assert [result.quality for result in lab.results()] == ["good"]
    assert "claims lab/pi5" in lab.rejects()[0].reason
    lab.kill()
    lab.start()
    lab.run()
    assert len(lab.rejects()) == 1


def test_a_late_older_train_does_not_replace_the_newest_retained_result(lab: Lab) -> None:
    old, new = _train(1), _train(2, 12.0)
    lab.send(*_samples(24.0, old, new), new)
    lab.run()
    lab.send(old)
    lab.run()
    latest = [EnergyResult.model_validate_json(p) for p in lab.published("/results/latest/cli/keygen/ml-kem-768")]
    assert [result.event_id for result in latest] == [new.event_id]
    assert len(lab.published("/results")) == 2


def _latest(lab: Lab) -> dict[str, UUID]:
    """What a new subscriber finds: the train of the last result on each retained topic, by the topic's end."""
    topics = [message for message in lab.broker.published if "/results/latest/" in message.topic]
    results = {message.topic: EnergyResult.model_validate_json(message.payload) for message in topics}
    return {topic.partition("/latest/")[2]: result.event_id for topic, result in results.items()}


def test_null_trains_and_handshakes_of_different_variants_do_not_replace_each_other(lab: Lab) -> None:
    shake: dict[str, Any] = {"operation": "handshake", "parameter_set": "X25519", "backend": "lib"}
    trains = [
        _train(1, **NULL),
        _train(2, 12.0, **NULL | {"variant": "processes=1,reads=key"}),
        _train(3, 24.0, **shake, variant="certificate=ML-DSA-65"),
        _train(4, 36.0, **shake, variant="certificate=RSA-2048"),
        _train(5, 48.0, **NULL),
    ]
    samples = _samples(60.0, *trains)
    lab.send(*samples, *trains[1:])
    lab.run()
    lab.send(trains[0])
    lab.run()
    assert _latest(lab) == {
        "cli/null/processes-2": trains[4].event_id,
        "cli/null/processes-1-reads-key": trains[1].event_id,
        "lib/handshake/x25519-certificate-ml-dsa-65": trains[2].event_id,
        "lib/handshake/x25519-certificate-rsa-2048": trains[3].event_id,
    }


def test_a_train_finds_its_null_train_among_many_others_that_are_nearer(lab: Lab) -> None:
    trains = [
        _train(1, 0.0, **NULL),
        *[_train(number, 12.0 * (number - 1), **NULL | {"variant": f"processes={number}"}) for number in range(3, 21)],
        _train(2, 240.0),
    ]
    lab.send(*_samples(252.0, *trains), *trains)
    lab.run()
    (result,) = lab.results(operation="keygen")
    assert result.null_event_id == trains[0].event_id


def test_a_second_aggregator_on_one_journal_is_refused_in_one_line(lab: Lab) -> None:
    with pytest.raises(SettingsError, match="in use by process"):
        lab.start()


def test_only_the_samples_around_the_segments_are_needed(lab: Lab) -> None:
    baseline = segments(1, load_s=1.0, idle_s=5.0, repetitions=0)[0]
    load = segments(1, load_s=5.0, idle_s=0.5, repetitions=0, start_ns=T0 + 3600 * SECOND)[1]
    train = event((baseline, load), origin="import", separate_timing_s=0.1, guard_s=0.0)
    early = batches(trace(lambda t: np.full(len(t), 2.0) + 0.01 * np.sin(50 * t), 6.0))
    late = trace(lambda t: np.full(len(t), 5.0) + 0.01 * np.sin(50 * t), 8.0, start_ns=T0 + 3600 * SECOND)
    lab.send(train, *early)
    lab.send(*[batch.model_copy(update={"seq": batch.seq + len(early)}) for batch in batches(late)])
    lab.run()
    (result,) = lab.results()
    assert result.net_j_per_op is not None
    assert result.net_j_per_op.value == pytest.approx(0.3, rel=0.01)


def test_a_meter_that_changes_its_identity_within_a_timeline_is_refused(lab: Lab) -> None:
    samples = _samples(12.0, _train(), meter_kind="measured")
    lab.send(samples[0], *[each.model_copy(update={"meter_kind": "simulated"}) for each in samples[1:]], _train())
    lab.run()
    assert lab.journal.counts()["batches"] == 1
    assert {reject.reason for reject in lab.rejects()} == {
        "model, kind or host clock of the meter changed within one timeline"
    }


def test_an_event_id_of_another_dut_is_refused_and_gets_no_receipt(lab: Lab) -> None:
    lab.send(_train())
    lab.run()
    lab.send(_train(dut="pi5"))
    lab.run()
    assert "is that of a train of lab/pi4" in lab.rejects()[0].reason
    assert {receipt.dut for receipt in lab.receipts()} == {"pi4"}


def test_samples_that_are_forgotten_and_come_again_spoil_no_result(lab: Lab) -> None:
    samples = _samples(24.0, _train(1), _train(2, 12.0))
    lab.send(*samples, _train(1), _train(2, 12.0))
    lab.run()
    before = lab.results()
    lab.journal.arrived.forget(lab.now_ns + 1)
    lab.send(samples[3])
    lab.run()
    assert lab.results() == before
    assert lab.journal.counts()["batches"] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"power_w": [1e3] * 100},
        {"power_w": [-1e3, 1e3] * 50},
        {"seq": 2**62 - 1},
        {"host_clock": {"boot_id": "b", "wall_minus_monotonic_ns": 2**62 - 1}},
        {"period_ns": 1},
        {"period_ns": 3_599_999_999_999},
    ],
)
def test_extreme_batches_stop_no_aggregator_and_no_restart(lab: Lab, changes: dict[str, object]) -> None:
    clock = {"boot_id": "b", "wall_minus_monotonic_ns": 0}
    train = event(_train().segments, timeline_id="r", host_clock=clock)
    samples = _samples(12.0, _train(), host_clock=clock)
    odd = SampleBatch.model_validate(samples[4].model_dump() | {"meter": "m2"} | changes)
    lab.send(odd, *samples, train)
    lab.run()
    lab.kill()
    lab.start()
    lab.run()
    lab.now_ns += 100 * SECOND
    lab.run()
    assert "good" in {result.quality for result in lab.results() if result.meter == "m1"}


@pytest.mark.parametrize("site", ["", "nobody", "ä"])
def test_a_message_of_a_site_that_cannot_be_is_refused_and_not_sent_again(lab: Lab, site: str) -> None:
    lab.broker.route(Outgoing(f"opjoule/v1/{site}/pi4/samples", b"{}", 1, False))
    lab.run()
    lab.kill()
    lab.start()
    lab.run()
    assert len(lab.rejects()) == 1
