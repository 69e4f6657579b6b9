"""A day of the meter in minutes, with an unplug in every hour: a part of `make bench-meter`.

A simulated FNB58 on a clock that only waiting moves (devices/lockstep.py), read through a descriptor by the service's
source; batches go through spool and publisher to something that sends receipts. Every gap is held against the time that
the meter was away. Memory, objects and descriptors are of this process. The last line has the figures as key=value.
"""

import argparse
import gc
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_meter_numbers import Tally, numbered
from bus import MemoryBroker, MemoryBus, Spool, SpoolingPublisher
from clock import ServiceClock
from meter.batching import BatchLimits
from meter.devices.fnb58 import Fnb58
from meter.devices.lockstep import Lockstep
from meter.feed import Feed
from meter.protocols.fnirsi import SAMPLE_PERIOD_NS, SAMPLES_PER_REPORT
from meter.readings import Counts, Reading, Said, Stream
from meter.recovery import BACK_OFF_S
from meter.sources.fnirsi import FnirsiSource
from schemas import Journaled, SampleBatch, SeqRange, topic_filter

HOUR_S = 3600.0
JITTER_NS = 10_000_000
AWAY_S = (2.0, 300.0)
GAP_NS = 2 * SAMPLES_PER_REPORT * SAMPLE_PERIOD_NS
MOST_LONGER_S = BACK_OFF_S[-1] + 1.0
"""From plugging in to the first sample that counts: to find it, by then looked for that seldom; then to start it."""
MOST_GROWTH_KB = 1024
"""From the first hour, when all is in use that ever is, to the last."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Where readings are further apart than their period; samples that were counted there as lost."""

    start_ns: int
    end_ns: int
    counted: int

    @property
    def off(self) -> float:
        """By how many samples the count differs from what would have fitted in."""
        return self.counted - ((self.end_ns - self.start_ns) / SAMPLE_PERIOD_NS - 1)

    def longer_s(self, away_s: float) -> float:
        """Than the meter was away."""
        return (self.end_ns - self.start_ns) / 1e9 - away_s


@dataclass(frozen=True, slots=True)
class Use:
    """What this process has."""

    rss_kb: int
    objects: int
    descriptors: int


class Pipeline:
    """From the source's readings to batches that are published and confirmed."""

    def __init__(self, folder: Path, usb: Lockstep) -> None:
        self._broker, self._usb = MemoryBroker(), usb
        bus = MemoryBus(self._broker, "meter")
        self._journal = MemoryBus(self._broker, "journal")
        self._journal.subscribe([topic_filter("samples", "lab")])
        spool = Spool(folder / "meter.spool", 10**7)
        self.publisher = SpoolingPublisher(bus, spool, "lab", ["board"], lambda: usb.now_ns / 1e9)
        for each in (self._journal, bus):
            each.connect(0.0)
        self._feed = Feed(BatchLimits(100, 1_000_000_000))
        self.tally = Tally()
        self.last: SampleBatch | None = None

    def add(self, said: Said) -> None:
        """Publish what is complete, and have it confirmed."""
        for batch in self._feed.add([said], 0):
            self.publisher.put(batch)
        self.confirm()

    def end(self) -> None:
        """Publish the unfinished batch."""
        for batch in self._feed.flush():
            self.publisher.put(batch)
        self.confirm()
        self.publisher.close()

    def is_all_told(self, counts: Counts) -> bool:
        """Whether everything is confirmed, and the last batch says what the source has counted."""
        last = self.last
        return last is not None and not self.publisher.pending and last.lost_samples == counts.lost_samples

    def confirm(self) -> None:
        """What came is looked at and named in a receipt; nothing of it is kept."""
        for message in self._journal.receive(0.0):
            batch = self.last = SampleBatch.model_validate_json(message.payload)
            self.tally.add(batch.current_a or ())
            span = SeqRange(meter=batch.meter, timeline_id=batch.timeline_id, first=batch.seq, last=batch.seq)
            receipt = Journaled(site=batch.site, dut=batch.dut, ranges=(span,))
            self._journal.publish("journaled", batch.site, receipt, dut=batch.dut)
        self._broker.published.clear()
        self.publisher.step()


class Gaps:
    """Finds the gaps in readings."""

    def __init__(self) -> None:
        self.found: list[Gap] = []
        self.tally = Tally()
        self.missing_elsewhere = 0
        """Samples that are missing, by their numbers, where there is no gap in time."""
        self._last_ns: int | None = None
        self._counted = 0

    def look(self, readings: Sequence[Reading], counted: int) -> None:
        """`counted`: what the source has counted as lost so far."""
        for reading in readings:
            missing = self.tally.add([reading.current_a])
            if self._last_ns is not None and reading.t_ns - self._last_ns > GAP_NS:
                self.found.append(Gap(self._last_ns, reading.t_ns, counted - self._counted))
                self._counted = counted
            else:
                self.missing_elsewhere += missing
            self._last_ns = reading.t_ns

    @property
    def counted_elsewhere(self) -> int:
        """Samples that were counted as lost where there is no gap."""
        return self._counted - sum(gap.counted for gap in self.found)


@dataclass
class Day:
    """What happened."""

    aways_s: list[float]
    gaps: Gaps
    pipeline: Pipeline
    uses: list[Use]
    counts: Counts
    wall_s: float

    @property
    def is_accounted_for(self) -> bool:
        """One gap for each unplug, as long as that and what opening takes, counted to half a report; none elsewhere."""
        found, published = self.gaps.found, self.pipeline.tally
        pairs = list(zip(found, self.aways_s, strict=False))
        return (
            len(found) == len(self.aways_s) == self.counts.gaps
            and all(0 <= gap.longer_s(away_s) <= MOST_LONGER_S for gap, away_s in pairs)
            and all(abs(gap.off) <= SAMPLES_PER_REPORT / 2 for gap in found)
            and self.gaps.missing_elsewhere == self.gaps.counted_elsewhere == self.gaps.tally.wrong == 0
            and (published.received, published.missing) == (self.gaps.tally.received, self.gaps.tally.missing)
            and self.pipeline.is_all_told(self.counts)
        )

    @property
    def leaks_nothing(self) -> bool:
        """Measured from the end of the first hour."""
        first, last = self.uses[0], self.uses[-1]
        return last.rss_kb - first.rss_kb <= MOST_GROWTH_KB and last.descriptors == first.descriptors


def main() -> int:
    """Exit status 1 where a limit is not kept."""
    parser = argparse.ArgumentParser(prog="bench_meter_day", description=__doc__)
    parser.add_argument("--hours", type=int, default=24, help="with an unplug in each [default: 24]")
    parser.add_argument("--seed", type=int, default=1, help="of the unplugs and of the jitter [default: 1]")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="opjoule-bench-") as name:
        return report(run(Path(name), args.hours, random.Random(args.seed)))


def run(folder: Path, hours: int, draw: random.Random) -> Day:
    """The whole day; a line for each hour."""
    start_s = time.monotonic()
    usb = Lockstep(Fnb58(numbered()), lambda: draw.randrange(JITTER_NS))
    usb.plug_in()
    aways_s = plan(usb, hours, draw)
    clock = ServiceClock(wall_minus_monotonic_ns=time.time_ns() - usb.now_ns)
    stream = Stream("lab", "board", "m", "FNB58", "simulated", clock.timeline_id, None, SAMPLE_PERIOD_NS)
    source, pipeline, gaps = FnirsiSource(stream, usb.open, clock, pacing=usb.pacing), Pipeline(folder, usb), Gaps()
    uses: list[Use] = []
    begin_ns = usb.now_ns
    for hour in range(1, hours + 1):
        while usb.now_ns < begin_ns + hour * HOUR_S * 1e9:
            readings = source.read(0.2) or []
            gaps.look(readings, source.counts.lost_samples)
            if readings:
                pipeline.add(Said(stream, tuple(readings), source.counts, source.health))
        uses.append(use())
        print(f"hour {hour}: {uses[-1]}, {len(gaps.found)} gaps, {time.monotonic() - start_s:.0f} s", flush=True)
    pipeline.end()
    usb.unplug()
    source.close()
    return Day(aways_s, gaps, pipeline, uses, source.counts, time.monotonic() - start_s)


def report(day: Day) -> int:
    """Print the figures."""
    first, last = day.uses[0], day.uses[-1]
    longer_s = [gap.longer_s(away_s) for gap, away_s in zip(day.gaps.found, day.aways_s, strict=False)]
    held = day.is_accounted_for and day.leaks_nothing
    print(
        f"day_h={len(day.uses)} day_wall_s={day.wall_s:.0f} day_unplugs={len(day.aways_s)} day_gaps={day.counts.gaps}"
        f" day_received={day.gaps.tally.received} day_published={day.pipeline.tally.received}"
        f" day_lost_counted={day.counts.lost_samples}"
        f" day_most_off_samples={max((abs(gap.off) for gap in day.gaps.found), default=0.0):.2f}"
        f" day_gap_longer_than_away_s={max(longer_s, default=0.0):.2f}"
        f" day_missing_elsewhere={day.gaps.missing_elsewhere} day_counted_elsewhere={day.gaps.counted_elsewhere}"
        f" day_rss_first_kb={first.rss_kb} day_rss_last_kb={last.rss_kb}"
        f" day_objects_first={first.objects} day_objects_last={last.objects}"
        f" day_descriptors_first={first.descriptors} day_descriptors_last={last.descriptors}"
        f" day_held={'yes' if held else 'no'}"
    )
    return 0 if held else 1


def plan(usb: Lockstep, hours: int, draw: random.Random) -> list[float]:
    """One unplug at a random moment of each hour; for how long each, in s."""
    aways_s = [draw.uniform(*AWAY_S) for _ in range(hours)]
    for hour, away_s in enumerate(aways_s):
        at_s = hour * HOUR_S + draw.uniform(60.0, HOUR_S - AWAY_S[1] - 60.0)
        usb.at(at_s, usb.unplug)
        usb.at(at_s + away_s, usb.plug_in)
    return aways_s


def use() -> Use:
    """Now, after a collection."""
    gc.collect()
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    return Use(int(fields["VmRSS"].split()[0]), len(gc.get_objects()), len(list(Path("/proc/self/fd").iterdir())))


if __name__ == "__main__":
    sys.exit(main())
