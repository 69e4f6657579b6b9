"""Campaigns and trains of the journal as Grafana's own annotations."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from opjoule.dashboards.parts import TAG, Json
from opjoule.dashboards.queries import SIMULATED
from opjoule.figures import headline, quality
from opjoule.grafana_push import Client, Step
from schemas import EnergyResult

MOST = 10_000
"""Annotations of one run that are asked for."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A stretch of time with a text. `key` is a tag that no other annotation has."""

    key: str
    start_ms: int
    end_ms: int
    text: str
    tags: tuple[str, ...]

    def body(self) -> Json:
        """As Grafana takes it: of the organisation, so that every dashboard can show it."""
        return {"time": self.start_ms, "timeEnd": self.end_ms, "text": self.text, "tags": [*self.tags, self.key]}


def of_run(results: Sequence[EnergyResult], trains: bool) -> list[Annotation]:
    """One annotation for the run, and with `trains` one for each of its trains (not for each meter)."""
    ordered = sorted(results, key=lambda result: (result.start_ns, str(result.event_id), result.meter or ""))
    first, duts = ordered[0], sorted({result.dut for result in ordered})
    events = {result.event_id for result in ordered}
    simulated = any(result.simulated for result in ordered)
    words = [f"run {first.run_id}: {len(events)} trains on {', '.join(duts)}", *([SIMULATED] if simulated else [])]
    tags = (TAG, "campaign", f"run:{first.run_id}", *([SIMULATED] if simulated else []), *duts)
    run = Annotation(
        f"op:{first.site}/{first.run_id}",
        _ms(first.start_ns),
        _ms(max(result.end_ns for result in ordered)),
        ", ".join(words),
        tags,
    )
    seen = {result.event_id: result for result in reversed(ordered)}
    return [run, *(_of_train(seen[event]) for event in dict.fromkeys(r.event_id for r in ordered) if trains)]


def annotate(client: Client, results: Iterable[EnergyResult], trains: bool) -> Iterator[Step]:
    """Write the annotations of every run that Grafana does not have yet."""

    def run_of(result: EnergyResult) -> tuple[str, str]:
        return result.site, result.run_id

    for (site, run_id), group in groupby(sorted(results, key=run_of), key=run_of):
        wanted = of_run(list(group), trains)
        asked = f"/annotations?type=annotation&tags={quote(f'run:{run_id}', safe='')}&limit={MOST}"
        there = {tag for each in client.get(asked) for tag in each.get("tags", [])}
        missing = [each for each in wanted if each.key not in there]
        for each in missing:
            client.post("/annotations", each.body())
        yield Step(f"run {run_id} at {site}", f"{len(missing)} annotations made, {len(wanted) - len(missing)} there")


def _of_train(result: EnergyResult) -> Annotation:
    what = result.parameter_set if result.operation not in ("null", "sham") else result.variant
    words = [f"{result.operation} {what}".strip(), headline(result), quality(result)]
    tags = (TAG, "train", f"run:{result.run_id}", result.dut, *([SIMULATED] if result.simulated else []))
    return Annotation(f"op:{result.event_id}", _ms(result.start_ns), _ms(result.end_ns), " · ".join(words), tags)


def _ms(t_ns: int) -> int:
    return t_ns // 1_000_000
