"""The state machine that starts a meter, keeps it alive and wakes it: what it does, and when."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from meter.protocols.fnirsi import Command, Family
from meter.recovery import BACK_OFF_S, Recovery, Step

IDENTIFY, START, CONTINUE = Command
OPEN, CLOSE, DRAIN, LISTEN = Step
DID = list[tuple[float, Step | Command]]


@dataclass
class Life:
    """A meter on a clock of its own, in steps of 10 ms: opening succeeds while it is plugged in."""

    family: Family = "B"
    keep_alive_s: float | None = None
    plugged: bool = True
    now_s: float = 0.0
    did: DID = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recovery = Recovery(self.family, self.keep_alive_s)

    def run(self, duration_s: float, data_every_s: float | None = None) -> DID:
        """What was done in this time, with times from its beginning."""
        begin_s, first = self.now_s, len(self.did)
        for tick in range(round(duration_s * 100)):
            self.now_s = begin_s + tick / 100
            if data_every_s and tick % round(data_every_s * 100) == 0:
                self.recovery.received(self.now_s)
            while (step := self.recovery.next_step(self.now_s)) is not None:
                self.did.append((round(self.now_s, 2), step))
                if step is OPEN:
                    self._open()
        self.now_s = begin_s + duration_s
        return [(round(at_s - begin_s, 2), step) for at_s, step in self.did[first:]]

    def _open(self) -> None:
        if self.plugged:
            self.recovery.opened(self.now_s)
        else:
            self.recovery.gone(self.now_s, "not there")


def started(family: Family = "B", keep_alive_s: float | None = None) -> Life:
    life = Life(family, keep_alive_s)
    life.run(0.4)
    return life


@pytest.mark.parametrize(("family", "last"), [("A", CONTINUE), ("B", START)])
def test_a_family_is_started_by_its_own_sequence_with_50_ms_between_commands(family: Family, last: Command) -> None:
    opening = [(0, OPEN), (0, DRAIN), (0, LISTEN)]
    assert Life(family).run(0.32) == [*opening, (0.2, IDENTIFY), (0.25, START), (0.3, last)]


def test_a_meter_that_streams_already_is_not_identified_which_might_restart_it() -> None:
    assert [step for _, step in Life().run(0.9, data_every_s=0.04)] == [OPEN, DRAIN, LISTEN, CONTINUE]


def test_family_b_is_kept_alive_once_a_second_whether_data_come_or_not() -> None:
    life = started()
    assert [step for _, step in life.run(5, data_every_s=0.04)] == [CONTINUE] * 5
    quiet = started()
    quiet.run(0.5, data_every_s=0.04)
    assert CONTINUE in [step for _, step in quiet.run(0.9)]


def test_family_a_gets_one_continue_for_each_report() -> None:
    life = started("A")
    did = life.run(2, data_every_s=0.04)
    assert [step for _, step in did] == [CONTINUE] * 50


def test_family_a_is_asked_from_the_clock_when_no_report_comes() -> None:
    life = started("A")
    life.run(1, data_every_s=0.04)
    did = life.run(0.9)
    assert {step for _, step in did} == {CONTINUE}
    assert len(did) == 7  # every 0.12 s


def test_a_backlog_of_reports_is_answered_once() -> None:
    life = started("A")
    life.run(0.1, data_every_s=0.04)
    for report in range(63):
        life.recovery.received(life.now_s + report * 2e-5)
    assert [life.recovery.next_step(life.now_s) for _ in range(3)] == [CONTINUE, None, None]


def test_a_keep_alive_interval_that_is_asked_for_holds() -> None:
    life = started(keep_alive_s=0.25)
    assert len(life.run(5, data_every_s=0.04)) == pytest.approx(20, abs=1)


def test_a_silent_meter_is_woken_in_the_order_of_least_disturbance() -> None:
    life = started()
    life.run(2, data_every_s=0.04)
    did = [(at_s, step) for at_s, step in life.run(30) if step is not CONTINUE or at_s == 2.46]
    drains = [at_s for at_s, step in did if step is DRAIN]
    assert [step for _, step in did] == [
        *(DRAIN, CONTINUE),
        *(DRAIN, START, START),
        *(DRAIN, IDENTIFY, START, START),
        *(CLOSE, OPEN, DRAIN, LISTEN, IDENTIFY, START, START),
        *(CLOSE, OPEN, DRAIN, LISTEN, IDENTIFY, START),  # and CONTINUE: it is tried as family A
        *(CLOSE, OPEN, DRAIN, LISTEN, IDENTIFY, START, START),
        *(CLOSE, OPEN, DRAIN, LISTEN, IDENTIFY, START),
    ]
    # 1 s of silence, then answering each report for 1.5 s; 1.5; 4; 4; 4 s, each from its last command
    assert drains[:5] == pytest.approx([2.46, 3.97, 8.03, 12.14, 16.45], abs=0.1)


def test_it_answers_each_report_before_anything_else_is_tried_and_stays_with_it() -> None:
    life = started()
    life.run(2, data_every_s=0.04)
    did = life.run(2)
    assert [step for _, step in did if step is not CONTINUE] == []
    assert len(did) > 8
    assert [step for _, step in life.run(1, data_every_s=0.04)] == [CONTINUE] * 25


def test_data_end_the_climb_at_any_rung() -> None:
    for silence_s in range(2, 40):
        life = started()
        life.run(2, data_every_s=0.04)
        life.run(silence_s)
        assert life.recovery.detail
        life.run(0.2, data_every_s=0.04)
        assert life.recovery.has_data
        assert life.recovery.detail == ""
        assert not [step for _, step in life.run(5, data_every_s=0.04) if isinstance(step, Step)]


def test_a_meter_that_never_answers_is_tried_for_ever_and_every_15_s_at_the_most_often() -> None:
    life = started()
    life.run(120)
    did = life.run(3600)
    opened = [at_s for at_s, step in did if step is OPEN]
    assert len(opened) == pytest.approx(3600 / 19.3, abs=2)  # 15 s of pause, 0.3 s to start, 4 s of patience
    assert "unplug" in life.recovery.detail


def test_a_meter_that_is_not_there_is_looked_for_with_growing_pauses() -> None:
    life = Life(plugged=False)
    times = [at_s for at_s, step in life.run(120) if step is OPEN]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[:8] == pytest.approx([*BACK_OFF_S, 4, 4, 4, 4], abs=0.02)
    assert life.recovery.detail == "not there"


def test_a_meter_that_comes_back_is_started_and_the_pauses_begin_anew() -> None:
    life = Life(plugged=False)
    life.run(120)
    life.plugged = True
    assert OPEN in [step for _, step in life.run(16)]
    life.run(1, data_every_s=0.04)
    life.plugged = False
    life.recovery.gone(life.now_s, "unplugged")
    assert life.run(0.52) == [(0.5, OPEN)]


def test_an_absent_meter_returns_as_the_family_that_it_was() -> None:
    life = started()
    life.run(2, data_every_s=0.04)
    life.run(17.5)
    families = [life.recovery.family]
    life.recovery.gone(life.now_s, "unplugged")
    assert [*families, life.recovery.family] == ["A", "B"]


def test_a_command_that_fails_is_repeated_and_gives_up_after_five_times() -> None:
    recovery = Recovery("B")
    assert recovery.next_step(0.0) is OPEN
    recovery.opened(0.0)
    assert [recovery.next_step(0.0) for _ in range(3)] == [DRAIN, LISTEN, None]
    for attempt in range(4):
        at_s = 0.2 + attempt * 0.15
        assert recovery.next_step(at_s + 0.001) is IDENTIFY
        assert recovery.write_failed(at_s, IDENTIFY)
        assert recovery.next_step(at_s + 0.14) is None
    assert recovery.next_step(0.801) is IDENTIFY
    assert not recovery.write_failed(0.8, IDENTIFY)


def test_the_wait_that_it_names_is_never_longer_than_until_the_next_step() -> None:
    life = started()
    for silent_s in range(60):
        wait_s = life.recovery.wait_s(life.now_s)
        if wait_s > 0.02:
            assert life.run(wait_s - 0.02) == [], f"after {silent_s} waits"
        life.run(0.05)
