"""The blueprint that new meters are copied from works as it stands."""

from clock import ServiceClock
from meter.readings import Source, Stream
from meter.sources._blueprint import BlueprintSource


def test_the_blueprint_turns_a_frame_into_a_reading_stamped_beside_the_read() -> None:
    clock = ServiceClock()
    stream = Stream("lab", "pi4", "m1", "NEW", "measured", clock.timeline_id, clock.host_clock, 40_000_000)
    frames = iter([b"\x32\x05", b""])
    source: Source = BlueprintSource(
        stream, lambda timeout_s: next(frames), lambda frame: (frame[0] / 10, frame[1] / 10), clock
    )
    before_ns = clock.now_ns()
    (reading,) = source.read(0.1) or []
    assert before_ns <= reading.t_ns <= clock.now_ns()
    assert (reading.power_w, reading.voltage_v, reading.current_a) == (2.5, 5.0, 0.5)
    assert source.read(0.1) == []
