"""What the models accept, refuse and write."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas import TOPICS, Comparison, EnergyResult, Message, OperationEvent, SampleBatch, Segment, ServiceStatus

Examples = dict[type[Message], Message]
MESSAGES = sorted({spec.message for spec in TOPICS.values()}, key=lambda message: message.__name__)
EVERY_MESSAGE = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)


def changed(examples: Examples, kind: type[Message], **fields: Any) -> Message:
    """The example of a kind, read anew from JSON with some fields changed."""
    return kind.model_validate_json(json.dumps({**json.loads(examples[kind].model_dump_json()), **fields}))


@EVERY_MESSAGE
def test_a_message_comes_back_from_its_json_unchanged(examples: Examples, kind: type[Message]) -> None:
    assert kind.model_validate_json(examples[kind].model_dump_json()) == examples[kind]


@EVERY_MESSAGE
def test_an_unknown_field_is_ignored_when_reading_and_never_written(examples: Examples, kind: type[Message]) -> None:
    read = changed(examples, kind, from_the_future=[1, 2])
    assert read == examples[kind]
    assert "from_the_future" not in read.model_dump_json()


@EVERY_MESSAGE
def test_a_message_says_its_version_and_another_version_is_refused(examples: Examples, kind: type[Message]) -> None:
    assert json.loads(examples[kind].model_dump_json())["schema_version"] == 1
    with pytest.raises(ValidationError, match="schema_version"):
        changed(examples, kind, schema_version=2)


@EVERY_MESSAGE
def test_a_message_cannot_be_changed(examples: Examples, kind: type[Message]) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        examples[kind].schema_version = 1


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (SampleBatch, lambda x: {"power_w": [1.0, x, 1.0]}),
        (SampleBatch, lambda x: {"energy_counter_j": x}),
        (OperationEvent, lambda x: {"guard_s": x}),
        (OperationEvent, lambda x: {"disturbance": {"temperature_c": [40.0, x]}}),
        (EnergyResult, lambda x: {"plateau_j": x}),
        (EnergyResult, lambda x: {"net_j_per_op": {"value": x, "u": 0.1, "u95": 0.2}}),
        (Comparison, lambda x: {"ratio": x}),
        (ServiceStatus, lambda x: {"health": {"lag_s": x}}),
    ],
)
def test_nan_and_infinity_are_refused_everywhere(
    examples: Examples, kind: type[Message], fields: Callable[[float], dict[str, Any]], number: float
) -> None:
    with pytest.raises(ValidationError, match="finite"):
        changed(examples, kind, **fields(number))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"start_ns": -1}, "start_ns"),
        ({"start_ns": 2**63}, "start_ns"),
        ({"seq": -1}, "seq"),
        ({"period_ns": 0}, "period_ns"),
        ({"offset_us": [0, 20_000, 10_000]}, "strictly increasing"),
        ({"offset_us": [0, 10_000, 10_000]}, "strictly increasing"),
        ({"offset_us": [-1, 10_000, 20_000]}, "must not be negative"),
        ({"power_w": [1.0, 2.0]}, "same length"),
        ({"voltage_v": [5.0] * 4}, "same length"),
        ({"current_a": []}, "same length"),
        ({"until_ns": 0}, "until_ns must not be before the last sample"),
        ({"meter_kind": "guessed"}, "meter_kind"),
        ({"power_w": ["2.5 W", 1.0, 1.0]}, "power_w"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused(examples: Examples, fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        changed(examples, SampleBatch, **fields)


def test_a_batch_may_hold_no_sample_and_still_move_the_watermark(examples: Examples) -> None:
    empty = changed(examples, SampleBatch, offset_us=[], power_w=[], voltage_v=None)
    assert isinstance(empty, SampleBatch)
    assert empty.power_w == ()
    assert empty.until_ns > empty.start_ns


@given(
    steps_us=st.lists(st.integers(1, 10**6), max_size=50),
    data=st.data(),
    start_ns=st.integers(0, 2**61),
)
def test_every_batch_that_a_meter_can_build_survives_its_json(
    examples: Examples, steps_us: list[int], data: st.DataObject, start_ns: int
) -> None:
    offsets = tuple(sum(steps_us[: i + 1]) for i in range(len(steps_us)))
    finite = st.floats(-1000, 1000)
    powers = tuple(data.draw(st.lists(finite, min_size=len(offsets), max_size=len(offsets))))
    example = examples[SampleBatch].model_dump()
    batch = SampleBatch.model_validate(
        {
            **example,
            "start_ns": start_ns,
            "until_ns": start_ns + 1000 * (offsets[-1] if offsets else 0) + 10**9,
            "offset_us": offsets,
            "power_w": powers,
            "voltage_v": None,
        }
    )
    assert SampleBatch.model_validate_json(batch.model_dump_json()) == batch


def _segment(start_ns: int, end_ns: int, kind: str = "idle", repetitions: int = 0) -> dict[str, Any]:
    return {"kind": kind, "start_ns": start_ns, "end_ns": end_ns, "repetitions": repetitions}


LOAD = _segment(10**9, 2 * 10**9, "load", 40)


@pytest.mark.parametrize(
    ("segments", "complaint"),
    [
        ([_segment(0, 10**9 + 1), LOAD], "must not overlap"),
        ([LOAD, _segment(0, 10**9)], "must be in order"),
        ([_segment(5, 5), LOAD], "end after it starts"),
        ([_segment(9, 5), LOAD], "end after it starts"),
        ([_segment(-1, 5), LOAD], "start_ns"),
        ([_segment(0, 5)], "needs a load segment"),
        ([], "segments"),
        ([_segment(0, 10**9, repetitions=1), LOAD], "an idle segment has no repetitions"),
        ([_segment(0, 1000, "load", 1_000_000)], "cannot have happened"),
        ([_segment(0, 10**9, "load", 39)], "must be the sum"),
        ([LOAD, _segment(3 * 10**9, 4 * 10**9, "load", 1)], "must be the sum"),
    ],
)
def test_segments_that_cannot_be_are_refused(
    examples: Examples, segments: list[dict[str, Any]], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        changed(examples, OperationEvent, segments=segments)


def test_a_sham_train_has_no_repetitions(examples: Examples) -> None:
    with pytest.raises(ValidationError, match="a sham train has no repetitions"):
        changed(examples, OperationEvent, operation="sham", segments=[LOAD])


def test_a_segment_contains_its_start_and_not_its_end() -> None:
    segment = Segment(kind="idle", start_ns=100, end_ns=200)
    assert [segment.contains(t_ns) for t_ns in (99, 100, 199, 200)] == [False, True, True, False]
    assert segment.duration_s == 100e-9


@pytest.mark.parametrize("name", ["services", "rejected", "comparisons"])
@pytest.mark.parametrize("kind", [SampleBatch, OperationEvent, EnergyResult])
def test_reserved_words_cannot_name_a_dut(examples: Examples, kind: type[Message], name: str) -> None:
    with pytest.raises(ValidationError, match="reserved"):
        changed(examples, kind, dut=name)


@pytest.mark.parametrize("name", ["", "Pi4", "-pi", "_pi", "pi 4", "pi/4", "pi+", "#", "pi4\n", "pí", "a" * 64])
@pytest.mark.parametrize("field", ["site", "dut", "meter"])
def test_a_name_that_cannot_be_one_level_of_a_topic_is_refused(examples: Examples, field: str, name: str) -> None:
    with pytest.raises(ValidationError, match=field):
        changed(examples, SampleBatch, **{field: name})


@pytest.mark.parametrize("name", ["p", "4", "pi-zero_2", "a" * 63])
def test_a_name_of_lower_case_letters_digits_hyphens_and_underscores_is_taken(examples: Examples, name: str) -> None:
    assert getattr(changed(examples, SampleBatch, dut=name), "dut") == name  # noqa: B009


@pytest.mark.parametrize(
    "event_id", ["8c4f2d1e-0000-4000-8000-000000000000", "01920000-0000-1000-8000-000000000001", "7", ""]
)
def test_an_event_id_is_a_uuid_of_version_7_or_5(examples: Examples, event_id: str) -> None:
    with pytest.raises(ValidationError, match="event_id"):
        changed(examples, OperationEvent, event_id=event_id)
    imported = "8c4f2d1e-0000-5000-8000-000000000000"
    assert str(getattr(changed(examples, OperationEvent, event_id=imported), "event_id")) == imported  # noqa: B009
