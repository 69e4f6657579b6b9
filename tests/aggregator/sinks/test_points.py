"""Points: what becomes a tag, what a field, and what is never written."""

import numpy as np
import pytest

from aggregator.sinks.influx import line
from aggregator.sinks.points import COUNTERS, Point, fleet_health, meter_health, operation_energy, power, superseded
from errors import ContractError
from schemas import CounterCheck, MeterState, Quantity, ServiceStatus
from tests.aggregator.conftest import Lab
from tests.aggregator.sinks.trains import good_result

STATUS = ServiceStatus(
    service="meter",
    instance="m1",
    state="online",
    version="1",
    started_ns=1,
    started_time="1970-01-01T00:00:00Z",
    duts=("pi4",),
    detail="",
    health={"samples_per_s": 100.0, "spool_depth": 3.0},
)


def test_every_number_is_a_float_and_every_tag_has_a_value(lab: Lab) -> None:
    point = operation_energy(good_result(lab))
    assert all(isinstance(value, float | str) for value in point.fields.values())
    assert all(point.tags.values())
    assert (point.tags["meter"], point.fields["valid"], point.fields["simulated"]) == ("m1", 1.0, 1.0)


def test_a_revision_changes_no_tag_and_no_time(lab: Lab) -> None:
    good = good_result(lab)
    invalid = good.model_copy(update={"quality": "invalid", "revision": 2, "net_j_per_op": None, "flags": ("gap",)})
    before, after = operation_energy(good), operation_energy(invalid)
    assert (before.tags, before.t_ns) == (after.tags, after.t_ns)
    assert after.fields["valid"] == 0.0 and "net_j_per_op" not in after.fields


def test_what_lay_at_another_time_is_not_valid_there_any_more(lab: Lab) -> None:
    good = good_result(lab)
    gone = superseded(good, 42)
    assert (gone.tags, gone.t_ns) == (operation_energy(good).tags, 42)
    assert gone.fields == {"valid": 0.0, "crypto_valid": 0.0, "quality": "superseded"}


def test_power_of_a_second_is_mean_least_and_most_and_how_many() -> None:
    point = power(("lab", "pi4", "m1"), 10**9, np.array([1.0, 2.0, 6.0]), np.array([5.0, np.nan, 5.2]))
    assert point.fields == {
        "mean_w": 3.0,
        "min_w": 1.0,
        "max_w": 6.0,
        "samples": 3.0,
        "simulated": 0.0,
        "voltage_v": pytest.approx(5.1),
    }
    assert "voltage_v" not in power(("lab", "pi4", "m1"), 0, np.array([1.0]), np.array([np.nan])).fields


def test_health_counters_become_fields_and_names_that_are_none_do_not() -> None:
    odd = STATUS.model_copy(update={"health": {"ok_s": 1.0, "Not ok": 1.0, **{f"z{n}": 1.0 for n in range(200)}}})
    fields = fleet_health("lab", odd, 7).fields
    assert fields["ok_s"] == 1.0 and "Not ok" not in fields
    assert len(fields) == COUNTERS + len(("online", "measuring", "duts", "detail"))
    offline = fleet_health("lab", STATUS.model_copy(update={"state": "offline"}), 7)
    assert (offline.fields["online"], offline.t_ns, offline.tags["service"]) == (0.0, 7, "meter")


def test_a_counter_stands_beside_the_integral_of_its_span(lab: Lab) -> None:
    counter_j = Quantity(value=180.0, u=1.5, u95=3.0)
    plain = operation_energy(good_result(lab)).fields
    check = CounterCheck(span_s=60.0, counter_j=counter_j, integral_j=Quantity(value=181.0, u=1.0, u95=2.0))
    counted = operation_energy(good_result(lab).model_copy(update={"counter": check})).fields
    alone = check.model_copy(update={"integral_j": None})
    gap = operation_energy(good_result(lab).model_copy(update={"counter": alone})).fields
    added = {"counter_j": 180.0, "counter_u_j": 1.5, "counter_s": 60.0}
    assert counted == {**plain, **added, "counter_integral_j": 181.0}
    assert gap == {**plain, **added}


def test_every_meter_of_a_service_has_its_own_point_with_what_is_known_of_it() -> None:
    known = MeterState(
        dut="pi4",
        meter="m1",
        model="TC66C",
        connected=True,
        samples_per_s=9.9,
        new_values_per_s=4.5,
        rejected={"bad_crc": 2, "short": 1},
        gaps=3,
    )
    silent = MeterState(dut="pi1", meter="m2", model="FNB58", connected=False, detail="no data")
    status = STATUS.model_copy(update={"meters": (known, silent)})
    first, second = meter_health("lab", status, 7)
    assert (first.measurement, first.t_ns) == ("meter_health", 7)
    assert first.tags == {"site": "lab", "dut": "pi4", "meter": "m1"}
    figures = ("connected", "samples_per_s", "new_values_per_s", "rejected", "gaps", "model")
    assert [first.fields[name] for name in figures] == [1.0, 9.9, 4.5, 3.0, 3.0, "TC66C"]
    assert (second.fields["connected"], second.fields["detail"]) == (0.0, "no data")
    assert not {"samples_per_s", "new_values_per_s", "temperature_c"} & second.fields.keys()
    assert meter_health("lab", STATUS, 7) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_figure_that_is_not_finite_gets_no_line(value: float) -> None:
    with pytest.raises(ContractError, match="f is"):
        line(Point("m", {"a": "b"}, {"f": value, "g": 1.0}, 1))


def test_a_point_without_fields_gets_no_line() -> None:
    with pytest.raises(ContractError, match="without fields"):
        line(Point("m", {"a": "b"}, {}, 1))


def test_whatever_a_name_holds_one_point_is_one_line() -> None:
    text = line(Point("m", {"a": "x, y=z\\", "b": "p\nq"}, {"s": 'say "\\"\nand go', "f": 2.0}, 5))
    assert "\n" not in text
    assert text.endswith(" 5") and "f=2," in text
