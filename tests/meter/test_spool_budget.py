"""What an outage costs on the disk, and what normal work does not."""

import random
from pathlib import Path

from bus import Spool
from meter.batching import Batcher, BatchLimits
from meter.readings import Reading, Stream
from meter.settings import SPOOL_BYTES_PER_SAMPLE
from schemas import Journaled, SampleBatch, SeqRange
from tests.meter.rig import PERIOD_NS, START_NS

STREAM = Stream("lab", "pi4", "m1", "FNB58", "measured", "0123456789abcdef", None, PERIOD_NS)


def noisy_batches(number: int) -> list[SampleBatch]:
    """At the resolution of an FNB58, every value a new one: hardly anything to compress."""
    dice = random.Random(1)
    batcher = Batcher(STREAM, BatchLimits(100, None))
    readings = []
    for k in range(100 * number):
        voltage_10uv, current_10ua = 510_000 + dice.randrange(-40, 40), round(dice.gauss(60_000, 3_000))
        t_ns = START_NS + k * PERIOD_NS + dice.randrange(3_000)
        readings.append(
            Reading(t_ns, voltage_10uv * current_10ua / 1e10, voltage_10uv / 100_000, current_10ua / 100_000)
        )
    return batcher.add(readings)


def test_a_sample_takes_no_more_of_the_spool_than_the_budget_says(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.spool", 10**9)
    for second, batch in enumerate(noisy_batches(120)):
        spool.add(batch, float(second))
        spool.spill(float(second))
    per_sample = spool.size_bytes / 12_000
    assert 0.8 * SPOOL_BYTES_PER_SAMPLE < per_sample < SPOOL_BYTES_PER_SAMPLE
    spool.close()
    on_disk = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert on_disk / 12_000 < 1.3 * SPOOL_BYTES_PER_SAMPLE


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last writing of each."""
    return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in folder.iterdir()}


def test_a_full_spool_takes_a_third_more_of_the_disk_than_its_limit_and_its_journal(tmp_path: Path) -> None:
    limit_bytes = 1_000_000
    spool = Spool(tmp_path / "s.spool", limit_bytes)
    most = 0
    for second, batch in enumerate(noisy_batches(1200)):
        spool.add(batch, float(second))
        spool.spill(float(second))
        most = max(most, sum(size for size, _ in files(tmp_path).values()))
    spool.close()
    assert spool.lost_batches > 500
    assert most < limit_bytes * 4 / 3 + 400_000


def test_a_full_spool_writes_every_ten_seconds_and_not_for_every_batch(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.spool", 20 * 100 * SPOOL_BYTES_PER_SAMPLE)
    written = 0
    before = files(tmp_path)
    for second, batch in enumerate(noisy_batches(220)):
        spool.add(batch, float(second))
        spool.spill(float(second))
        written += files(tmp_path) != before
        before = files(tmp_path)
    assert spool.lost_batches > 190
    assert 18 <= written <= 22
    spool.close()


def test_what_a_full_spool_dropped_does_not_come_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.spool", 20 * 100 * SPOOL_BYTES_PER_SAMPLE)
    for second, batch in enumerate(noisy_batches(57)):
        spool.add(batch, float(second))
        spool.spill(float(second))
    left = spool.pending
    spool.close()
    again = Spool(tmp_path / "s.spool", 10**9)
    assert again.pending == left < 25
    again.close()


def test_the_oldest_samples_go_first_and_their_number_is_in_the_next_batch() -> None:
    batches = noisy_batches(12)
    spool = Spool(None, limit_bytes=10 * 100 * SPOOL_BYTES_PER_SAMPLE)
    for batch in batches:
        spool.add(batch, 0.0)
    left = spool.take_due(0.0, 30.0, 100)
    assert isinstance(left[0], SampleBatch)
    assert left[0].seq > 0
    assert spool.lost_samples_of(STREAM.key) == 100 * left[0].seq
    assert spool.lost_samples_of(("lab", "pi4", "other", "x")) == 0
    batcher = Batcher(STREAM, BatchLimits(1, None))
    batcher.note(batcher.position.counts, dropped_samples=spool.lost_samples_of(STREAM.key))
    (following,) = batcher.add([Reading(START_NS + 10**12, 2.0)])
    assert following.lost_samples == 100 * left[0].seq


def test_while_receipts_come_in_time_nothing_is_written(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.spool", 10**9)
    before = files(tmp_path)
    for second, batch in enumerate(noisy_batches(60)):
        spool.add(batch, float(second))
        spool.spill(float(second))
        span = SeqRange(meter=batch.meter, timeline_id=batch.timeline_id, first=batch.seq, last=batch.seq)
        spool.confirm(Journaled(site=batch.site, dut=batch.dut, ranges=(span,)))
    assert files(tmp_path) == before
    spool.close()
