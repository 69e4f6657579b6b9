"""The sink on a real InfluxQL engine: one point per result whatever its revisions, and every trouble one clear line."""

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from aggregator.sinks.influx import InfluxStore
from aggregator.sinks.sender import Answer, Sender
from errors import SettingsError
from tests.aggregator.sinks.conftest import QUICK, StoreLab, given, wait_until
from tests.aggregator.sinks.test_points import STATUS
from tests.aggregator.sinks.trains import good_result, samples, train
from tests.aggregator.trains import SECOND, T0, batches, trace
from tests.influxd import Fault, Influxd, Shim

pytestmark = pytest.mark.influxd

Drain = Callable[..., Sender]
PANEL = "SELECT net_j_per_op, quality, revision FROM operation_energy WHERE valid = 1"
"""What every panel asks."""
ALL = "SELECT count(valid) AS points FROM operation_energy"
GOOD_LINE = "m,a=b f=1 1"


def _letters(lab: StoreLab) -> list[str]:
    with closing(sqlite3.connect(lab.settings.journal_path)) as file:
        return [reason for (reason,) in file.execute("SELECT reason FROM dead_letters ORDER BY letter")]


def test_a_result_that_is_revised_is_one_point_with_the_right_answer_each_time(
    store_lab: StoreLab, influxd: Influxd, drain: Drain
) -> None:
    everything = samples(train())
    store_lab.send(*everything[:3], *everything[5:], train())
    store_lab.run()
    store_lab.now_ns += 91 * SECOND
    store_lab.run()
    drain(store_lab)
    (degraded,) = influxd.rows(PANEL)
    assert (degraded["quality"], degraded["revision"]) == ("degraded", 1)

    store_lab.send(*everything[3:5])
    store_lab.run()
    drain(store_lab)
    (good,) = influxd.rows(PANEL)
    (result,) = store_lab.results()
    assert result.net_j_per_op is not None
    assert (good["quality"], good["revision"], good["net_j_per_op"]) == ("good", 2, result.net_j_per_op.value)
    assert good["time"] == result.start_ns and good["net_j_per_op"] != degraded["net_j_per_op"]

    gone = dict.fromkeys(("net_j_per_op", "crypto_j_per_op", "net_power_w", "net_j", "transient_j", "gross_j"))
    store_lab.journal.results.store([result.model_copy(update={"quality": "invalid", "revision": 3, **gone})])
    drain(store_lab)
    assert influxd.rows(PANEL) == []
    assert influxd.rows(ALL)[0]["points"] == 1
    assert influxd.rows("SELECT quality, valid FROM operation_energy")[0]["quality"] == "invalid"


def test_a_result_that_moved_in_time_counts_once(store_lab: StoreLab, influxd: Influxd, drain: Drain) -> None:
    good = good_result(store_lab)
    drain(store_lab)
    store_lab.journal.results.store([good.model_copy(update={"revision": 2, "start_ns": good.start_ns + 1000})])
    drain(store_lab)
    assert [row["time"] for row in influxd.rows(PANEL)] == [good.start_ns + 1000]


def test_two_meters_on_one_board_are_two_points(store_lab: StoreLab, influxd: Influxd, drain: Drain) -> None:
    store_lab.send(*samples(train()), *samples(train(), meter="m2"), train())
    store_lab.run()
    drain(store_lab)
    rows = influxd.rows("SELECT count(net_j_per_op) AS points FROM operation_energy WHERE valid = 1 GROUP BY meter")
    assert [(row["meter"], row["points"]) for row in rows] == [("m1", 1), ("m2", 1)]


def test_texts_and_numbers_come_back_as_they_were(store_lab: StoreLab, influxd: Influxd, drain: Drain) -> None:
    odd = train(run_id='a "run", with = and \\ in it')
    store_lab.send(*samples(odd), odd)
    store_lab.run()
    store_lab.outbox.health("lab", STATUS)
    store_lab.outbox.put_health()
    drain(store_lab)
    (result,) = store_lab.results()
    (row,) = influxd.rows("SELECT * FROM operation_energy")
    assert (row["run_id"], row["flags"], row["event_id"]) == (odd.run_id, "simulated", str(odd.event_id))
    assert (row["parameter_set"], row["baseline_w"], row["load_s"]) == (
        "ML-KEM-768",
        result.baseline_w,
        result.load_s,
    )
    kinds = influxd.rows("SHOW FIELD KEYS FROM operation_energy")
    assert {row["fieldType"] for row in kinds} == {"float", "string"}
    assert influxd.rows("SELECT samples_per_s FROM fleet_health")[0]["samples_per_s"] == 100
    power = influxd.rows("SELECT mean_w, min_w, max_w, samples FROM power")
    assert [row["time"] for row in power] == [T0 + n * SECOND for n in range(12)]
    assert all(row["min_w"] < row["mean_w"] < row["max_w"] and row["samples"] == 100 for row in power)


def test_a_type_conflict_that_an_older_writer_left_stops_nothing_else(
    store_lab: StoreLab, influxd: Influxd, drain: Drain
) -> None:
    influxd.write(f'operation_energy,dut=pi4 net_j_per_op="text" {T0}')
    good_result(store_lab)
    drain(store_lab)
    (reason,) = _letters(store_lab)
    assert "field type conflict" in reason and "net_j_per_op" in reason
    assert len(influxd.rows("SELECT mean_w FROM power")) == 12
    assert store_lab.outbox.figures()["dead_letters"] == 1.0


def test_what_is_older_than_the_retention_is_kept_with_the_reason(
    store_lab: StoreLab, influxd: Influxd, drain: Drain
) -> None:
    influxd.query('DROP DATABASE "opjoule"', "")
    influxd.create(retention="1h")
    now_ns = time.time_ns()
    old, new = now_ns - 7200 * SECOND, now_ns - 60 * SECOND
    store_lab.send(*batches(trace(lambda t: 1.0 + t, 4.99, start_ns=old)))
    store_lab.send(*batches(trace(lambda t: 1.0 + t, 4.99, start_ns=new), timeline_id="new"))
    store_lab.run()
    drain(store_lab)
    assert len(influxd.rows("SELECT mean_w FROM power")) >= 4
    assert _letters(store_lab) and all("beyond retention policy" in reason for reason in _letters(store_lab))


def test_a_clock_of_1970_goes_to_the_store_as_it_was_stamped(
    store_lab: StoreLab, influxd: Influxd, drain: Drain
) -> None:
    store_lab.send(*batches(trace(lambda t: 1.0 + t, 4.99, start_ns=100 * SECOND)))
    store_lab.run()
    drain(store_lab)
    assert [row["time"] for row in influxd.rows("SELECT mean_w FROM power")] == [n * SECOND for n in range(100, 104)]


def test_a_store_that_was_away_has_everything_once_when_it_is_back(
    store_lab: StoreLab, influxd: Influxd, shim: Shim
) -> None:
    shim.down()
    sender = Sender(store_lab.settings.journal_path, lambda: InfluxStore(given(shim)), QUICK)
    sender.start()
    trains = [train(number) for number in range(1, 5)]
    store_lab.send(*samples(*trains), *trains)
    store_lab.run()
    wait_until(lambda: "does not answer" in sender.trouble)
    waiting = store_lab.journal.outbox.totals().lines
    means = len(trains) - 1
    assert waiting == len(trains) + means + 48
    shim.up()
    wait_until(lambda: store_lab.journal.outbox.totals().lines == 0, lambda: sender.trouble)
    assert sender.stop()
    ids = [row["event_id"] for row in influxd.rows("SELECT event_id FROM operation_energy WHERE valid = 1")]
    assert sorted(ids) == sorted(str(each.event_id) for each in trains)
    assert len(influxd.rows("SELECT mean_w FROM power")) == 48


def test_writes_are_gzipped_with_token_bucket_and_nanoseconds(
    store_lab: StoreLab, shim: Shim, drain: Drain, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    store_lab.outbox.health("lab", STATUS)
    store_lab.outbox.put_health()
    drain(store_lab, influx_token_file=token)
    (write,) = shim.writes
    assert write.headers["Authorization"] == "Token secret"
    assert write.headers["Content-Encoding"] == "gzip"
    assert write.parameters == {"org": "opjoule", "bucket": "opjoule", "precision": "ns"}


# --- what a server may answer ------------------------------------------------------------------------------------


def _said(shim: Shim, fault: Fault, **settings: object) -> Answer:
    shim.fault = fault
    store = InfluxStore(given(shim, **settings))
    try:
        return store.write([GOOD_LINE])
    finally:
        store.close()


@pytest.mark.parametrize(
    ("status", "who_and_what"),
    [
        (401, "the operator must give a valid token (--influx-token-file)"),
        (403, "the operator must give a token that may write to bucket opjoule"),
        (404, "the operator must make bucket opjoule in organisation opjoule"),
        (302, "the operator must correct --influx-url"),
        (405, "the operator must correct --influx-url"),
    ],
)
def test_what_only_the_operator_can_mend_says_so(shim: Shim, status: int, who_and_what: str) -> None:
    answer = _said(shim, Fault(status))
    assert answer.kind == "operator"
    assert f"answers {status}: a fault of the test; {who_and_what}" in answer.text and "\n" not in answer.text


@pytest.mark.parametrize(("status", "body"), [(200, "{}"), (200, "<html>\nWelcome</html>"), (201, ""), (202, "")])
def test_only_the_answer_of_a_store_that_has_the_lines_counts_as_stored(shim: Shim, status: int, body: str) -> None:
    answer = _said(shim, Fault(status, body=body))
    assert answer.kind == "operator"
    assert f"answers {status} to a write" in answer.text and "the operator must correct --influx-url" in answer.text


def test_the_outbox_stays_full_where_another_server_answers(store_lab: StoreLab, shim: Shim) -> None:
    good_result(store_lab)
    waiting = store_lab.journal.outbox.totals().lines
    shim.fault = Fault(200, body="{}")
    sender = Sender(store_lab.settings.journal_path, lambda: InfluxStore(given(shim)), QUICK)
    sender.start()
    wait_until(lambda: len(shim.writes) > 2)
    assert sender.stop()
    assert store_lab.journal.outbox.totals().lines == waiting and sender.sent == 0


def test_a_retention_policy_that_is_not_there_is_the_operators_to_mend(shim: Shim) -> None:
    answer = _said(shim, Fault(), influx_bucket="opjoule/none")
    assert answer.kind == "operator" and "\n" not in answer.text
    assert "make retention policy none in database opjoule, or correct --influx-bucket" in answer.text


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_passes_is_tried_again_later(shim: Shim, status: int) -> None:
    answer = _said(shim, Fault(status, body="<html>\nBad gateway</html>"))
    assert (answer.kind, answer.retry_after_s) == ("later", None)
    assert f"answers {status}: <html> Bad gateway</html>" in answer.text


def test_a_store_may_say_how_long_to_wait_in_seconds_or_as_a_date(shim: Shim) -> None:
    assert _said(shim, Fault(429, {"Retry-After": "7"})).retry_after_s == 7.0
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < (_said(shim, Fault(503, {"Retry-After": at})).retry_after_s or 0) <= 60
    assert _said(shim, Fault(503, {"Retry-After": "soon"})).retry_after_s is None
    assert _said(shim, Fault(503, {"Retry-After": "1e99"})).retry_after_s == 3600.0


def test_a_bad_request_is_about_lines_only_where_an_influxdb_says_so(shim: Shim) -> None:
    assert _said(shim, Fault(400)) == Answer("refused", "400: a fault of the test")
    assert _said(shim, Fault(422)).kind == "refused"
    assert _said(shim, Fault(413, body="<html>too large</html>")).kind == "refused"
    plain = _said(shim, Fault(400, body="<html>The plain HTTP request was sent to HTTPS port</html>"))
    assert plain.kind == "operator" and "correct --influx-url" in plain.text


def test_a_server_that_is_slow_or_not_there_is_tried_again_later(shim: Shim) -> None:
    slow = _said(shim, Fault(delay_s=0.5), influx_timeout_s=0.1)
    assert slow.kind == "later" and "does not answer" in slow.text
    shim.down()
    gone = _said(shim, Fault())
    assert gone.kind == "later" and "does not answer" in gone.text and "\n" not in gone.text


def test_a_bucket_that_is_missing_in_the_engine_is_said(shim: Shim) -> None:
    answer = _said(shim, Fault(), influx_bucket="nothing")
    assert answer.kind == "operator" and "database not found" in answer.text and "make bucket nothing" in answer.text


def test_one_bad_line_in_a_batch_is_found_and_the_others_are_stored(
    store_lab: StoreLab, influxd: Influxd, shim: Shim, drain: Drain, caplog: pytest.LogCaptureFixture
) -> None:
    trains = [train(number) for number in range(1, 6)]
    store_lab.send(*samples(*trains), *trains)
    store_lab.run()
    shim.fault = Fault(400, contains=str(trains[2].event_id))
    with caplog.at_level(logging.WARNING):
        drain(store_lab)
    assert _letters(store_lab) == ["400: a fault of the test"]
    assert len(influxd.rows(PANEL)) == 4 and len(influxd.rows("SELECT mean_w FROM power")) == 60
    assert "refuses 1 lines for good" in caplog.text


def test_a_server_that_fails_a_few_times_gets_everything_once(
    store_lab: StoreLab, influxd: Influxd, shim: Shim
) -> None:
    good_result(store_lab)
    shim.fault = Fault(503, {"Retry-After": "0"})
    sender = Sender(store_lab.settings.journal_path, lambda: InfluxStore(given(shim)), replace(QUICK, lines=3))
    sender.start()
    wait_until(lambda: len(shim.writes) > 3)
    assert store_lab.journal.outbox.totals().lines == 13 and "answers 503" in sender.trouble
    shim.fault = Fault()
    wait_until(lambda: store_lab.journal.outbox.totals().lines == 0)
    assert sender.stop()
    assert influxd.rows(ALL)[0]["points"] == 1 and sender.sent == 13


@pytest.mark.parametrize("content", ["", "\n", None])
def test_a_token_file_without_a_token_is_the_operators_to_mend(shim: Shim, tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsError, match="InfluxDB token file"):
        InfluxStore(given(shim, influx_token_file=file))
