"""Readings become batches: nothing lost, nothing double, the odd refused and counted."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meter.batching import Batcher, BatchLimits, Position
from meter.ranges import SENSOR
from meter.readings import Counts, Reading, Stream
from schemas import SampleBatch

PERIOD_NS = 10_000_000
START_NS = 1_775_827_500_000_000_000
LIVE = Stream("lab", "pi4", "m1", "FNB58", "measured", "t1", None, PERIOD_NS)
RECORDED = replace(LIVE, meter_kind="recorded")
TEN = BatchLimits(samples=10, span_ns=None)

plausible = st.builds(
    Reading,
    t_ns=st.integers(0, 10**12),
    power_w=st.floats(-0.1, 250.0),
    voltage_v=st.none() | st.floats(0, 30),
    current_a=st.none() | st.floats(0, 7),
)
anything = st.builds(
    Reading,
    t_ns=st.integers(-(2**70), 2**70),
    power_w=st.floats(),
    voltage_v=st.none() | st.floats(),
    current_a=st.none() | st.floats(),
    energy_counter_j=st.none() | st.floats(),
)


def grid(count: int, first: int = 0) -> list[Reading]:
    return [Reading(START_NS + (first + k) * PERIOD_NS, 1.0 + k) for k in range(count)]


def times_ns(batches: list[SampleBatch]) -> list[int]:
    return [batch.start_ns + 1000 * offset for batch in batches for offset in batch.offset_us]


@given(st.lists(plausible, max_size=60), st.integers(1, 7), st.none() | st.integers(1, 10**11), st.data())
def test_no_reading_is_lost_doubled_or_out_of_order(
    readings: list[Reading], samples: int, span_ns: int | None, data: st.DataObject
) -> None:
    batcher = Batcher(RECORDED, BatchLimits(samples, span_ns))
    batches: list[SampleBatch] = []
    rest = readings
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        batches += batcher.add(rest[:size])
        rest = rest[size:]
    batches += batcher.flush()
    powers = [power for batch in batches for power in batch.power_w]
    assert len(powers) + batcher.position.rejected_frames == len(readings)
    assert len(powers) == batcher.position.samples
    assert [batch.seq for batch in batches] == list(range(len(batches)))
    remaining = iter(readings)
    assert all(any(reading.power_w == power for reading in remaining) for power in powers)
    assert all(a < b for a, b in pairwise(times_ns(batches)))
    assert all(earlier.until_ns <= later.start_ns for earlier, later in pairwise(batches))


@given(st.lists(anything, max_size=40))
def test_whatever_a_meter_says_every_batch_keeps_the_contract(readings: list[Reading]) -> None:
    batcher = Batcher(LIVE, BatchLimits(5, 10**9))
    batches = [*batcher.add(readings), *batcher.flush()]
    kept = sum(len(batch.power_w) for batch in batches)
    assert kept + batcher.position.rejected_frames == len(readings)


@pytest.mark.parametrize(
    "reading",
    [
        Reading(START_NS, math.nan),
        Reading(START_NS, math.inf),
        Reading(START_NS, -0.2),
        Reading(START_NS, 251.0),
        Reading(START_NS, 1.0, voltage_v=188.74370),
        Reading(START_NS, 1.0, current_a=170.39408),
        Reading(START_NS, 1.0, voltage_v=-0.1),
        Reading(START_NS, 1.0, current_a=math.nan),
        Reading(START_NS, 1.0, energy_counter_j=math.nan),
        Reading(-1, 1.0),
    ],
)
def test_an_implausible_reading_is_refused_and_counted(reading: Reading) -> None:
    batcher = Batcher(LIVE, TEN)
    assert batcher.add([reading]) == []
    (batch,) = [*batcher.add(grid(1, first=1)), *batcher.flush()]
    assert batch.rejected_frames == 1
    assert batch.power_w == (1.0,)


def test_a_reading_that_is_not_later_than_the_one_before_is_refused() -> None:
    batcher = Batcher(LIVE, TEN)
    batcher.add(
        [grid(1)[0], grid(1)[0], replace(grid(1)[0], t_ns=START_NS - 1), replace(grid(1)[0], t_ns=START_NS + 1)]
    )
    (batch,) = batcher.flush()
    assert batch.offset_us == (0,)
    assert batch.rejected_frames == 3


def test_what_is_implausible_and_what_is_out_of_order_are_counted_apart() -> None:
    batcher = Batcher(LIVE, TEN)
    batcher.add([*grid(2), grid(1)[0], replace(grid(1, first=2)[0], power_w=251.0), grid(1)[0]])
    position = batcher.position
    assert (position.implausible, position.out_of_order, position.refused, position.samples) == (1, 2, 3, 2)


@pytest.mark.parametrize(
    "parts", [(36.0 * 0.5, 36.0, 0.5), (5.1 * 8.2, 5.1, 8.2), (-0.0102, 5.1, -0.002), (-60.0, None, None)]
)
def test_the_sensor_of_a_board_measures_what_its_shunt_lets_it(parts: tuple[float, float | None, float | None]) -> None:
    sensor = Batcher(replace(LIVE, meter_model="ina226", ranges=SENSOR), TEN)
    usb_meter = Batcher(LIVE, TEN)
    for batcher in (sensor, usb_meter):
        batcher.add([Reading(START_NS, *parts)])
    assert [(each.power_w, each.rejected_frames) for each in sensor.flush()] == [((parts[0],), 0)]
    assert usb_meter.position.implausible == 1


def test_a_sensor_says_nothing_that_no_message_may_hold() -> None:
    sensor = Batcher(replace(LIVE, ranges=SENSOR), TEN)
    sensor.add([Reading(START_NS + k, power_w) for k, power_w in enumerate((1001.0, -1001.0, math.nan, math.inf))])
    assert sensor.flush() == []
    assert sensor.position.implausible == 4


def test_a_gap_stays_a_gap_and_is_counted_as_the_source_found_it() -> None:
    batcher = Batcher(LIVE, TEN)
    batcher.note(Counts(rejected={"bad_crc": 2}, lost_samples=3, gaps=1), new_values_per_s=25.0, dropped_samples=100)
    batcher.add([*grid(3), *grid(2, first=6)])
    (batch,) = batcher.flush()
    assert batch.offset_us == (0, 10_000, 20_000, 60_000, 70_000)
    assert (batch.lost_samples, batch.gaps, batch.rejected_frames, batch.new_values_per_s) == (103, 1, 2, 25.0)


def test_a_meter_that_is_slower_than_its_nominal_period_loses_nothing() -> None:
    batcher = Batcher(LIVE, TEN)
    batcher.add([Reading(START_NS + k * 2 * PERIOD_NS, 1.0) for k in range(9)])
    (batch,) = batcher.flush()
    assert (batch.lost_samples, batch.gaps) == (0, 0)


def test_the_counts_of_a_second_source_of_a_stream_come_on_top() -> None:
    first = Batcher(RECORDED, TEN)
    first.note(Counts(rejected={"bad_crc": 2}, lost_samples=4, gaps=1))
    first.add([*grid(4), Reading(0, 1.0)])
    first.finish_file()
    second = Batcher(RECORDED, TEN, first.position)
    second.note(Counts(rejected={"bad_crc": 1, "implausible": 1}, lost_samples=40, gaps=2))
    second.add(grid(3, first=5))
    (batch,) = second.finish_file()
    assert (batch.rejected_frames, batch.lost_samples, batch.gaps) == (5, 44, 3)


def test_the_step_of_the_energy_counter_stands_beside_it() -> None:
    batcher = Batcher(replace(LIVE, counter_resolution_j=3.6), BatchLimits(1, None))
    (batch,) = batcher.add([replace(grid(1)[0], energy_counter_j=7.2)])
    assert (batch.energy_counter_j, batch.counter_resolution_j) == (7.2, 3.6)


def test_a_batch_has_the_energy_counter_of_its_last_sample() -> None:
    readings = [replace(reading, energy_counter_j=3.6 * k) for k, reading in enumerate(grid(10))]
    (batch,) = Batcher(LIVE, TEN).add(readings)
    assert batch.energy_counter_j == 3.6 * 9


def test_a_batch_leaves_when_it_is_full() -> None:
    batches = Batcher(LIVE, TEN).add(grid(25))
    assert [len(batch.power_w) for batch in batches] == [10, 10]
    assert [batch.until_ns - START_NS for batch in batches] == [9 * PERIOD_NS + 1, 19 * PERIOD_NS + 1]


def test_a_batch_leaves_when_it_is_old() -> None:
    batcher = Batcher(LIVE, BatchLimits(samples=1000, span_ns=5 * PERIOD_NS))
    assert [len(batch.power_w) for batch in batcher.add(grid(13))] == [6, 6]
    assert batcher.expire(START_NS + 16 * PERIOD_NS) == []
    assert [len(batch.power_w) for batch in batcher.expire(START_NS + 17 * PERIOD_NS)] == [1]
    assert batcher.expire(START_NS + 99 * PERIOD_NS) == []


def test_the_last_batch_of_a_recording_covers_the_period_of_its_last_sample() -> None:
    batcher = Batcher(RECORDED, TEN)
    assert batcher.add(grid(4)) == []
    (batch,) = batcher.finish_file()
    assert batch.until_ns == START_NS + 4 * PERIOD_NS


def test_the_next_recording_of_a_stream_continues_where_the_last_one_ended() -> None:
    first = Batcher(RECORDED, TEN)
    first.add([*grid(4), Reading(0, 1.0)])
    first.finish_file()
    second = Batcher(RECORDED, TEN, first.position)
    second.add(grid(5, first=3))
    (batch,) = second.finish_file()
    assert batch.seq == 1
    assert batch.start_ns == START_NS + 4 * PERIOD_NS
    assert batch.rejected_frames == 2


def test_the_last_sample_completing_a_batch_still_gets_its_period() -> None:
    batcher = Batcher(RECORDED, TEN)
    batches = [*batcher.add(grid(10)), *batcher.finish_file()]
    assert sum(len(batch.power_w) for batch in batches) == 10
    assert batches[-1].until_ns == START_NS + 10 * PERIOD_NS


def test_voltage_and_current_are_in_the_batch_only_when_every_sample_has_them() -> None:
    whole = [replace(reading, voltage_v=5.0, current_a=0.5, energy_counter_j=7.0) for reading in grid(2)]
    batcher = Batcher(LIVE, BatchLimits(2, None))
    (batch,) = batcher.add(whole)
    assert batch.voltage_v == (5.0, 5.0)
    assert batch.current_a == (0.5, 0.5)
    assert batch.energy_counter_j == 7.0
    (batch,) = batcher.add([replace(whole[0], t_ns=whole[1].t_ns + PERIOD_NS), *grid(1, first=3)])
    assert batch.voltage_v is None
    assert batch.current_a is None


def test_a_fresh_position_stands_at_the_beginning() -> None:
    assert Batcher(LIVE, TEN).position == Position()
