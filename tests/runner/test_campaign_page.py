"""The page on campaigns says what the models say."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from runner.campaign_file import Campaign, Measure, parse_campaign
from runner.plan import parse_plan
from runner.procedures import COUNTED_BY_SET, COUNTED_REPETITIONS, IDLE_S, LOAD_S, SETTLE_S, SLOW_SIGNATURE_S
from runner.shipped import shipped_campaigns

MEASURE = '[[measure]]\noperations = "sign"\nsets = "ML-DSA-65"\n'
NEEDED_BESIDE = {
    "procedure": "study = 1",
    "study": 'procedure = "as-published"',
    "until": "most_trains = 10",
    "least_trains": 'until = "u95 <= 2 %"\nmost_s = 9',
    "most_trains": 'until = "u95 <= 2 %"',
    "most_s": 'until = "u95 <= 2 %"',
    "operations": 'sets = "ML-DSA-65"',
    "sets": 'operations = "*"',
    "certificates": 'operations = "handshake"\nsets = "X25519"',
}
WRITTEN = {"name", "seed", "message_bytes"}
"""Keys whose default is told in words, or in other digits."""


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    """The text of the page."""
    return (repository / "docs/campaigns.md").read_text("utf-8")


def _rows(page: str, heading: str) -> dict[str, list[str]]:
    """The cells of the table under a heading, by the word in the first."""
    section = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:1] == "|"]
    return {row[0].strip("` |"): row for row in rows[2:]}


@pytest.mark.parametrize(("heading", "model"), [("Keys of a campaign", Campaign), ("Keys of a measure", Measure)])
def test_every_key_is_explained_with_its_default(page: str, heading: str, model: type[BaseModel]) -> None:
    rows = _rows(page, heading)
    assert list(rows) == list(model.model_fields)
    for key, field in model.model_fields.items():
        if key in WRITTEN:
            continue
        said = rows[key][1].strip("`").replace('"', "'").replace("[", "(").replace("]", ",)")
        expected = "needed" if field.is_required() else str(field.default or "none").removesuffix(".0")
        assert said.strip("'") == expected, key


def test_every_example_of_a_key_of_a_campaign_is_one(page: str) -> None:
    for key, row in _rows(page, "Keys of a campaign").items():
        example = row[2].strip("`")
        assert example.startswith(f"{key} = ")
        measure = "" if key == "measure" else MEASURE
        campaign = parse_campaign(f"{example}\n{NEEDED_BESIDE.get(key, '')}\n{measure}", "page")
        assert getattr(campaign, key) != Campaign.model_fields[key].default, key


def test_every_example_of_a_key_of_a_measure_is_one(page: str) -> None:
    for key, row in _rows(page, "Keys of a measure").items():
        example = row[2].strip("`")
        assert example.startswith(f"{key} = ")
        beside = NEEDED_BESIDE.get(key, 'operations = "sign"\nsets = "ML-DSA-65"')
        (measure,) = parse_campaign(f"[[measure]]\n{example}\n{beside}", "page").measure
        assert getattr(measure, key) != Measure.model_fields[key].default, key


def test_the_file_on_the_page_is_a_campaign(page: str) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert parse_campaign(text, "page").target == 0.02


def test_every_item_on_the_page_can_be_run(page: str) -> None:
    items = list(_rows(page, "Items"))
    assert len(parse_plan(",".join(items))) > len(items)


def test_every_shipped_campaign_is_on_the_page(page: str) -> None:
    assert tuple(_rows(page, "Campaigns that come with opjoule")) == shipped_campaigns()


def test_the_figures_of_the_studies_on_the_page_are_those_of_the_procedures(page: str) -> None:
    figures = [f"{IDLE_S:.0f} s idle", f"{LOAD_S:.0f} s load", f"{SETTLE_S:.0f} s idle", f"{SLOW_SIGNATURE_S} s"]
    figures += [f"{COUNTED_REPETITIONS:,}", *(f"{count:,} for\nRSA" for count in COUNTED_BY_SET.values())]
    flowing = page.replace("\n", " ")
    assert [each for each in figures if each.replace("\n", " ") not in flowing] == []
