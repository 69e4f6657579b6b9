"""What the log says of a meter: every change, but not for ever."""

import logging

import pytest

from meter.recovery import JUST_OPENED
from meter.sources.telling import LINES, LOST_EVERY_S, WITHIN_S, Telling


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_a_silent_meter_that_is_opened_again_and_again_is_told_once(lines: pytest.LogCaptureFixture) -> None:
    telling = Telling("m1 of pi4")
    for second in range(3600):
        telling.opened("/dev/hidraw0", second)
        telling.state(JUST_OPENED, second)
    assert lines.messages == ["m1 of pi4 opened at /dev/hidraw0"]


def test_it_is_told_again_at_another_node_or_when_data_came_between(lines: pytest.LogCaptureFixture) -> None:
    telling = Telling("m1")
    telling.opened("/dev/hidraw0", 0)
    telling.opened("/dev/hidraw1", 1)
    telling.state("gone", 2)
    telling.opened("/dev/hidraw1", 3)
    telling.state("", 4)
    telling.opened("/dev/hidraw1", 5)
    assert lines.messages == [
        "m1 opened at /dev/hidraw0",
        "m1 opened at /dev/hidraw1",
        "m1: gone",
        "m1: samples flow",
        "m1 opened at /dev/hidraw1",
    ]


def test_a_meter_that_flaps_fills_no_log_and_its_last_state_is_told(lines: pytest.LogCaptureFixture) -> None:
    telling = Telling("m1")
    for second in range(3600):
        telling.state("gone" if second % 2 == 0 else "", second)
    assert len(lines.messages) <= LINES * 3600 / WITHIN_S + 1
    last_s = 3600.0 + LINES
    for second in range(LINES + 1):
        telling.state("" if second % 2 else "gone", 3600.0 + second)
    told = len(lines.messages)
    telling.state("gone", last_s + 2 * WITHIN_S)
    assert len(lines.messages) == told + 1
    assert lines.messages[-1].startswith("m1: gone (")
    assert lines.messages[-1].endswith("changes before were not logged)")


def test_losses_are_warned_of_at_once_and_then_with_the_running_count_now_and_then(
    lines: pytest.LogCaptureFixture,
) -> None:
    telling = Telling("m1")
    for second in range(round(LOST_EVERY_S) * 2):
        telling.lost(4 * second, second, second)
    telling.closed(4800, 1200)
    assert lines.messages == [
        "m1: samples lost so far: 4, gaps: 1",
        "m1: samples lost so far: 2404, gaps: 601",
        "m1: samples lost so far: 4800, gaps: 1200",
    ]
    assert {record.levelname for record in lines.records} == {"WARNING"}


def test_where_nothing_is_lost_nothing_is_said(lines: pytest.LogCaptureFixture) -> None:
    telling = Telling("m1")
    telling.lost(0, 0, 1.0)
    telling.closed(0, 0)
    assert lines.messages == []
