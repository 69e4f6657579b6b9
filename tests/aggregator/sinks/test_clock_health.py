"""What the store is told of clocks."""

import re

from tests.aggregator.sinks.conftest import StoreLab
from tests.pipeline.two_hosts import TwoHosts


def test_a_service_has_the_offset_and_the_bound_of_its_clock_in_fleet_health(store_lab: StoreLab) -> None:
    hosts = TwoHosts(store_lab)
    hosts.say("meter", "online")
    hosts.pass_time(10)
    hosts.say("meter", "online")
    hosts.run_aggregator()
    *_, last = [line for line in store_lab.lines("health") if line.startswith("fleet_health,instance=hub")]
    fields = {name: float(value) for name, value in re.findall(r"(clock_\w+)=([-+.\de]+)", last)}
    true_s = (hosts.meter_clock.now_ns() - store_lab.now_ns) / 1e9
    assert abs(fields["clock_offset_s"] - true_s) <= fields["clock_bound_s"] + 1e-6 < 0.01
    assert store_lab.aggregator is not None
    assert store_lab.aggregator.clock_figures()["clock_bound_s"] == fields["clock_bound_s"]
    hosts.say("meter", "offline")
    hosts.run_aggregator()
    assert "clock_bound_s" not in store_lab.aggregator.clock_figures()
