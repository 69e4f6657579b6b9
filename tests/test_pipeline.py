"""The whole way, in memory: from an operation that costs 6 mJ to a result that says so. Read this after the README.

    board ── operations ──▶ [1] runner ── operation events ──▶ ┐
      └───── power ───────▶ [2] meter ─── sample batches ────▶ bus ──▶ [3] aggregator ──▶ journal, results topics
                                 ▲                                       │
                                 └────────────── receipts ◀──────────────┘

What stands in for hardware is in `tests/pipeline/flow.py`; `test_pipeline_processes.py` runs the same way with real
processes, a real broker and kill -9.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opjoule.figures import headline, quality
from schemas import EnergyResult, OperationEvent, SampleBatch, topic
from tests.aggregator.conftest import Lab
from tests.pipeline.flow import DUT, IDLE_W, METER, REPETITION_NS, SITE, Flow, make_lab

OPERATION_W = 1.5
OPERATION_J = OPERATION_W * REPETITION_NS / 1e9
PROCESS_W = 1.0
"""What an operation without its cryptography takes: starting the process."""
PROCESS_J = PROCESS_W * REPETITION_NS / 1e9

MakeFlow = Callable[..., Flow]


@pytest.fixture
def make_flow(tmp_path: Path) -> Iterator[MakeFlow]:
    """Flows, each with a journal of its own."""
    flows: list[Flow] = []

    def make(meter_kind: str = "measured", **settings: object) -> Flow:
        flows.append(Flow(make_lab(tmp_path / str(len(flows)), **settings), meter_kind))  # type: ignore[arg-type]
        return flows[-1]

    yield make
    for flow in flows:
        flow.lab.journal.close()


@pytest.fixture
def flow(make_flow: MakeFlow) -> Flow:
    """One flow with default settings."""
    return make_flow()


def test_an_operation_of_6_mJ_becomes_a_result_that_says_so_within_its_uncertainty(flow: Flow) -> None:
    # [1] The runner runs a train: idle and load in turn, then one event that says when and how often.
    event = flow.run_train("keygen", "ML-KEM-768", OPERATION_W)
    assert [segment.kind for segment in event.segments[:3]] == ["idle", "load", "idle"]
    assert event.repetitions_verified == flow.board.repetitions

    # [2] The meter has sampled all the while, on a timeline of its own.
    batches = flow.read_meter()
    assert batches[0].timeline_id != event.timeline_id

    # [3] Both meet in the aggregator: event and samples are committed, joined, computed and published.
    flow.deliver()
    (result,) = flow.lab.results()
    assert (result.event_id, result.meter, result.quality, result.flags) == (event.event_id, METER, "good", ())
    assert result.repetitions == event.repetitions_verified
    assert result.net_j_per_op is not None and result.baseline_w is not None
    assert result.net_j_per_op.value == pytest.approx(OPERATION_J, abs=3 * result.net_j_per_op.u)
    assert result.net_j_per_op.u95 < 0.05 * OPERATION_J
    assert result.baseline_w == pytest.approx(IDLE_W, abs=0.01)
    assert result.time_per_repetition is not None
    assert result.time_per_repetition.mean_s == pytest.approx(REPETITION_NS / 1e9)

    # The receipts named everything, so the spools are empty; the result stands on its topics.
    assert flow.pending == 0
    assert flow.published() == [result]
    latest = topic("latest", SITE, dut=DUT, backend="cli", operation="keygen", slug="ml-kem-768")
    (kept,) = (message for message in flow.lab.broker.published if message.topic == latest)
    assert kept.retain and EnergyResult.model_validate_json(kept.payload) == result


def test_the_null_train_takes_the_process_start_away_and_leaves_the_cryptography(flow: Flow) -> None:
    flow.run_train("sign", "ML-DSA-65", OPERATION_W)
    null = flow.run_train("null", "none", PROCESS_W)
    flow.read_meter()
    flow.deliver()
    (sign,) = flow.lab.results(operation="sign")
    assert sign.crypto_j_per_op is not None and sign.net_j_per_op is not None
    assert sign.null_event_id == null.event_id
    assert sign.crypto_j_per_op.value == pytest.approx(OPERATION_J - PROCESS_J, abs=3 * sign.crypto_j_per_op.u)
    assert sign.crypto_j_per_op.u > sign.net_j_per_op.u


def test_a_sham_train_shows_the_error_of_the_method_as_watts_near_zero(flow: Flow) -> None:
    flow.run_train("sham", "none", 0.0)
    flow.read_meter()
    flow.deliver()
    (sham,) = flow.lab.results()
    assert (sham.quality, sham.repetitions, sham.net_j_per_op) == ("good", 0, None)
    assert sham.net_power_w is not None
    assert abs(sham.net_power_w.value) < 3 * sham.net_power_w.u
    assert sham.net_power_w.u95 < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_messages_doubled_delayed_and_shuffled_change_nothing(make_flow: MakeFlow, seed: int) -> None:
    straight = make_flow()
    events = _measure_three(straight)
    batches = straight.read_meter()
    straight.deliver()

    messages: list[OperationEvent | SampleBatch] = [*events, *batches] * 2
    random.Random(seed).shuffle(messages)
    crooked = make_flow().lab
    for message in messages:
        crooked.send(message)
        crooked.run()
    assert _final(crooked) == _final(straight.lab)
    assert crooked.journal.counts()["batches"] == len(batches)


def test_a_broker_that_loses_its_sessions_loses_nothing_of_ours(flow: Flow) -> None:
    events = _measure_three(flow)
    batches = flow.read_meter()  # the broker has accepted everything, the aggregator has taken nothing yet
    flow.lab.broker.stop(forget=True)
    flow.lab.broker.start()
    flow.reconnect()
    flow.deliver()
    assert flow.lab.journal.counts()["events"] == 0
    flow.patience_s += 31
    flow.deliver()
    assert flow.pending == 0
    assert flow.lab.journal.counts()["batches"] == len(batches)
    assert [result.event_id for result in flow.lab.results()] == [event.event_id for event in events]
    assert {result.quality for result in flow.lab.results()} == {"good"}


def test_some_failed_repetitions_degrade_a_result_and_never_make_it_cheaper(flow: Flow) -> None:
    flow.board.fail_every = 200
    event = flow.run_train("sign", "ML-DSA-65", OPERATION_W)
    flow.read_meter()
    flow.deliver()
    (result,) = flow.lab.results()
    assert (result.quality, result.flags) == ("degraded", ("failed_repetitions",))
    assert result.net_j is not None and result.net_j_per_op is not None
    tried = event.repetitions_verified + event.repetitions_failed
    assert result.net_j.value == pytest.approx(OPERATION_J * tried, abs=3 * result.net_j.u)
    assert result.repetitions == event.repetitions_verified == tried - tried // 200
    assert result.net_j_per_op.value == pytest.approx(result.net_j.value / event.repetitions_verified)


@pytest.mark.parametrize("fail_every", [50, 1], ids=["2 %", "all"])
def test_too_many_failed_repetitions_give_no_energy_at_all(flow: Flow, fail_every: int) -> None:
    flow.board.fail_every = fail_every
    flow.run_train("sign", "ECDSA-P-256", OPERATION_W)
    flow.read_meter()
    flow.deliver()
    (result,) = flow.lab.results()
    assert result.quality == "invalid"
    assert (result.net_j, result.net_j_per_op, result.crypto_j_per_op, result.gross_j) == (None,) * 4
    assert "failed" in result.reason
    assert flow.published() == [result]


def test_a_board_without_a_meter_gives_its_times_and_no_energy(make_flow: MakeFlow) -> None:
    flow = make_flow(without_meter=(DUT,))
    flow.run_train("keygen", "X25519", OPERATION_W)
    flow.deliver()
    (result,) = flow.lab.results()
    assert (result.quality, result.meter, result.net_j_per_op) == ("time_only", None, None)
    assert result.time_per_repetition is not None
    assert result.time_per_repetition.mean_s == pytest.approx(REPETITION_NS / 1e9)


def test_a_train_that_no_meter_saw_is_published_as_invalid_once_its_time_is_up(flow: Flow) -> None:
    flow.run_train("keygen", "X25519", OPERATION_W)
    flow.deliver()
    assert flow.published() == []
    flow.lab.now_ns += round(flow.lab.settings.hold_s * 1e9)
    flow.deliver()
    (result,) = flow.published()
    assert (result.quality, result.flags, result.net_j) == ("invalid", ("no_samples",), None)


def test_simulated_power_says_so_beside_every_figure_and_measured_power_does_not(make_flow: MakeFlow) -> None:
    for kind, said in (("simulated", "good SIMULATED"), ("measured", "good")):
        flow = make_flow(kind)
        flow.run_train("keygen", "ML-KEM-768", OPERATION_W)
        flow.read_meter()
        flow.deliver()
        (result,) = flow.published()
        assert (result.simulated, "simulated" in result.flags) == (kind == "simulated",) * 2
        assert quality(result) == said
        assert "±" in headline(result)


def _measure_three(flow: Flow) -> list[OperationEvent]:
    """A train that shares its run with a null train, and a sham."""
    return [
        flow.run_train("keygen", "ML-KEM-768", OPERATION_W),
        flow.run_train("null", "none", PROCESS_W),
        flow.run_train("sham", "none", 0.0),
    ]


def _final(lab: Lab) -> list[EnergyResult]:
    """Last revisions, but for their number."""
    return [result.model_copy(update={"revision": 0}) for result in lab.results()]
