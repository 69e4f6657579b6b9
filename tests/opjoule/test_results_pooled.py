"""`opjoule results --pooled`, and what `results` says of null trains and handshakes."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.journal import Journal
from aggregator.pooling import pooled_results
from opjoule.__main__ import main
from opjoule.results_pooled import POOLED_COLUMNS
from schemas import Handshake
from tests.aggregator.pools import result

SHAKE: dict[str, Any] = {"operation": "handshake", "parameter_set": "X25519MLKEM768", "backend": "lib"}
BYTES = Handshake(
    group="X25519MLKEM768",
    certificate="ML-DSA-65",
    client_bytes=1489,
    server_bytes=14_000,
    client_cpu_s=0.0011,
    server_cpu_s=0.0023,
    segments={"536": 30, "1460": 12},
)
PRETENDED: dict[str, Any] = {"dut": "demo", "simulated": True, "meter_kind": "simulated", "flags": ("simulated",)}
RESULTS = [
    *(result(number, net_j) for number, net_j in enumerate((1.0, 1.2, 1.1), 1)),
    result(4, operation="null", parameter_set="none", variant="processes=1,reads=key"),
    result(5, **SHAKE, variant="certificate=ML-DSA-65", handshake=BYTES, output_bytes={"b": 2, "a": 1}),
    *(result(number, run_id="r2", **PRETENDED) for number in (6, 7)),
]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    opened.results.store(RESULTS)
    yield opened
    opened.close()


@pytest.fixture
def show(journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What the command prints of that journal."""

    def run(*arguments: str) -> str:
        assert main(["results", "--journal", str(tmp_path / "journal.sqlite"), *arguments]) == 0
        return capsys.readouterr().out

    return run


def test_trains_of_a_kind_become_one_row_with_mean_interval_and_count(show: Callable[..., str]) -> None:
    lines = show("--pooled").splitlines()
    (line,) = [line for line in lines if "ML-DSA-65" in line and "pi4" in line]
    assert "1.10 ± 0.25 J" in line and line.endswith(" 3")
    assert "message_bytes=19600" in line and "3.5.7" in line and "m1" in line


def test_csv_and_json_hold_the_same_means_as_the_aggregator_publishes(show: Callable[..., str]) -> None:
    from_csv = list(csv.DictReader(show("--pooled", "--format", "csv").splitlines()))
    from_json = json.loads(show("--pooled", "--format", "json"))
    assert [list(row) for row in from_json] == [list(POOLED_COLUMNS)] * 2 == [list(row) for row in from_csv]
    first, (expected, _) = from_json[0], pooled_results(RESULTS)
    assert (first["trains"], first["net_j_per_op"], first["u95_j_per_op"]) == (
        3,
        expected.net_j_per_op.value,
        expected.net_j_per_op.u95,
    )
    assert [row["trains"] for row in from_csv] == ["3", "2"]


def test_simulated_means_say_so_and_no_others(show: Callable[..., str]) -> None:
    lines = show("--pooled").splitlines()
    assert ["demo" in line for line in lines if "SIMULATED" in line] == [True]


def test_filters_choose_what_is_pooled(show: Callable[..., str]) -> None:
    assert len(json.loads(show("--pooled", "--run", "r2", "--format", "json"))) == 1
    assert show("--pooled", "--operation", "null") == "no two trains that match can be pooled\n"
    assert show("--pooled", "--run", "none", "--format", "csv") == ",".join(POOLED_COLUMNS) + "\n"


def test_a_null_train_is_named_by_what_it_starts_and_reads_and_a_handshake_by_group_and_certificate(
    show: Callable[..., str],
) -> None:
    lines = show().splitlines()
    assert any("1 process: key " in line for line in lines if "null" in line)
    assert any("X25519MLKEM768 certificate=ML-DSA-65" in line for line in lines if "handshake" in line)


def test_sizes_and_what_a_handshake_took_stand_in_csv_and_json(show: Callable[..., str]) -> None:
    (row,) = json.loads(show("--operation", "handshake", "--format", "json"))
    assert (row["output_bytes"], row["tcp_segments"]) == ("a=1 b=2", "1460=12 536=30")
    assert (row["client_bytes"], row["server_bytes"], row["client_cpu_s"]) == (1489, 14_000, 0.0011)
    (other,) = json.loads(show("--operation", "null", "--format", "json"))
    assert (other["output_bytes"], other["client_bytes"]) == ("", None)
