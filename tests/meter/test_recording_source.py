"""Recordings as a source: by file name, at any speed, from a playlist."""

import json
from array import array
from pathlib import Path
from typing import Protocol

import pytest

from clock import ServiceClock
from errors import ContractError, SettingsError
from meter.playlist import read_playlist
from meter.protocols.recording import Recording
from meter.readings import Reading, Stream
from meter.settings import MeterSettings
from meter.sources import SOURCES
from meter.sources.pacing import Pacing
from meter.sources.recording import RecordingSource, read_recording

START_NS = 1_775_827_500_000_000_000
STREAM = Stream("lab", "pi4", "m1", "FNB58", "recorded", "t1", None, 20_000_000)
CSV = "Time,Power\n0.00,1.5\n0.02,1.6\n"


class Clock(Protocol):
    now_ns: int

    def monotonic_ns(self) -> int: ...

    def sleep(self, duration_s: float) -> None: ...


def recording(rows: int, first_s: float = 0.0) -> Recording:
    t_s = array("d", (first_s + row * 0.02 for row in range(rows)))
    power_w = array("d", (1 + row / 7 for row in range(rows)))
    return Recording(50.0, t_s, power_w, None, None, None, {}, ())


def read_all(source: RecordingSource) -> list[Reading]:
    readings: list[Reading] = []
    while (some := source.read(0.1)) is not None:
        readings += some
    return readings


def test_unpaced_it_gives_every_row_at_its_exact_time() -> None:
    readings = read_all(RecordingSource(STREAM, recording(30_018), START_NS, speed=0))
    assert [reading.t_ns for reading in readings] == [START_NS + row * 20_000_000 for row in range(30_018)]
    assert [reading.power_w for reading in readings] == list(recording(30_018).power_w)


def test_the_first_row_is_the_start_whatever_its_stored_time() -> None:
    readings = read_all(RecordingSource(STREAM, recording(3, first_s=120.34), START_NS, speed=0))
    assert [reading.t_ns - START_NS for reading in readings] == [0, 20_000_000, 40_000_000]


@pytest.mark.parametrize(("speed", "rows"), [(1.0, 51), (4.0, 201)])
def test_paced_it_gives_what_is_due(fake_time: Clock, speed: float, rows: int) -> None:
    source = RecordingSource(STREAM, recording(1000), START_NS, speed, Pacing(fake_time.monotonic_ns, fake_time.sleep))
    end_ns = fake_time.now_ns + 1_000_000_000
    count = 0
    while fake_time.now_ns < end_ns:
        count += len(source.read(0.1) or [])
    assert count == pytest.approx(rows, abs=1)


def test_reading_waits_no_longer_than_it_is_told(fake_time: Clock) -> None:
    slow = RecordingSource(STREAM, recording(2), START_NS, 0.001, Pacing(fake_time.monotonic_ns, fake_time.sleep))
    assert len(slow.read(0.1) or []) == 1
    before_ns = fake_time.now_ns
    assert slow.read(0.1) == []
    assert fake_time.now_ns - before_ns == 100_000_000


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.txt", b"", "a.txt: .txt is not a recording"),
        ("a", b"", "a: no suffix is not a recording"),
        ("a.cfn", None, "a.cfn: No such file"),
        ("a.cfn", b"abc", "a.cfn: ends at offset 3"),
        ("a.CSV", b"Time\n0\n", "a.CSV: no sample rate"),
    ],
)
def test_an_unreadable_file_is_named(tmp_path: Path, name: str, content: bytes | None, what: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ContractError, match=what):
        read_recording(tmp_path / name)


def playlist(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "playlist.json"
    path.write_text(text)
    return path


def test_paths_in_a_playlist_are_relative_to_it(tmp_path: Path) -> None:
    entry = {
        "path": "a.csv",
        "dut": "pi4",
        "meter": "m1",
        "meter_model": "FNB58",
        "timeline_id": "study",
        "start_ns": START_NS,
    }
    (read,) = read_playlist(playlist(tmp_path, json.dumps([entry])))
    assert read.path == tmp_path / "a.csv"
    assert read.start_ns == START_NS


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[", "playlist .*: Invalid JSON"),
        ("[{}]", "playlist .*: 0.path: Field required"),
        ('[{"path": "a", "dut": "services"}]', "0.dut: .*reserved"),
    ],
)
def test_a_bad_playlist_is_one_line_for_the_operator(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(SettingsError, match=what) as caught:
        read_playlist(playlist(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_playlist_is_one_line_for_the_operator(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"playlist .*none.json: No such file"):
        read_playlist(tmp_path / "none.json")


def test_a_single_recording_starts_now_on_the_timeline_of_the_service(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    given = {"source": "recording", "recording": tmp_path / "a.csv", "dut": "pi4", "meter": "m1", "speed": 0}
    settings = MeterSettings.model_validate(given)
    clock = ServiceClock()
    before_ns = clock.now_ns()
    (planned,) = SOURCES["recording"](settings, clock)
    source = planned.open()
    readings = source.read(0.0)
    assert source.stream.timeline_id == clock.timeline_id
    assert source.stream.host_clock is None
    assert readings is not None
    assert before_ns <= readings[0].t_ns <= clock.now_ns()
