"""Points: what becomes a tag, what a field, and what is never written."""

import numpy as np
import pytest

from aggregator.sinks.influx import line
from aggregator.sinks.points import COUNTERS, Point, fleet_health, operation_energy, power, superseded
from errors import ContractError
from schemas import ServiceStatus
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
