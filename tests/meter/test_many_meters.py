"""Several meters at once, each in its thread: one in trouble keeps nobody waiting, and the status names it."""

import errno
import math
import threading
import time
from collections.abc import Iterator
from itertools import chain, count, pairwise

import pytest

from errors import FrameError, SettingsError
from meter.live import LiveMeter
from meter.readings import Counts, MeterHealth, Reading
from meter.sources.plan import Planned
from tests.meter.rig import CLOCK, PERIOD_NS, Rig, ScriptedMeter, wait_until

STUCK = "no valid sample for 2 s: it is stuck, or what it says is refused"


def steady(reads: int) -> Iterator[list[Reading]]:
    """So many reads of four samples, all of them in the time before the first read."""
    begin_ns = CLOCK.now_ns() - 4 * reads * PERIOD_NS
    for read in range(reads):
        yield [Reading(begin_ns + (4 * read + k) * PERIOD_NS, 2.0) for k in range(4)]


def test_stopping_sends_the_unfinished_batch_of_a_meter_and_closes_it() -> None:
    rig = Rig(["pi4"])
    now_ns = CLOCK.now_ns()
    meter = ScriptedMeter([[Reading(now_ns, 2.0)], [Reading(now_ns + PERIOD_NS, 2.5)]])
    with rig.serving(meter.planned):
        wait_until(lambda: any(status.duts == ("pi4",) for status in rig.statuses()))
    (batch,) = rig.journal.of("pi4")
    assert batch.power_w == (2.0, 2.5)
    assert batch.host_clock == CLOCK.host_clock
    assert meter.closed == 1


def test_a_meter_that_is_stuck_slows_no_other_and_is_left_behind_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meter.group.STOP_S", 0.3)
    release = threading.Event()
    stuck = ScriptedMeter([release], dut="pi1", meter="stuck")
    good = ScriptedMeter(steady(25), meter="good")
    rig = Rig(["pi1", "pi4"])
    with rig.serving(stuck.planned, good.planned):
        wait_until(lambda: sum(len(batch.power_w) for batch in rig.journal.of("pi4")) == 100)
    release.set()
    assert [record.getMessage() for record in caplog.records] == [
        "meter stuck of pi1 did not let go in time; it is left behind"
    ]


def test_the_status_says_of_a_stuck_meter_that_it_is_not_connected() -> None:
    release = threading.Event()
    rig = Rig(["pi4"])
    stuck = ScriptedMeter(chain(steady(25), [release]), meter="stuck")
    with rig.serving(stuck.planned):
        wait_until(lambda: any(status.duts == ("pi4",) for status in rig.statuses()))
        wait_until(lambda: rig.statuses()[-1].detail == "no data; stuck of pi4: " + STUCK)
        assert not rig.statuses()[-1].meters[0].connected
        release.set()


def test_a_missing_meter_is_waited_for_with_one_line_and_read_when_it_comes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meter.live._RETRY_S", 0.01)
    meter = ScriptedMeter(steady(25))
    plugged_in = threading.Event()

    def open_late() -> ScriptedMeter:
        if not plugged_in.is_set():
            raise OSError(errno.ENODEV, "no FNIRSI meter is plugged in")
        return meter

    rig = Rig(["pi4"])
    with rig.serving(Planned("pi4", open_late, "m1", "FNB58")):
        missing = "no data; m1 of pi4: no FNIRSI meter is plugged in"
        wait_until(lambda: rig.statuses()[-1].detail == missing)
        assert not rig.statuses()[-1].meters[0].connected
        plugged_in.set()
        wait_until(lambda: bool(rig.journal.of("pi4")))
        wait_until(lambda: any(status.meters and not status.detail for status in rig.statuses()))
    assert caplog.text.count("no FNIRSI meter is plugged in; waiting for it") == 1


@pytest.mark.parametrize("error", [SettingsError("two meters fit: say which"), FrameError("a modem answers")])
def test_what_the_operator_must_do_is_in_the_status_and_the_service_goes_on(error: Exception) -> None:
    def fail() -> ScriptedMeter:
        raise error

    good = ScriptedMeter(steady(25), meter="good")
    rig = Rig(["pi1", "pi4"])
    with rig.serving(Planned("pi1", fail, "bad"), good.planned):
        wait_until(lambda: any(status.duts == ("pi4",) for status in rig.statuses()))
        wait_until(lambda: f"bad of pi1: {error}" in rig.statuses()[-1].detail)
    state = next(each for each in rig.statuses()[-1].meters if each.meter == "bad")
    assert (state.dut, state.connected, state.detail) == ("pi1", False, str(error))


def test_a_meter_that_cannot_find_itself_again_is_opened_again_and_its_counts_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("meter.live._RETRY_S", 0.01)
    reads = list(steady(50))
    first = ScriptedMeter([*reads[:25], FrameError("rubbish"), OSError(errno.EIO, "unplugged")])
    first.counts = Counts({"bad_crc": 1}, lost_samples=4, gaps=1)
    second = ScriptedMeter(reads[25:])
    second.counts = Counts({"bad_crc": 2}, lost_samples=8, gaps=1)
    sources = iter([first, second])
    rig = Rig(["pi4"])
    with rig.serving(Planned("pi4", lambda: next(sources), "m1", "FNB58")):
        wait_until(lambda: sum(len(batch.power_w) for batch in rig.journal.of("pi4")) == 200)
    last = rig.journal.of("pi4")[-1]
    assert (last.lost_samples, last.gaps, last.rejected_frames) == (12, 2, 4)
    assert first.closed == second.closed == 1


def test_the_status_says_how_each_meter_is() -> None:
    meter = ScriptedMeter(chain(steady(25), [[Reading(CLOCK.now_ns(), math.nan)]]))
    meter.counts = Counts({"bad_crc": 3}, lost_samples=40, gaps=2, counter_resets=1)
    meter.health = MeterHealth(
        node="/dev/hidraw3",
        model="FNB58",
        serial="0001A",
        firmware="1.11",
        temperature_c=27.3,
        rate_hz=99.9,
        new_values_hz=25.0,
        reopened=1,
    )
    rig = Rig(["pi4"])
    with rig.serving(meter.planned):
        wait_until(lambda: any(status.meters and status.meters[0].connected for status in rig.statuses()))
        wait_until(lambda: bool(rig.journal.of("pi4")))
    rig.service.say_goodbye()
    *told, offline = rig.statuses()
    state = next(status.meters[0] for status in told if status.meters and status.meters[0].connected)
    assert (state.meter, state.dut, state.model, state.serial, state.firmware) == (
        "m1",
        "pi4",
        "FNB58",
        "0001A",
        "1.11",
    )
    assert (state.samples_per_s, state.new_values_per_s, state.temperature_c) == (99.9, 25.0, 27.3)
    assert (state.lost_samples, state.gaps, state.counter_resets, state.reopened) == (40, 2, 1, 1)
    assert (offline.state, offline.duts, offline.meters) == ("offline", (), ())
    assert offline.health["rejected_frames"] == 4  # three frames, and the reading that is no number
    assert (offline.health["lost_samples"], offline.health["gaps"]) == (40, 2)
    assert rig.journal.of("pi4")[0].new_values_per_s == 25.0


def test_a_dut_is_not_online_for_samples_that_are_old() -> None:
    old = [[Reading(CLOCK.now_ns() - 3_000_000_000, 2.0)]]
    rig = Rig(["pi4"], batch_samples=1)
    with rig.serving(ScriptedMeter(old).planned):
        wait_until(lambda: bool(rig.journal.of("pi4")))
    assert {status.duts for status in rig.statuses()} == {()}


def test_two_meters_at_one_dut_are_two_streams() -> None:
    rig = Rig(["pi4"])
    with rig.serving(ScriptedMeter(steady(25), meter="a").planned, ScriptedMeter(steady(25), meter="b").planned):
        wait_until(lambda: len({batch.meter for batch in rig.journal.of("pi4")}) == 2)
    assert {batch.seq for batch in rig.journal.of("pi4")} == {0}


def test_a_wall_clock_that_steps_back_moves_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = time.time_ns()
    steps = count()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns - next(steps) * 3600 * 10**9)
    rig = Rig(["pi4"], batch_samples=4)
    with rig.serving(ScriptedMeter(steady(25)).planned):
        wait_until(lambda: len(rig.journal.of("pi4")) == 25)
    batches = rig.journal.of("pi4")
    assert all(before.until_ns <= after.start_ns for before, after in pairwise(batches))
    assert batches[-1].until_ns - batches[0].start_ns == 99 * PERIOD_NS + 1


def test_a_fault_of_ours_in_a_reader_ends_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    rig = Rig(["pi4"])
    meter = ScriptedMeter([ZeroDivisionError("a bug")])
    with pytest.raises(RuntimeError, match="the reader of meter m1 at pi4 has failed"), rig.serving(meter.planned):
        wait_until(lambda: meter.closed == 1)
        wait_until(lambda: not rig.is_serving)


def test_while_the_main_loop_is_stuck_the_meter_is_left_unread_and_nothing_grows() -> None:
    meter = LiveMeter(ScriptedMeter(steady(25)).planned, queue_limit=3)
    meter.start()
    wait_until(lambda: meter.waiting == 3)
    first = meter.take()
    assert [each.readings[0].t_ns for each in first] == sorted(each.readings[0].t_ns for each in first)
    wait_until(lambda: meter.waiting == 3)
    meter.stop()
    assert meter.join(5.0)
