"""The loop of the meter on a bus in memory: what is played arrives whole, and its status tells the truth."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from meter.settings import MeterSettings
from meter.sources import SOURCES
from meter.sources.plan import Planned
from meter.sources.recording import read_recording
from schemas import SampleBatch
from tests.meter.rig import CLOCK, START_NS, Rig


def write_csv(path: Path, power_w: Sequence[float]) -> None:
    rows = "".join(f"{row * 0.02:.8f},{power:.8f}\n" for row, power in enumerate(power_w))
    path.write_text(f"# 50.0 sps\nTime,Power\n{rows}")


def entry(path: Path | str, dut: str, timeline_id: str, start_ns: int) -> dict[str, object]:
    return {
        "path": str(path),
        "dut": dut,
        "meter": "m1",
        "meter_model": "FNB58",
        "timeline_id": timeline_id,
        "start_ns": start_ns,
    }


def plans_of(folder: Path, entries: list[dict[str, object]]) -> list[Planned]:
    (folder / "playlist.json").write_text(json.dumps(entries))
    given = {"source": "recording", "playlist": folder / "playlist.json", "speed": 0}
    return SOURCES["recording"](MeterSettings.model_validate(given), CLOCK)


def times_and_powers(batches: list[SampleBatch]) -> list[tuple[int, float]]:
    return [
        (batch.start_ns + 1000 * offset_us, power_w)
        for batch in batches
        for offset_us, power_w in zip(batch.offset_us, batch.power_w, strict=True)
    ]


def test_a_playlist_arrives_whole_and_batches_never_mix_two_files(tmp_path: Path) -> None:
    powers = {"a.csv": [1 + k / 997 for k in range(250)], "b.csv": [2.0] * 100, "c.csv": [3 + k / 7 for k in range(7)]}
    for name, power_w in powers.items():
        write_csv(tmp_path / name, power_w)
    gap_ns = 3600 * 10**9
    entries = [
        entry("a.csv", "pi1", "study-pi1", START_NS),
        entry("c.csv", "pi4", "study-pi4", START_NS),
        entry("b.csv", "pi1", "study-pi1", START_NS + gap_ns),
    ]
    rig = Rig(["pi1", "pi4"])
    with rig.journal.at_work():
        assert rig.service.play(plans_of(tmp_path, entries))
        assert rig.service.confirm()
    batches = rig.journal.of("pi1")
    assert [batch.seq for batch in batches] == [0, 1, 2, 3]
    assert [len(batch.power_w) for batch in batches] == [100, 100, 50, 100]
    assert batches[2].until_ns == START_NS + 250 * 20_000_000
    assert batches[3].until_ns == START_NS + gap_ns + 100 * 20_000_000
    expected = [(START_NS + k * 20_000_000, round(power_w, 8)) for k, power_w in enumerate(powers["a.csv"])]
    assert times_and_powers(batches[:3]) == expected
    assert [batch.seq for batch in rig.journal.of("pi4")] == [0]
    assert all(batch.meter_kind == "recorded" and batch.host_clock is None for batch in batches)


@pytest.mark.recordings
def test_real_recordings_arrive_bit_for_bit(tmp_path: Path, recordings: Path) -> None:
    files = sorted(recordings.glob("*/*.cfn"))[:3]
    starts_ns = [START_NS + k * 3600 * 10**9 for k in range(len(files))]
    entries = [entry(file, "pi1", "study", start_ns) for file, start_ns in zip(files, starts_ns, strict=True)]
    rig = Rig(["pi1"], batch_samples=1000)
    with rig.journal.at_work():
        assert rig.service.play(plans_of(tmp_path, entries))
        assert rig.service.confirm()
    expected = [
        (start_ns + row * 20_000_000, power_w)
        for file, start_ns in zip(files, starts_ns, strict=True)
        for row, power_w in enumerate(read_recording(file).power_w)
    ]
    assert times_and_powers(rig.journal.of("pi1")) == expected


def test_an_unreadable_file_is_named_and_the_others_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_csv(tmp_path / "good.csv", [1.0] * 10)
    (tmp_path / "bad.cfn").write_bytes(b"rubbish")
    entries = [
        entry(name, "pi1", "study", START_NS + k * 10**12) for k, name in enumerate(["bad.cfn", "none.cfn", "good.csv"])
    ]
    rig = Rig(["pi1"])
    with rig.journal.at_work():
        assert not rig.service.play(plans_of(tmp_path, entries))
        assert rig.service.confirm()
    assert len(rig.journal.of("pi1")) == 1
    assert [line.getMessage().split(": ", 2)[1] for line in caplog.records] == [
        str(tmp_path / "bad.cfn"),
        str(tmp_path / "none.cfn"),
    ]


def test_without_an_aggregator_playing_stops_at_the_bound_and_gives_up(tmp_path: Path) -> None:
    write_csv(tmp_path / "long.csv", [1.0] * 10_000)
    rig = Rig(["pi1"], unconfirmed_batches=5, confirm_timeout_s=0.05)
    rig.service.play(plans_of(tmp_path, [entry("long.csv", "pi1", "study", START_NS)]))
    assert not rig.service.confirm()
    assert 5 < len([each for each in rig.broker.published if each.topic.endswith("/samples")]) < 20


def test_a_lost_broker_costs_no_batch(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [1 + k / 997 for k in range(5_000)])
    rig = Rig(["pi1"], unconfirmed_batches=1000)
    rig.bus.drop()
    rig.service.play(plans_of(tmp_path, [entry("a.csv", "pi1", "study", START_NS)]))
    rig.bus.connect(0.0)
    with rig.journal.at_work():
        assert rig.service.confirm()
    assert [batch.seq for batch in rig.journal.of("pi1")] == list(range(50))
