"""Runner and meter on different hosts: the clock exchange places the train, or says that it cannot."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pipeline.flow import REPETITION_NS, make_lab
from tests.pipeline.two_hosts import TwoHosts

OPERATION_W = 1.5
OPERATION_J = OPERATION_W * REPETITION_NS / 1e9
MakeHosts = Callable[..., TwoHosts]


@pytest.fixture
def make_hosts(tmp_path: Path) -> Iterator[MakeHosts]:
    """Flows over hosts of their own, each with a journal of its own."""
    made: list[TwoHosts] = []

    def make(**how: object) -> TwoHosts:
        made.append(TwoHosts(make_lab(tmp_path / str(len(made))), **how))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.lab.journal.close()


@pytest.fixture
def hosts(make_hosts: MakeHosts) -> TwoHosts:
    """Hosts that answer, online for ten seconds already."""
    hosts = make_hosts()
    _come_online(hosts)
    return hosts


def _come_online(hosts: TwoHosts) -> None:
    hosts.say("meter", "online")
    hosts.say("runner", "online")
    hosts.pass_time(10)


def test_clocks_three_hours_apart_that_drift_by_40_ppm_are_compared_and_the_energy_is_right(hosts: TwoHosts) -> None:
    event = hosts.measure("keygen", "ML-KEM-768", OPERATION_W)
    hosts.pass_time(2)
    hosts.read_meter()
    hosts.deliver()
    (result,) = hosts.lab.results()
    assert (result.quality, result.flags) == ("good", ())
    assert result.clock is not None and result.clock.bound_s is not None
    assert result.clock.method == "exchange"
    assert abs(result.clock.offset_ns - hosts.true_offset_ns(result, event)) / 1e9 <= result.clock.bound_s < 0.01
    assert result.net_j_per_op is not None
    assert result.net_j_per_op.value == pytest.approx(OPERATION_J, abs=result.net_j_per_op.u95)
    assert result.net_j_per_op.u95 < 0.05 * OPERATION_J


def test_without_answers_a_train_waits_until_the_deadline_and_is_clock_unknown(make_hosts: MakeHosts) -> None:
    hosts = make_hosts(answering=False)
    _come_online(hosts)
    hosts.measure("keygen", "ML-KEM-768", OPERATION_W)
    hosts.read_meter()
    hosts.deliver()
    hosts.pass_time(10)
    assert hosts.lab.results() == []
    hosts.pass_time(90)
    (result,) = hosts.lab.results()
    assert result.quality == "invalid" and result.net_j is None
    assert set(result.flags) & {"clock_unknown", "no_samples"}


def test_a_train_waits_some_seconds_for_the_exchanges_after_its_end(hosts: TwoHosts) -> None:
    hosts.measure("keygen", "ML-KEM-768", OPERATION_W)
    hosts.read_meter()
    hosts.say("runner", "measuring")  # it has begun the next train before anybody asked
    hosts.deliver()
    hosts.pass_time(3)
    assert hosts.lab.results() == []
    hosts.pass_time(3)
    (result,) = hosts.lab.results()
    assert result.clock is not None and result.clock.method == "exchange"


def test_exchanges_that_come_later_do_not_change_what_was_computed(hosts: TwoHosts) -> None:
    hosts.measure("keygen", "ML-KEM-768", OPERATION_W)
    hosts.pass_time(2)
    batches = hosts.read_meter()
    hosts.deliver()
    (first,) = hosts.lab.results()
    hosts.pass_time(20)
    again = batches[-3].model_copy(
        update={"seq": 10_000}
    )  # a batch over samples that are there: the train is done anew
    hosts.lab.send(again)
    hosts.run_aggregator()
    (second,) = hosts.lab.results()
    assert second.clock == first.clock
    assert second.net_j == first.net_j


def test_a_killed_aggregator_goes_on_with_the_exchanges_in_its_journal(hosts: TwoHosts, make_hosts: MakeHosts) -> None:
    straight = make_hosts()
    _come_online(straight)
    for each in (straight, hosts):
        each.measure("keygen", "ML-KEM-768", OPERATION_W)
        each.pass_time(2)
    hosts.lab.kill()
    hosts.lab.start()
    for each in (straight, hosts):
        each.read_meter()
        each.deliver()
    assert hosts.lab.results() == straight.lab.results()


def test_a_meter_that_restarts_has_a_new_timeline_which_is_compared_anew(hosts: TwoHosts) -> None:
    hosts.measure("keygen", "ML-KEM-768", OPERATION_W)
    hosts.pass_time(2)
    hosts.read_meter()
    hosts.deliver()
    hosts.say("meter", "offline")
    object.__setattr__(hosts.meter_clock, "timeline_id", "meter-2")
    object.__setattr__(hosts.meter_clock, "wall_minus_monotonic_ns", hosts.meter_clock.wall_minus_monotonic_ns - 10**13)
    hosts.say("meter", "online")
    hosts.pass_time(5)
    exchanges = hosts.lab.journal.exchanges
    old, new = (exchanges.clocks("lab", "meter", name) for name in ("meter-1", "meter-2"))
    assert old and new
    (old_clock,), (new_clock,) = old.values(), new.values()
    before, after = exchanges.newest(old_clock), exchanges.newest(new_clock)
    assert before is not None and after is not None
    assert after.high_ns - before.high_ns == pytest.approx(-(10**13), abs=10**8)


def test_the_same_host_needs_no_exchange_although_there_are_some(hosts: TwoHosts) -> None:
    object.__setattr__(hosts.meter_clock, "boot_id", "boot-1")
    object.__setattr__(hosts.meter_clock, "drift_ppm", 0.0)
    hosts.measure("keygen", "ML-KEM-768", OPERATION_W)
    hosts.read_meter()
    hosts.deliver()
    (result,) = hosts.lab.results()
    assert result.clock is not None
    assert (result.clock.method, result.quality) == ("same_host", "good")
