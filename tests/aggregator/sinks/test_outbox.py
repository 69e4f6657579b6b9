"""The outbox: what the journal gets the store gets too, once, whatever ends the process in between."""

import logging
import re
from collections.abc import Callable

import numpy as np
import pytest

from aggregator.journal_outbox import OutboxReader
from aggregator.result import MeterView, of_train, without_samples
from aggregator.sinks.sender import Pace
from schemas import EnergyResult, OperationEvent, ServiceStatus
from tests.aggregator.sinks.conftest import StoreLab
from tests.aggregator.sinks.test_points import STATUS
from tests.aggregator.sinks.trains import good_result, samples, train
from tests.aggregator.trains import SECOND, T0, batches, trace


def test_a_result_and_its_line_come_in_one_transaction(store_lab: StoreLab) -> None:
    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    store_lab.outbox._journal.outbox.set_results_row = fails  # type: ignore[method-assign,assignment]
    store_lab.send(*samples(train()), train())
    with pytest.raises(KeyboardInterrupt):
        store_lab.run()
    assert store_lab.results() == [] and store_lab.lines("energy") == []
    store_lab.kill()
    store_lab.start()
    store_lab.run()
    assert len(store_lab.results()) == len(store_lab.lines("energy")) == 1


def test_a_store_that_is_configured_later_gets_the_results_from_before(store_lab: StoreLab) -> None:
    good_result(store_lab)
    before = store_lab.lines("energy")
    with store_lab.journal.outbox.transaction():
        store_lab.journal.outbox.set_results_row(0)
    store_lab.kill()
    store_lab.start()
    assert store_lab.lines("energy") == before * 2
    store_lab.kill()
    store_lab.start()
    assert store_lab.lines("energy") == before * 2


def test_a_revision_at_another_time_makes_the_earlier_point_invalid(store_lab: StoreLab) -> None:
    good = good_result(store_lab)
    moved = good.model_copy(update={"revision": 2, "start_ns": good.start_ns + 5})
    store_lab.journal.results.store([moved])
    _, gone, now = store_lab.lines("energy")
    assert gone.endswith(f'quality="superseded",valid=0 {good.start_ns}') and "net_j_per_op" not in gone
    assert now.endswith(f" {good.start_ns + 5}") and ",valid=1 " in now


def _shown(lab: StoreLab) -> dict[str, tuple[str, str]]:
    """Quality and validity by meter, as a store merges the lines."""
    return {
        re.findall("meter=([^,]+),", line)[0]: (re.findall('quality="(.*?)"', line)[0], line.split(",valid=")[1][0])
        for line in lab.lines("energy")
    }


def _late_result(lab: StoreLab) -> None:
    """No samples by the deadline, then all of them."""
    lab.send(train())
    lab.run()
    lab.now_ns += 91 * SECOND
    lab.run()
    assert _shown(lab) == {"none": ("invalid", "0")}
    lab.send(*samples(train()))
    lab.run()


def test_samples_that_come_after_the_deadline_take_the_result_without_a_meter_away(store_lab: StoreLab) -> None:
    _late_result(store_lab)
    assert _shown(store_lab) == {"none": ("superseded", "0"), "m1": ("good", "1")}


def test_a_store_that_is_filled_again_does_not_show_the_result_without_a_meter(store_lab: StoreLab) -> None:
    _late_result(store_lab)
    before = len(store_lab.lines("energy"))
    with store_lab.journal.outbox.transaction():
        store_lab.journal.outbox.set_results_row(0)
    store_lab.kill()
    store_lab.start()
    again = store_lab.lines("energy")[before:]
    assert again and not any('quality="invalid"' in line for line in again)
    assert _shown(store_lab) == {"none": ("superseded", "0"), "m1": ("good", "1")}


def test_a_result_without_a_meter_that_comes_after_one_with_a_meter_is_not_shown(store_lab: StoreLab) -> None:
    good_result(store_lab)
    store_lab.journal.results.store([without_samples(train(), 2, "opjoule 0")])
    assert _shown(store_lab) == {"none": ("superseded", "0"), "m1": ("good", "1")}
    assert [result.quality for result in store_lab.results()] == ["good"]


def test_a_revision_that_cannot_be_computed_takes_the_result_of_its_own_meter_away(
    store_lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks_on_m1(event: OperationEvent, view: MeterView, revision: int, software: str) -> EnergyResult:
        if view.meter == "m1":
            raise OverflowError("too large")
        return of_train(event, view, revision, software)

    everything = samples(train())
    store_lab.send(*everything[:3], *everything[4:], *samples(train(), meter="m2"), train())
    store_lab.run()
    store_lab.now_ns += 91 * SECOND
    store_lab.run()
    assert _shown(store_lab)["m1"] == ("degraded", "1")
    monkeypatch.setattr("aggregator.outcome.of_train", breaks_on_m1)
    store_lab.send(everything[3])
    store_lab.run()
    results = {result.meter: result for result in store_lab.results()}
    assert {meter: result.quality for meter, result in results.items()} == {"m1": "invalid", "m2": "good"}
    assert results["m1"].flags == ("not_computable", "simulated") and results["m1"].simulated
    assert _shown(store_lab) == {"m1": ("invalid", "0"), "m2": ("good", "1")}


def _power_lines(lab: StoreLab) -> list[str]:
    return sorted(lab.lines("power"), key=lambda line: int(line.rsplit(" ", 1)[1]))


def test_each_whole_second_that_the_watermark_has_passed_has_one_power_point(store_lab: StoreLab) -> None:
    data = trace(lambda t: 1.0 + t, 3.99, start_ns=T0 + SECOND // 2)
    store_lab.send(*batches(data, voltage_v=[5.0] * 100))
    store_lab.run()
    store_lab.run()
    lines = _power_lines(store_lab)
    assert [int(line.rsplit(" ", 1)[1]) for line in lines] == [T0 + n * SECOND for n in range(4)]
    assert "samples=50," in lines[0] and "samples=100," in lines[1]
    mean_w = float(lines[1].partition("mean_w=")[2].partition(",")[0])
    assert mean_w == pytest.approx(np.mean(1.0 + 0.5 + np.arange(100) / 100))
    assert all("voltage_v=5 " in line for line in lines)


def test_power_is_the_same_in_whatever_order_batches_come_and_whatever_kills_come_between(
    make_store_lab: Callable[..., StoreLab],
) -> None:
    everything = batches(trace(lambda t: 1.0 + np.sin(t), 9.99))
    straight, shuffled = make_store_lab(), make_store_lab()
    straight.send(*everything)
    straight.run()
    for number in np.random.default_rng(2).permutation(len(everything)):
        shuffled.send(everything[number])
        shuffled.run()
        shuffled.kill()
        shuffled.start()
    last = {line.rsplit(" ", 1)[1]: line for line in shuffled.lines("power")}
    assert sorted(last.values()) == sorted(straight.lines("power"))
    assert len(last) == 9


def test_a_journal_that_has_samples_already_gives_power_of_its_last_hour(store_lab: StoreLab) -> None:
    store_lab.send(*batches(trace(lambda t: 1.0 + 0 * t, 7200.99, period_ns=SECOND), timeline_id="old"))
    store_lab.outbox.put_power = lambda: None  # type: ignore[method-assign]
    store_lab.run()
    store_lab.kill()
    store_lab.start()
    while store_lab.journal.power.pending():
        store_lab.run()
    assert [int(line.rsplit(" ", 1)[1]) for line in store_lab.lines("power")] == [
        T0 + n * SECOND for n in range(3600, 7200)
    ]


def test_a_batch_that_comes_late_changes_the_power_of_its_seconds_and_no_other(store_lab: StoreLab) -> None:
    everything = batches(trace(lambda t: 2.0 + 0 * t, 9.99, start_ns=T0 + SECOND // 2))
    store_lab.send(*everything[:3], *everything[4:])
    store_lab.run()
    store_lab.journal.arrived.skip_missing("lab", "pi4")
    store_lab.run()
    before = len(store_lab.lines("power"))
    store_lab.send(everything[3])
    store_lab.run()
    again = store_lab.lines("power")[before:]
    assert [int(line.rsplit(" ", 1)[1]) for line in again] == [T0 + 3 * SECOND, T0 + 4 * SECOND]
    assert all("samples=100," in line for line in again)


def test_a_meter_that_restarts_within_a_second_has_one_point_for_it(store_lab: StoreLab) -> None:
    first = batches(trace(lambda t: 1.0 + 0 * t, 2.39))
    second = batches(trace(lambda t: 3.0 + 0 * t, 2.0, start_ns=T0 + 12 * SECOND // 5), timeline_id="after")
    store_lab.send(*first, *second)
    store_lab.run()
    (shared,) = [line for line in store_lab.lines("power") if line.endswith(str(T0 + 2 * SECOND))]
    assert "min_w=1," in shared and "max_w=3," in shared and "samples=100," in shared


def test_a_watermark_far_ahead_of_the_samples_costs_nothing(store_lab: StoreLab) -> None:
    last = batches(trace(lambda t: 1.0 + t, 2.99))
    store_lab.send(*last[:-1], last[-1].model_copy(update={"until_ns": T0 + 60 * SECOND}))
    for _ in range(4):
        store_lab.run()
    assert len(store_lab.lines("power")) == 3
    assert [each.until_ns for each in store_lab.journal.power.pending()] == []


def test_a_meter_of_few_samples_has_a_point_for_each(store_lab: StoreLab) -> None:
    slow = batches(trace(lambda t: 1.0 + t, 999.0, period_ns=100 * SECOND), size=4)
    store_lab.send(*slow)
    for _ in range(20):
        store_lab.run()
    assert [int(line.rsplit(" ", 1)[1]) for line in store_lab.lines("power")] == [
        T0 + n * 100 * SECOND for n in range(9)
    ]


def test_the_oldest_power_and_health_go_first_when_the_outbox_is_full_and_energy_never(
    store_lab: StoreLab,
) -> None:
    outbox = store_lab.journal.outbox
    with outbox.transaction():
        outbox.put("energy", ["e" * 50] * 10, 0)
        for number in range(3000):
            outbox.put("power" if number % 3 else "health", [f"{number:050}"], 0)
    assert outbox.trim(50 * 100) == 2900
    assert store_lab.lines("energy") == ["e" * 50] * 10
    assert [int(line) for line in store_lab.lines() if line != "e" * 50] == list(range(2900, 3000))
    totals = outbox.totals()
    assert (totals.lines, totals.bytes, totals.droppable_bytes, totals.dropped) == (110, 110 * 50, 5000, 2900)
    assert store_lab.outbox.figures()["outbox_dropped"] == 2900.0


def test_services_are_heard_for_the_store_and_our_own_echo_is_not(store_lab: StoreLab) -> None:
    mine = STATUS.model_copy(update={"service": "aggregator", "instance": "main"})
    store_lab.client.set_status("lab", STATUS)
    store_lab.client.set_status("lab", mine)
    store_lab.run()
    (heard,) = store_lab.lines("health")
    assert heard.startswith("fleet_health,instance=m1,service=meter,site=lab ") and "samples_per_s=100," in heard
    assert store_lab.rejects() == []


def test_a_status_that_claims_another_service_is_refused(store_lab: StoreLab) -> None:
    forged = STATUS.model_copy(update={"instance": "m2"}).model_dump_json()
    store_lab.client.set_status("lab", STATUS)
    genuine = store_lab.broker.published[-1]
    store_lab.broker.route(genuine.__class__(genuine.topic, forged.encode(), genuine.qos, genuine.retain))
    store_lab.run()
    assert len(store_lab.lines("health")) == 1
    assert "claims meter/m2" in store_lab.rejects()[0].reason


def test_a_clock_of_1970_is_said_once_with_who_must_act(store_lab: StoreLab, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        store_lab.send(*batches(trace(lambda t: 1.0 + t, 4.99, start_ns=100 * SECOND)))
        store_lab.run()
    said = [record.getMessage() for record in caplog.records]
    assert len(store_lab.lines("power")) == 4
    assert [line for line in said if "lab/pi4" in line and "set the clock of its host" in line] == said
    assert store_lab.outbox.figures()["before_2020"] == 4.0


def test_the_age_of_the_oldest_line_is_the_lag(store_lab: StoreLab) -> None:
    assert store_lab.outbox.figures()["lag_s"] == 0.0
    store_lab.outbox.health("lab", STATUS)
    store_lab.outbox.put_health()
    store_lab.now_ns += 90 * SECOND
    figures = store_lab.outbox.figures()
    assert (figures["lag_s"], figures["outbox_depth"]) == (90.0, 1.0)


def test_the_reader_takes_no_more_than_it_is_told(store_lab: StoreLab) -> None:
    with store_lab.journal.outbox.transaction():
        store_lab.journal.outbox.put("power", ["x" * 99] * 50, 0)
    reader = OutboxReader(store_lab.settings.journal_path)
    assert [len(reader.take(lines, most)) for lines, most in ((10, 10**6), (50, 1000), (50, 1))] == [10, 10, 1]
    reader.close()


def test_waiting_grows_with_every_attempt_up_to_a_limit() -> None:
    pace = Pace(backoff_min_s=0.5, backoff_max_s=30)
    assert [pace.backoff_s(attempt, 1.0) for attempt in (1, 2, 3, 20, 10_000)] == [0.5, 1.0, 2.0, 30.0, 30.0]
    assert pace.backoff_s(3, 0.0) == 1.0


def test_a_service_status_that_is_not_one_is_refused(store_lab: StoreLab) -> None:
    assert ServiceStatus.model_validate_json(STATUS.model_dump_json()) == STATUS
    store_lab.client.set_status("lab", STATUS)
    genuine = store_lab.broker.published[-1]
    store_lab.broker.route(genuine.__class__(genuine.topic, b"{}", genuine.qos, genuine.retain))
    store_lab.run()
    assert len(store_lab.rejects()) == 1 and len(store_lab.lines("health")) == 1
