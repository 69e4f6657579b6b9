"""Where the real recordings are, and recordings made by hand."""

import os
from collections.abc import Sequence
from pathlib import Path
from struct import pack

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder with the recordings of the study; tests that need it are skipped without it."""
    folder = Path(os.environ.get("OPJOULE_RECORDINGS", REPOSITORY.parent / "shared" / "recordings"))
    if not folder.is_dir():
        pytest.skip(f"no recordings in {folder}; name the folder in OPJOULE_RECORDINGS")
    return folder


class FakeTime:
    """A monotonic clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, duration_s: float) -> None:
        self.now_ns += round(duration_s * 1e9)


@pytest.fixture
def fake_time() -> FakeTime:
    """A clock for one test."""
    return FakeTime()


def cfn_bytes(power_w: Sequence[float], rate_hz: float = 50.0, times_s: Sequence[float] | None = None) -> bytes:
    """A .cfn file with one power channel without extremes, as the recording program would write it."""
    times = [row / rate_hz for row in range(len(power_w))] if times_s is None else times_s
    head = pack("<diiih", rate_hz, 50, 0, 5, 1) + pack("<h4sB", 4, b"\xff\x55\xff\xff", 0) + pack("<i", len(power_w))
    return head + b"".join(pack("<dd", t, p) for t, p in zip(times, power_w, strict=True))
