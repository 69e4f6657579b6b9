"""How campaigns end, by target, maximum or request, and the studies' own procedures."""

from collections.abc import Callable

import pytest

from bus import MemoryBus
from runner import campaign as campaign_module
from runner import one_train
from runner.campaign_file import parse_campaign
from runner.events import Measured
from runner.one_train import Bay
from runner.openssl import OpenSsl
from runner.operations import Usage
from runner.plan import expand
from runner.procedures import Procedure, Step
from runner.rounds import PlannedTrain
from runner.segments import PlannedSegment, TrainPlan
from runner.target import PooledBook
from runner.timing import Times
from runner.train import TrainRecord
from schemas import Disturbance, OperationEvent, PooledEnergy, topic_filter
from schemas.base import Quantity
from tests.runner.stage import Stage

MakeFake = Callable[[str], OpenSsl]
MakeStage = Callable[[OpenSsl], Stage]


class Pooling:
    """An aggregator that pools every train of a board as it comes: U95 falls with the number of trains."""

    def __init__(self, stage: Stage) -> None:
        self._bus = MemoryBus(stage.broker, "pooling")
        self._bus.subscribe([topic_filter("operations", "lab")])
        self._bus.connect(0.0)
        self.trains: dict[str, int] = {}

    def step(self) -> None:
        """Pool what came since."""
        for received in self._bus.receive(0.0):
            event = OperationEvent.model_validate_json(received.payload)
            trains = self.trains[event.operation] = self.trains.get(event.operation, 0) + 1
            u95 = 0.12 / trains
            pooled = PooledEnergy(
                site="lab",
                dut="pi4",
                operation=event.operation,
                parameter_set=event.parameter_set,
                variant=event.variant,
                backend=event.backend,
                net_j_per_op=Quantity(value=1.0, u=u95 / 2, u95=u95, dof=9.0),
                between_trains_j=0.0,
                trains=trains,
                simulated=True,
                last_ns=event.start_ns,
            )
            levels = {"backend": "cli", "operation": event.operation, "slug": "x", "variant": "v"}
            self._bus.publish("pooled", "lab", pooled, dut="pi4", **levels)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains that take no time: what is looked at is how many there are."""

    def measured(_self: Bay, _campaign: object, train: PlannedTrain, _title: str, _busy: object) -> Measured:
        plan = TrainPlan((PlannedSegment("idle", 10**6), PlannedSegment("load", 10**6)) * 2, 0.0, 0.0)
        plan = TrainPlan((*plan.segments, PlannedSegment("idle", 10**6)), 0.0, 0.0)
        counts = (0,) * 5 if train.job.operation == "sham" else (0, 1, 0, 1, 0)
        record = TrainRecord(plan, tuple(range(10**6, 7 * 10**6, 10**6)), counts, Times(), 0, None, 0.0)
        return Measured(train.job, record, train.seed, "v", 1, {}, None, Usage(), Disturbance())

    monkeypatch.setattr(Bay, "measure", measured)
    monkeypatch.setattr(campaign_module, "ANSWER_S", 0.2)
    monkeypatch.setattr(campaign_module, "STEP_S", 0.01)


UNTIL = {"until": "u95 <= 1 %", "gap_s": 0.0}


def _stage_with_book(stage: Stage) -> Pooling:
    book = PooledBook("lab", "pi4")
    stage.executor.book = book
    pooling = Pooling(stage)
    stage.link.listen([topic_filter("pooled", "lab", dut="pi4")], book.hear)
    speak = stage.link.speak

    def pooled_meanwhile(detail: str, duration_s: float) -> None:
        speak(detail, duration_s)
        pooling.step()

    stage.link.speak = pooled_meanwhile  # type: ignore[method-assign]
    return pooling


def test_trains_are_repeated_until_the_aggregator_knows_enough(
    make_stage: MakeStage, system_openssl: OpenSsl, fast: None
) -> None:
    stage = make_stage(system_openssl)
    pooling = _stage_with_book(stage)
    state = stage.run("sign:Ed25519,sham", **UNTIL, most_trains=40)
    assert (state.state, state.detail) == ("finished", "1 of 1 met u95 <= 1 %")
    assert 12 <= pooling.trains["sign"] <= 14
    assert state.trains_planned is None


def test_a_target_that_is_not_met_ends_with_its_maximum_and_says_so(
    make_stage: MakeStage, system_openssl: OpenSsl, fast: None
) -> None:
    stage = make_stage(system_openssl)
    pooling = _stage_with_book(stage)
    state = stage.run("sign:Ed25519", **UNTIL, most_trains=11)
    assert state.detail.startswith("0 of 1 met u95 <= 1 %; not: sign Ed25519 (1")
    assert state.trains_done == 11
    assert pooling.trains["sign"] <= 11


def test_without_an_aggregator_a_campaign_says_so_and_goes_on_to_its_maximum(
    make_stage: MakeStage, system_openssl: OpenSsl, fast: None, caplog: pytest.LogCaptureFixture
) -> None:
    stage = make_stage(system_openssl)
    stage.executor.book = PooledBook("lab", "pi4")
    state = stage.run("sign:Ed25519", **UNTIL, most_trains=12)
    assert state.trains_done == 12
    assert "no pooled figure after 12 trains" in state.detail
    assert caplog.text.count("no pooled figure within 0.2 s: the campaign goes on to its maximum") == 1


def test_a_campaign_ends_between_trains_when_it_is_halted(
    make_stage: MakeStage, system_openssl: OpenSsl, fast: None
) -> None:
    stage = make_stage(system_openssl)
    stage.halted = lambda: stage.executor.trains >= 3
    state = stage.run("sign:Ed25519,sham", rounds=0, gap_s=0.0)
    assert (state.state, state.trains_done, state.trains_planned) == ("stopped", 3, None)


def test_a_status_is_told_again_only_when_it_has_changed(make_stage: MakeStage, system_openssl: OpenSsl) -> None:
    stage = make_stage(system_openssl)
    for detail in ("waits", "waits", "goes on", "goes on"):
        stage.link.speak(detail, 0.0)
    assert [status.detail for status in stage.statuses] == ["waits", "goes on"]


def test_a_study_s_own_procedure_becomes_an_event_that_says_so_and_fails_as_it_did(
    make_stage: MakeStage, system_openssl: OpenSsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (
        Step("warm_up", duration_s=0.05),
        Step("idle", duration_s=0.2),
        Step("load", duration_s=0.1),
        Step("timing", repetitions=3),
    )
    monkeypatch.setattr(
        one_train, "procedure_of", lambda _study, job, _s: Procedure(1, steps) if job.operation != "sham" else None
    )
    stage = make_stage(system_openssl)
    campaign = parse_campaign(
        'procedure = "as-published"\nstudy = 1\ngap_s = 0.5\ntrain_s = 1\norder = "as-written"\n'
        '[[measure]]\noperations = "keygen"\nsets = "X25519"\nforms = "as-published"\n'
        '[[measure]]\noperations = "sign"\nsets = "ECDSA-P-256"\nforms = "as-published"\n',
        "study",
    )
    stage.executor.run(campaign, expand(campaign, stage.offer))
    events = {event.operation: event for event in stage.events}
    keygen, sign, sham = events["keygen"], events["sign"], events["sham"]
    assert [event.procedure for event in (keygen, sign, sham)] == ["as_published", "as_published", "train"]
    assert [(each.kind, each.repetitions > 0) for each in keygen.segments] == [("idle", False), ("load", True)]
    assert keygen.time_per_repetition is not None and keygen.time_per_repetition.count == 3
    assert keygen.separate_timing_s == pytest.approx(keygen.time_per_repetition.mean_s)
    assert keygen.guard_s == 0.0
    assert (sign.repetitions_verified, sign.separate_timing_s, sign.time_per_repetition) == (0, None, None)
    assert sign.repetitions_failed > 0 and sign.first_error is not None
