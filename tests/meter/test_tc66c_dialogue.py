"""Asking a TC66: when a request goes out, which replies count, and that none counts for another request."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from errors import FrameError
from meter.cadence import Cadence
from meter.devices.tc66c import Fault, Tc66Device
from meter.protocols.tc66c import BOOTLOADER, POLL, QUERY
from meter.protocols.tc66c_dialogue import EnergyCounter, Tc66Dialogue, Tc66Sample

PERIOD_NS = 100_000_000
ANSWER_S = 0.004
SHORT = Fault(keep_bytes=150, delay_s=ANSWER_S)
SILENT = Fault(silent=True)
USUAL = Fault(delay_s=ANSWER_S)


@dataclass
class Line:
    """A dialogue with a simulated meter in a time of its own. `device.answered` is in each reply, as its power-ups."""

    device: Tc66Device = field(default_factory=lambda: Tc66Device(usual=USUAL))
    now_ns: int = 1_000_000_000
    rejected: Counter[str] = field(default_factory=Counter)
    requests: list[tuple[int, bytes]] = field(default_factory=list)
    made_ns: dict[int, int] = field(default_factory=dict)
    """When the meter made which reply."""
    busy_until_ns: int = 0
    arriving: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dialogue = Tc66Dialogue(self.now_ns, PERIOD_NS, self.rejected)

    def run(self, duration_s: float) -> list[Tc66Sample]:
        """Let both talk for so long."""
        end_ns = self.now_ns + round(duration_s * 1e9)
        samples: list[Tc66Sample] = []
        while self.now_ns < end_ns:
            request = self.dialogue.request(self.now_ns)
            if request:
                self._send(request)
            samples += self._wait(min(end_ns, self.dialogue.wake_ns))
        return samples

    def run_and_reopen(self, duration_s: float) -> list[Tc66Sample]:
        """As `run`; a dialogue that gives up is begun anew."""
        end_ns = self.now_ns + round(duration_s * 1e9)
        samples: list[Tc66Sample] = []
        while self.now_ns < end_ns:
            try:
                samples += self.run(0.01)
            except FrameError:
                self.dialogue = Tc66Dialogue(self.now_ns, PERIOD_NS, self.rejected)
        return samples

    def _send(self, request: bytes) -> None:
        self.requests.append((self.now_ns, request))
        fault, reply = self.device.command(request, self.now_ns / 1e9)
        if fault.silent:
            return
        self.busy_until_ns = max(self.busy_until_ns, self.now_ns) + round(fault.delay_s * 1e9)
        self.made_ns[self.device.answered] = self.busy_until_ns
        step = 1 if fault.in_pieces else max(1, len(reply))
        for at in range(0, len(reply), step):
            self.arriving.append((self.busy_until_ns + 10_000 * at, reply[at : at + step]))

    def _wait(self, until_ns: int) -> list[Tc66Sample]:
        if self.arriving and self.arriving[0][0] <= until_ns:
            at_ns, data = self.arriving.pop(0)
            self.now_ns = max(self.now_ns, at_ns)
            sample = self.dialogue.hear(data, self.now_ns)
            return [] if sample is None else [sample]
        self.now_ns = max(self.now_ns, until_ns)
        return []


def test_it_waits_for_silence_then_asks_for_the_mode_then_drops_the_first_reply() -> None:
    line = Line()
    (first, *_) = line.run(1.0)
    assert line.requests[0] == (1_100_000_000, QUERY)
    assert [request for _, request in line.requests[1:3]] == [POLL, POLL]
    assert first.reply.power_ups == 2
    assert line.rejected == {"after_opening": 1}


def test_readings_come_ten_times_a_second() -> None:
    line = Line()
    line.run(1.0)
    samples = line.run(10.0)
    assert len(samples) == 100
    assert {b.asked_ns - a.asked_ns for a, b in pairwise(samples)} == {PERIOD_NS}


def test_a_meter_that_answers_slowly_is_asked_as_soon_as_it_has_answered() -> None:
    line = Line(Tc66Device(usual=Fault(delay_s=0.13)))
    line.run(2.0)
    samples = line.run(5.0)
    assert len(samples) in (38, 39)  # 5 s / 0.13 s
    assert all(sample.late_ns == 0 for sample in samples)


def test_the_time_of_a_sample_is_the_middle_between_request_and_answer() -> None:
    line = Line()
    for sample in line.run(2.0):
        assert sample.t_ns == sample.asked_ns + round(ANSWER_S * 1e9) // 2
        assert sample.asked_ns <= line.made_ns[sample.reply.power_ups] <= sample.answered_ns


def test_a_host_that_comes_late_is_told_how_late() -> None:
    line = Line()
    line.run(1.0)
    line.now_ns += 350_000_000
    (late, *on_time) = line.run(1.0)
    assert 250_000_000 <= late.late_ns <= 350_000_000
    assert {sample.late_ns for sample in on_time} == {0}


def test_a_reply_in_pieces_of_one_byte_counts() -> None:
    line = Line(Tc66Device(usual=Fault(delay_s=ANSWER_S, in_pieces=True)))
    assert len(line.run(5.0)) > 40
    assert line.rejected == {"after_opening": 1}


def test_extra_bytes_before_a_reply_are_skipped() -> None:
    line = Line(Tc66Device(usual=Fault(delay_s=ANSWER_S, before=b"AT+GCAP\r\n", in_pieces=True)))
    assert len(line.run(5.0)) > 40
    assert line.rejected == {"after_opening": 1}


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 0, 2)])
def test_permuted_blocks_count(order: tuple[int, int, int]) -> None:
    line = Line(Tc66Device(usual=Fault(delay_s=ANSWER_S, order=order)))
    assert len(line.run(5.0)) > 40
    assert line.rejected == {"after_opening": 1}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (SHORT, "short"),
        (Fault(delay_s=ANSWER_S, wrong_crc_in=0), "bad_crc"),
        (Fault(delay_s=ANSWER_S, wrong_crc_in=1), "bad_crc"),
        (Fault(delay_s=ANSWER_S, wrong_crc_in=2), "bad_crc"),
        (Fault(delay_s=ANSWER_S, before=bytes(2000)), "overlong"),
    ],
)
def test_a_spoiled_reply_costs_itself_and_the_next_request_waits_for_silence(fault: Fault, reason: str) -> None:
    line = Line()
    line.run(1.0)
    line.rejected.clear()
    line.device.faults.append(fault)
    spoiled = len(line.requests)
    samples = line.run(1.0)
    assert line.rejected == {reason: 1}
    assert line.requests[spoiled + 1][0] - line.requests[spoiled][0] >= 100_000_000 + round(ANSWER_S * 1e9)
    assert len(samples) >= 8


def test_a_reply_that_comes_after_the_time_out_is_not_taken_for_the_next_one() -> None:
    line = Line()
    line.run(1.0)
    line.rejected.clear()
    line.device.faults.append(Fault(delay_s=1.3))
    samples = line.run(4.0)
    assert line.rejected["no_reply"] == 1
    assert line.rejected["after_no_reply"] == 1
    assert len(samples) > 20
    assert all(sample.asked_ns <= line.made_ns[sample.reply.power_ups] <= sample.answered_ns for sample in samples)


@settings(max_examples=60, deadline=None)
@given(
    usual_s=st.floats(0.001, 0.09),
    late=st.lists(st.tuples(st.integers(0, 8), st.floats(0.9, 2.2)), min_size=1, max_size=4),
)
def test_however_late_replies_are_none_counts_for_another_request(
    usual_s: float, late: list[tuple[int, float]]
) -> None:
    line = Line(Tc66Device(usual=Fault(delay_s=usual_s)))
    line.run(1.0)
    for good, delay_s in late:
        line.device.faults.extend([*[Fault(delay_s=usual_s)] * good, Fault(delay_s=delay_s)])
    samples = line.run_and_reopen(30.0)
    assert len(samples) > 30
    assert all(sample.asked_ns <= line.made_ns[sample.reply.power_ups] <= sample.answered_ns for sample in samples)


def test_an_answer_that_is_read_late_is_not_used_since_its_time_is_not_known() -> None:
    line = Line()
    line.run(1.0)
    line.rejected.clear()
    line.device.faults.append(Fault(delay_s=0.4))
    samples = line.run(2.0)
    assert line.rejected == {"late": 1}
    assert len(samples) >= 15
    assert max(sample.answered_ns - sample.asked_ns for sample in samples) < 10_000_000


def test_a_meter_that_becomes_slower_is_used_again_after_a_few_answers() -> None:
    line = Line()
    line.run(1.0)
    line.device.usual = Fault(delay_s=0.2)
    assert len(line.run(3.0)) > 8
    assert 1 <= line.rejected["late"] <= 5


def test_bytes_that_nobody_asked_for_make_it_wait_for_silence_and_drop_the_next_reply() -> None:
    line = Line()
    line.run(1.05)
    line.rejected.clear()
    assert line.dialogue.hear(b"AT\r\n", line.now_ns) is None
    line.run(1.0)
    assert line.rejected == {"unasked": 1, "after_unasked": 1}


def test_a_boot_loader_is_named() -> None:
    line = Line(Tc66Device(mode=BOOTLOADER))
    with pytest.raises(FrameError, match="waits for a new firmware"):
        line.run(1.0)


def test_a_port_that_does_not_answer_is_asked_twice_and_then_left() -> None:
    rejected = Counter[str]()
    dialogue, now_ns, requests = Tc66Dialogue(0, PERIOD_NS, rejected), 0, 0
    with pytest.raises(FrameError, match="no TC66 answers here"):
        while now_ns < 10_000_000_000:
            now_ns = max(now_ns, dialogue.wake_ns)
            requests += dialogue.request(now_ns) == QUERY
    assert (requests, rejected) == (2, {"no_reply": 2})
    assert now_ns < 3_000_000_000


def test_a_modem_that_echoes_the_word_is_left() -> None:
    dialogue, now_ns, requests = Tc66Dialogue(0, PERIOD_NS, Counter()), 0, []
    with pytest.raises(FrameError, match="no TC66 answers here"):
        while now_ns < 10_000_000_000:
            now_ns = max(now_ns, dialogue.wake_ns)
            requests.append(dialogue.request(now_ns))
            if requests[-1]:
                assert dialogue.hear(b"query\r\nERROR\r\n", now_ns + 1_000_000) is None
    assert [request for request in requests if request] == [QUERY, QUERY]


def test_a_port_that_talks_without_end_is_left_unasked() -> None:
    dialogue = Tc66Dialogue(0, PERIOD_NS, Counter())
    now_ns = 0
    with pytest.raises(FrameError, match="never falls silent"):
        while now_ns < 10_000_000_000:
            now_ns += 50_000_000
            assert dialogue.request(now_ns) == b""
            dialogue.hear(b"$GPRMC,", now_ns)


def test_a_meter_that_stops_answering_is_given_up_after_five_requests() -> None:
    line = Line()
    line.run(1.0)
    line.device.usual = SILENT
    before = len(line.requests)
    with pytest.raises(FrameError, match="answers no more"):
        line.run(20.0)
    assert len(line.requests) - before == 5


def test_only_two_commands_are_ever_sent() -> None:
    line = Line()
    line.device.faults.extend([USUAL, SHORT, SILENT, Fault(delay_s=1.5), USUAL] * 10)
    line.run(60.0)
    assert {request for _, request in line.requests} == {b"query", b"getva"}


def test_both_energy_groups_count_and_a_switch_of_groups_is_no_step() -> None:
    counter = EnergyCounter()
    assert [counter.add(steps) for steps in [(100, 7), (101, 7), (101, 8), (101, 9), (102, 9)]] == [
        *(107, 108, 109, 110, 111)
    ]
    assert counter.resets == 0


def test_a_cleared_counter_decreases_and_is_counted_as_a_reset() -> None:
    counter = EnergyCounter()
    assert [counter.add(steps) for steps in [(100, 7), (0, 7), (1, 7)]] == [107, 7, 8]
    assert counter.resets == 1


def test_a_counter_that_wraps_goes_on() -> None:
    counter = EnergyCounter()
    top = 2**32 - 1
    assert [counter.add(steps) for steps in [(top - 1, 5), (top, 5), (1, 5)]] == [top + 4, top + 5, top + 7]
    assert counter.resets == 0


def test_lost_samples_are_those_that_the_usual_interval_would_have_fitted() -> None:
    cadence = Cadence(PERIOD_NS)
    for index in range(100):
        cadence.add(index * 130_000_000)
    cadence.disturb()
    cadence.add(109 * 130_000_000)
    assert (cadence.lost_samples, cadence.gaps) == (9, 1)
    cadence.disturb()
    cadence.add(110 * 130_000_000)
    assert (cadence.lost_samples, cadence.gaps) == (9, 1)
