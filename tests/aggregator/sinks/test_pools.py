"""Pooled means: published retained after each result, stored, and the same whatever order, kill or restart."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aggregator.pooling import pooled_results
from aggregator.sinks.pools import Pools
from aggregator.sinks.sender import Sender
from schemas import EnergyResult, OperationEvent, PooledEnergy, SampleBatch
from tests.aggregator.conftest import Lab
from tests.aggregator.pools import result
from tests.aggregator.sinks.conftest import StoreLab
from tests.aggregator.sinks.trains import samples, train
from tests.influxd import Influxd

TOPIC = "/pooled/cli/sign/ml-dsa-65/message-bytes-19600"
POINT = "pooled_energy"


def _said(lab: Lab, ending: str = TOPIC) -> list[PooledEnergy]:
    return [PooledEnergy.model_validate_json(payload) for payload in lab.published(ending)]


def _store(lab: Lab, *results: EnergyResult) -> None:
    """Results as they are made, one by one, each followed by a round of the aggregator."""
    for each in results:
        lab.journal.results.store([each])
        lab.run()


def _points(lab: StoreLab) -> list[str]:
    return [line for line in lab.lines("energy") if line.startswith(POINT)]


def test_every_result_from_the_second_on_publishes_the_mean_of_its_kind(lab: Lab) -> None:
    results = [result(number, net_j) for number, net_j in enumerate((1.0, 1.2, 1.1))]
    _store(lab, *results)
    assert [pooled.trains for pooled in _said(lab)] == [2, 3]
    assert _said(lab)[-1:] == pooled_results(results)
    assert _said(lab)[-1].net_j_per_op.value == pytest.approx(1.1)
    retained = [message for message in lab.broker.published if message.topic.endswith(TOPIC)]
    assert all(message.retain for message in retained)


def test_trains_of_a_whole_run_are_pooled_by_kind(lab: Lab) -> None:
    kinds: tuple[dict[str, Any], ...] = ({}, {"operation": "null", "parameter_set": "none", "variant": "processes=2"})
    trains = [train(2 * number + index, **kind) for number in range(2) for index, kind in enumerate(kinds, 1)]
    lab.send(*samples(*trains), *trains)
    lab.run()
    (keys,), (nulls,) = _said(lab, "/pooled/cli/keygen/ml-kem-768/none"), _said(lab, "/null/none/processes-2")
    assert (keys.trains, nulls.trains, keys.simulated, keys.meter) == (2, 2, True, "m1")
    assert keys.net_j_per_op.value == pytest.approx(0.021, rel=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_results_ends_with_the_same_mean(make_lab: Callable[..., Lab], seed: int) -> None:
    results = [result(number, 1.0 + 0.1 * number) for number in range(5)]
    straight, shuffled = make_lab(), make_lab()
    _store(straight, *results)
    _store(shuffled, *[results[index] for index in np.random.default_rng(seed).permutation(5)])
    assert _said(shuffled)[-1] == _said(straight)[-1]


def test_a_revision_takes_the_place_of_what_it_revises(lab: Lab) -> None:
    _store(lab, result(1, 1.0), result(2, 9.0), result(3, 1.2), result(2, 1.1, revision=2))
    assert _said(lab)[-1].trains == 3
    assert _said(lab)[-1].net_j_per_op.value == pytest.approx(1.1)
    none = result(3, revision=2, quality="invalid", flags=("gap",), net_j_per_op=None, budget=())
    _store(lab, none)
    assert (_said(lab)[-1].trains, _said(lab)[-1].last_ns) == (2, result(2).start_ns)


def test_of_two_meters_that_saw_the_same_trains_one_is_told_and_always_the_same(lab: Lab) -> None:
    for number in (1, 2, 3):
        lab.journal.results.store([result(number, net_j, meter=meter) for meter, net_j in (("m2", 1.2), ("m1", 1.0))])
        lab.run()
    assert [(pooled.meter, pooled.trains) for pooled in _said(lab)] == [("m1", 2), ("m1", 3)]


def test_measured_trains_are_told_rather_than_simulated_ones_of_the_same_event(lab: Lab) -> None:
    pretended: dict[str, Any] = {"meter": "a", "simulated": True, "meter_kind": "simulated", "flags": ("simulated",)}
    for number in (1, 2):
        lab.journal.results.store([result(number), result(number, **pretended)])
        lab.run()
    assert not _said(lab)[-1].simulated


def test_a_new_build_of_openssl_begins_a_new_mean(lab: Lab) -> None:
    newer = result(1).board.model_copy(update={"openssl": "3.5.9"})
    _store(lab, result(1), result(2), result(3, 2.0, board=newer), result(4, 2.0, board=newer))
    assert [(pooled.board and pooled.board.openssl, pooled.trains) for pooled in _said(lab)][-1] == ("3.5.9", 2)


@pytest.mark.parametrize("killed_after", range(1, 5))
def test_a_kill_anywhere_leaves_the_mean_of_no_kill(make_lab: Callable[..., Lab], killed_after: int) -> None:
    trains = [train(number) for number in (1, 2, 3)]
    messages: list[SampleBatch | OperationEvent] = [*samples(*trains), *trains]
    undisturbed, lab = make_lab(), make_lab()
    undisturbed.send(*messages)
    undisturbed.run()
    lab.send(*messages[: -killed_after or None])
    lab.run()
    lab.kill()
    lab.send(*messages[-killed_after:])
    lab.start()
    lab.run()
    ending = "/pooled/cli/keygen/ml-kem-768/none"
    assert _said(lab, ending)[-1] == _said(undisturbed, ending)[-1]


def test_a_mean_that_the_broker_did_not_confirm_goes_out_at_the_next_start(lab: Lab) -> None:
    lab.bus.flush = lambda timeout_s: False  # type: ignore[method-assign]
    lab.journal.results.store([result(1), result(2)])
    assert lab.aggregator is not None
    lab.aggregator.step(0)
    lab.kill()
    before = len(_said(lab))
    lab.start()
    lab.run()
    lab.run()
    assert len(_said(lab)) == before + 1


def test_a_journal_from_before_there_were_pools_gets_them_at_the_next_start(lab: Lab) -> None:
    lab.journal.results.store([result(number) for number in range(4)])
    lab.kill()
    lab.start()
    lab.run()
    assert [pooled.trains for pooled in _said(lab)] == [4]


def test_a_result_that_cannot_be_read_stops_no_pool(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.journal.results.store([result(1), result(2), result(3)])
    lab.journal._db.execute("UPDATE results SET payload='{' WHERE result=2")
    lab.journal._db.execute("UPDATE results SET published=1")
    with caplog.at_level(logging.WARNING):
        Pools(lab.bus, lab.journal, None).step()
    assert [pooled.trains for pooled in _said(lab)] == [2]
    assert [record.message.partition(":")[0] for record in caplog.records] == ["a result is in no pool"]


def test_each_train_of_a_pool_leaves_the_mean_of_then_in_the_store(store_lab: StoreLab) -> None:
    _store(store_lab, result(1, 1.0), result(2, 1.2), result(3, 1.1))
    first, second = _points(store_lab)
    for text in ("dut=pi4", "meter=m1", "operation=sign", "backend=cli", "openssl=3.5.7", "parameter_set=ML-DSA-65"):
        assert f",{text}" in first.partition(" between")[0]
    assert ",trains=2," in first and first.endswith(f",valid=1 {result(2).start_ns}")
    assert ",trains=3," in second and second.endswith(f",valid=1 {result(3).start_ns}")


def test_a_mean_whose_last_train_was_revised_away_is_not_valid_there_any_more(store_lab: StoreLab) -> None:
    _store(store_lab, result(1), result(2), result(3))
    none = result(3, revision=2, quality="invalid", flags=("gap",), net_j_per_op=None, budget=())
    _store(store_lab, none)
    gone, now = _points(store_lab)[-2:]
    assert gone.endswith(f" valid=0 {result(3).start_ns}")
    assert ",valid=1 " in now and now.endswith(f" {result(2).start_ns}")


def test_the_store_answers_with_the_mean_of_a_pool(
    store_lab: StoreLab, influxd: Influxd, drain: Callable[..., Sender]
) -> None:
    _store(store_lab, result(1, 1.0), result(2, 1.2))
    drain(store_lab)
    (row,) = influxd.rows("SELECT mean, u95, trains FROM pooled_energy WHERE valid = 1")
    assert (row["mean"], row["trains"]) == (pytest.approx(1.1), 2)
    assert row["u95"] > 1.0


def test_a_thousand_trains_are_taken_in_pieces_and_none_is_left_out(lab: Lab) -> None:
    lab.journal.results.store([result(number) for number in range(1100)])
    assert lab.aggregator is not None
    for _ in range(4):
        lab.aggregator.step(0)
    assert [pooled.trains for pooled in _said(lab)] == [500, 1000, 1000]
