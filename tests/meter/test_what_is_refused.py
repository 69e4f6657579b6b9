"""What a meter says and nobody gets: the status, the log and the next batch tell it."""

import threading
from collections.abc import Sequence

import pytest

from meter.batching import BatchLimits
from meter.feed import Feed
from meter.readings import Counts, MeterHealth, Reading, Said
from schemas import MeterState
from tests.meter.rig import CLOCK, PERIOD_NS, Rig, ScriptedMeter, wait_until

REFUSED = "what it says is refused as implausible: 5.1 V, 8.2 A, 41.82 W"


def readings(count: int, power_w: float = 2.0, *parts: float) -> list[list[Reading]]:
    """One in each read, all of them in the time before now."""
    begin_ns = CLOCK.now_ns() - count * PERIOD_NS
    return [[Reading(begin_ns + k * PERIOD_NS, power_w, *parts)] for k in range(count)]


def test_of_a_meter_whose_readings_are_all_refused_the_status_says_so(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(["pi4"])
    with rig.serving(ScriptedMeter(readings(50, 41.82, 5.1, 8.2)).planned):
        wait_until(lambda: rig.statuses()[-1].detail == f"no data; m1 of pi4: {REFUSED}")
        assert not rig.statuses()[-1].meters[0].connected
    rig.service.say_goodbye()
    assert rig.statuses()[-1].health["rejected_frames"] == 50
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("meter m1 at pi4: ")
    assert line.endswith(" implausible readings refused so far, the last: 5.1 V, 8.2 A, 41.82 W")


def test_the_log_tells_of_refused_readings_again_with_the_number_so_far(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meter.group.WARN_EVERY_S", 0.0)
    first, second = threading.Event(), threading.Event()
    meter = ScriptedMeter([*readings(3, 251.0), first, *readings(2, 251.0), second])
    rig = Rig(["pi4"])
    with rig.serving(meter.planned):
        wait_until(lambda: "3 implausible readings refused so far" in caplog.text)
        first.set()
        wait_until(lambda: "5 implausible readings refused so far" in caplog.text)
        second.set()


def test_refused_readings_are_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()
    rig = Rig(["pi4"], batch_samples=1)
    with rig.serving(ScriptedMeter([*readings(3, 251.0), told, *readings(2, 251.0), *readings(1)]).planned):
        wait_until(lambda: "implausible readings refused so far" in caplog.text)
        told.set()
        wait_until(lambda: [batch.rejected_frames for batch in rig.journal.of("pi4")] == [5])
    assert caplog.text.count("refused so far") == 1


def state(power_w: Sequence[float], health: MeterHealth, late_ns: int) -> MeterState:
    """Of a meter that said this, so much later."""
    meter = ScriptedMeter([])
    feed = Feed(BatchLimits(100, None))
    times = range(0, len(power_w) * PERIOD_NS, PERIOD_NS)
    said = tuple(Reading(t_ns, each) for t_ns, each in zip(times, power_w, strict=True))
    feed.add([Said(meter.stream, said, Counts(), health)] if said else [], 0)
    return feed.state(meter.planned, Counts(), health, 0, late_ns)


def test_a_meter_is_in_no_trouble_for_a_reading_that_was_refused_before_a_valid_one() -> None:
    assert state([251.0, 2.0], MeterHealth(), PERIOD_NS).detail == ""
    assert "stuck" in state([251.0, 2.0], MeterHealth(), 3 * 10**9).detail
    assert state([2.0, 251.0], MeterHealth(), 3 * 10**9).detail == "what it says is refused as implausible: 251 W"


def test_a_meter_that_was_just_opened_is_in_no_trouble() -> None:
    assert state([], MeterHealth(), 10**9).detail == ""


def test_a_meter_says_itself_why_it_is_away() -> None:
    away = MeterHealth(connected=False, detail="no meter is plugged in")
    assert state([251.0], away, 3 * 10**9).detail == "no meter is plugged in"


def test_what_was_refused_is_counted_by_its_reason() -> None:
    meter = ScriptedMeter([])
    feed = Feed(BatchLimits(100, None))
    said = (Reading(100, 2.0), Reading(50, 2.0), Reading(200, 251.0))
    feed.add([Said(meter.stream, said, Counts({"bad_crc": 4}), MeterHealth())], 0)
    told = feed.state(meter.planned, Counts({"bad_crc": 4}), MeterHealth(), 0, 200)
    assert told.rejected == {"bad_crc": 4, "implausible_reading": 1, "reading_out_of_order": 1}


def test_samples_that_a_full_spool_dropped_are_lost_samples_of_the_next_batch_and_in_the_status() -> None:
    rig = Rig(["pi4"], spool_bytes=4_000, batch_samples=1)
    rig.bus.drop()
    back = threading.Event()
    meter = ScriptedMeter([*readings(100), back, *readings(1)])
    with rig.serving(meter.planned):
        wait_until(lambda: rig.spool.pending + rig.spool.lost_batches == 100)
        lost = rig.spool.lost_samples
        rig.bus.connect(0.0)
        wait_until(lambda: len(rig.journal.of("pi4")) == 100 - lost)
        back.set()
        wait_until(lambda: len(rig.journal.of("pi4")) == 101 - lost)
        wait_until(lambda: any(each.meters and each.meters[0].lost_samples == lost for each in rig.statuses()))
    assert 0 < lost < 100
    assert rig.journal.of("pi4")[-1].lost_samples == lost


def test_what_a_meter_said_before_it_fell_silent_does_not_wait_for_more() -> None:
    rig = Rig(["pi4"], batch_samples=1000, batch_s=0.2)
    with rig.serving(ScriptedMeter([[Reading(CLOCK.now_ns(), 2.0)]]).planned):
        wait_until(lambda: [batch.power_w for batch in rig.journal.of("pi4")] == [(2.0,)])
