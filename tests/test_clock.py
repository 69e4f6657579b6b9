"""A timeline never steps, and a time keeps all its digits."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clock
from clock import ServiceClock, rfc3339

WALL_NS = 1_790_000_000_000_000_000


class FakeHost:
    """A host whose wall clock can be stepped while its monotonic clock goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monotonic_ns = 5_000_000_000
        self.wall_ns = WALL_NS
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.monotonic_ns)
        monkeypatch.setattr(time, "time_ns", lambda: self.wall_ns)

    def passes(self, duration_ns: int) -> None:
        """Time goes by on both clocks."""
        self.monotonic_ns += duration_ns
        self.wall_ns += duration_ns


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host whose time the test decides."""
    return FakeHost(monkeypatch)


def test_a_timeline_begins_at_the_wall_clock_and_advances_with_the_monotonic_clock(host: FakeHost) -> None:
    service = ServiceClock()
    assert service.now_ns() == WALL_NS
    host.passes(1_234_567_891)
    assert service.now_ns() == WALL_NS + 1_234_567_891


@pytest.mark.parametrize("step_ns", [3_600_000_000_000, -3_600_000_000_000, -WALL_NS])
def test_a_timeline_does_not_step_when_the_wall_clock_does(host: FakeHost, step_ns: int) -> None:
    service = ServiceClock()
    host.passes(10)
    host.wall_ns += step_ns
    host.passes(10)
    assert service.now_ns() == WALL_NS + 20


def test_a_monotonic_reading_is_placed_on_the_timeline(host: FakeHost) -> None:
    service = ServiceClock()
    read_ns = host.monotonic_ns
    host.passes(1000)
    assert service.at_ns(read_ns) == service.now_ns() - 1000


def test_two_timelines_of_one_host_differ_by_exactly_their_constants(host: FakeHost) -> None:
    first = ServiceClock(boot_id="boot")
    host.passes(7)
    host.wall_ns += 250_000_000
    second = ServiceClock(boot_id="boot")
    host.passes(7)
    assert first.host_clock is not None and second.host_clock is not None
    difference_ns = second.host_clock.wall_minus_monotonic_ns - first.host_clock.wall_minus_monotonic_ns
    assert second.now_ns() - first.now_ns() == difference_ns == 250_000_000


def test_every_start_makes_a_new_timeline() -> None:
    assert ServiceClock().timeline_id != ServiceClock().timeline_id


def test_services_of_one_host_see_the_same_boot_id_and_a_host_without_one_has_no_host_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    boot_id = tmp_path_factory.mktemp("proc") / "boot_id"
    monkeypatch.setattr(clock, "_BOOT_ID", boot_id)
    assert ServiceClock().host_clock is None
    boot_id.write_text("\n")
    assert ServiceClock().host_clock is None
    boot_id.write_text("5f0c\n")
    assert ServiceClock().boot_id == ServiceClock().boot_id == "5f0c"


@pytest.mark.parametrize(
    ("t_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
        (1_000_000_000_123_456_789, "2001-09-09T01:46:40.123456789Z"),
        (1_000_000_000_999_999_999, "2001-09-09T01:46:40.999999999Z"),
    ],
)
def test_a_time_is_written_as_rfc_3339_with_nine_digits(t_ns: int, text: str) -> None:
    assert rfc3339(t_ns) == text


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_times_as_text_sort_as_the_times_do(first_ns: int, second_ns: int) -> None:
    assert (rfc3339(first_ns) < rfc3339(second_ns)) == (first_ns < second_ns)
