"""What is refused, and why."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.intake import PAYLOAD_LIMIT_BYTES, parse, rejected
from errors import ContractError
from schemas import OperationEvent, SampleBatch
from tests.aggregator.trains import batches, event, segments, trace

SAMPLES = "opjoule/v1/lab/pi4/samples"
OPERATIONS = "opjoule/v1/lab/pi4/operations"
BATCH = batches(trace(lambda t: 1.0 + t, 0.99))[0]
EVENT = event(segments(5))


def _changed(message: SampleBatch | OperationEvent, **changes: Any) -> bytes:
    return json.dumps(json.loads(message.model_dump_json()) | changes).encode()


def test_what_the_services_send_is_usable() -> None:
    assert parse(SAMPLES, BATCH.model_dump_json().encode(), False) == BATCH
    assert parse(OPERATIONS, EVENT.model_dump_json().encode(), False) == EVENT


@pytest.mark.parametrize(
    ("topic", "payload", "retained", "reason"),
    [
        (SAMPLES, b"", False, "JSON"),
        (SAMPLES, b"\xff\xfe", False, "JSON"),
        (SAMPLES, b"[1, 2]", False, "object"),
        (SAMPLES, _changed(BATCH, schema_version=2), False, "schema_version"),
        (SAMPLES, _changed(BATCH, dut="pi5"), False, "claims lab/pi5"),
        (SAMPLES, _changed(BATCH, site="home"), False, "claims home/pi4"),
        (SAMPLES, BATCH.model_dump_json().replace("1.0,", "NaN,", 1).encode(), False, "finite"),
        (SAMPLES, _changed(BATCH, offset_us=[-1, *BATCH.offset_us[1:]]), False, "negative"),
        (SAMPLES, _changed(BATCH, offset_us=list(BATCH.offset_us[::-1])), False, "increasing"),
        (SAMPLES, _changed(BATCH, power_w=[1.0]), False, "same length"),
        (SAMPLES, _changed(BATCH, start_ns=-5), False, "start_ns"),
        (SAMPLES, BATCH.model_dump_json().encode(), True, "retained"),
        (SAMPLES, b" " * (PAYLOAD_LIMIT_BYTES + 1), False, "larger"),
        ("opjoule/v1/lab/pi4/results", b"{}", False, "not a topic"),
        ("something/else", b"{}", False, "not a topic"),
        (OPERATIONS, _changed(EVENT, repetitions_verified=7), False, "sum over the load segments"),
        (OPERATIONS, _changed(EVENT, segments=[]), False, "segments"),
        (OPERATIONS, _changed(EVENT, event_id="b0a0a1e4-3d3c-4d2e-9d3c-5a6c2f1c8f10"), False, "UUIDv7"),
        (OPERATIONS, _changed(EVENT, segments=json.loads(EVENT.model_dump_json())["segments"][::-1]), False, "order"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(topic: str, payload: bytes, retained: bool, reason: str) -> None:
    with pytest.raises(ContractError, match=reason) as refusal:
        parse(topic, payload, retained)
    assert "\n" not in str(refusal.value)


@given(
    st.binary(max_size=300), st.sampled_from([SAMPLES, OPERATIONS, "opjoule/v1/lab", "", "a/b/c/d/e"]), st.booleans()
)
def test_rubbish_is_refused_and_never_breaks_intake(payload: bytes, topic: str, retained: bool) -> None:
    with pytest.raises(ContractError):
        parse(topic, payload, retained)


@given(st.data())
def test_a_message_with_anything_in_one_field_is_used_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(OperationEvent.model_fields)))
    value = data.draw(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=5,
        )
    )
    try:
        parse(OPERATIONS, _changed(EVENT, **{name: value}), False)
    except ContractError as refusal:
        assert str(refusal)


def test_the_first_kilobyte_of_a_refused_message_is_shown() -> None:
    shown = rejected("x" * 2000, b"\xff" * 5000, "because")
    assert (len(shown.topic), len(shown.payload_head), shown.payload_bytes) == (1024, 1024, 5000)
