"""`opjoule study` on the real recordings: what is right and wrong in the published table, and nothing else."""

import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from meter.sources.recording import read_recording
from opjoule.local_broker import available
from opjoule.study.folder import read_folder
from opjoule.study.names import Subject
from tests.opjoule.studies import Outcome, Study, converter_csv, run_study

pytestmark = [pytest.mark.recordings, pytest.mark.processes, pytest.mark.usefixtures("broker")]

AGREES = "agrees"
IDLE_POWER = "published idle power differs from the recording: 0.53676 W against 0.56376 W"
IOTCORE = ("--broker", "iotcore")
IN_CSV_TOO = ("_key_rsa", "_signing_ml-dsa-44", "_verification_slh-dsa-shake-256s")


class Real(Study):
    """The study as it was published: nothing is written beside the recordings."""

    def __init__(self, recordings: Path, folder: Path, table: Path | None = None) -> None:
        super().__init__(folder)
        self._recordings = recordings
        self._table = table or recordings / "published_results.csv"

    @property
    def recordings(self) -> Path:
        return self._recordings

    @property
    def table(self) -> Path:
        return self._table

    def write_table(self) -> Path:
        return self._table


@pytest.fixture
def whole(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Outcome:
    """The whole study."""
    return run_study(Real(recordings, tmp_path), capsys)


def test_the_study_is_reproduced_and_the_idle_power_of_the_pi_zero_found(whole: Outcome) -> None:
    assert whole.status == 0
    verdicts = Counter(row["verdict"] for row in whole.rows)
    assert verdicts == {AGREES: 118, IDLE_POWER: 23, "timing only": 141, "not published": 15}
    wrong = [row for row in whole.rows if row["verdict"] == IDLE_POWER]
    assert {row["board"] for row in wrong} == {"pizero"}
    assert Counter(row["operation"] for row in wrong) == {"sign": 9, "verify": 14}
    assert all(0.9 < float(row["ratio"]) < 0.95 for row in wrong)
    for row in whole.rows:
        if row["verdict"] in (AGREES, IDLE_POWER):
            assert float(row["u95_j_per_op"]) > 0
            assert row["quality"] == "degraded" and "single_baseline" in row["flags"].split()
        if row["verdict"] == AGREES:
            assert float(row["ratio"]) == pytest.approx(1, abs=1e-3)
    handshakes = [row for row in whole.rows if row["verdict"] == "not published"]
    assert {row["operation"] for row in handshakes} == {"handshake"}
    assert all(row["net_j_per_op"] == row["published_j_per_op"] == "" for row in handshakes)
    assert f"  118 {AGREES}\n" in whole.out and f"   23 {IDLE_POWER}\n" in whole.out


def test_other_file_names_and_csv_copies_give_the_same_energies(
    recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only_pi4 = [line for line in _lines(recordings) if line.startswith(("\ufeff", "machine", "pi4,"))]
    as_named = Real(recordings / "pi4", tmp_path / "as-named", _table(tmp_path, "a.csv", only_pi4))
    renamed = Real(tmp_path / "renamed", tmp_path / "as-renamed", as_named.table)
    _rename(recordings / "pi4", renamed.recordings / "pi4")
    first, second = run_study(as_named, capsys), run_study(renamed, capsys)

    assert (first.status, second.status) == (0, 0)
    assert [row["verdict"] for row in first.rows] == [AGREES] * 47 + ["not published"] * 5
    energies = {_key(row): row["net_j_per_op"] for row in first.rows}
    for row in second.rows:
        lost_digits = 1e-6 if row["recording"].endswith(".csv") else 1e-9
        if row["verdict"] == AGREES:
            assert float(row["net_j_per_op"]) == pytest.approx(float(energies[_key(row)]), rel=lost_digits)
    assert [row["verdict"] for row in second.rows] == [row["verdict"] for row in first.rows]
    assert len(second.rows) == len(first.rows)
    assert sum(row["recording"].endswith(".csv") for row in second.rows) == len(IN_CSV_TOO)


@pytest.mark.iotcore
def test_the_embedded_broker_does_not_make_a_study_wait(
    recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not available("iotcore"):
        pytest.skip("the iotcore wheel is not here")
    began_s = time.monotonic()
    outcome = run_study(Real(recordings / "pi4", tmp_path, recordings / "published_results.csv"), capsys, *IOTCORE)
    assert sum(row["verdict"] == AGREES for row in outcome.rows) == 47
    assert time.monotonic() - began_s < 30  # with more on its way than it takes it needs 40 s


def test_every_recording_is_readable_and_known_by_its_name(recordings: Path) -> None:
    good, bad = read_folder(recordings, [recordings / "published_results.csv"])
    assert bad == []
    assert Counter(subject.board for subject in good) == {"pi1": 53, "pi4": 53, "pizero": 53}
    assert all(Subject(board, None, "") in good for board in ("pi1", "pi4", "pizero"))
    assert [each.remarks for each in good.values() if each.remarks] == []


@pytest.mark.openssl35
@pytest.mark.usefixtures("openssl35")
def test_the_published_commands_of_the_classical_signatures_fail_and_no_others(
    recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = ("RSA-2048", "ECDSA P-256", "X25519", "ML-KEM-512", "ML-DSA-44")
    lines = [
        line
        for line in _lines(recordings)
        if line.startswith(("\ufeff", "MacBookAir,")) and any(f",{name}," in line for name in (*tried, "algorithm"))
    ]
    outcome = run_study(
        Real(recordings / "pi4", tmp_path, _table(tmp_path, "some.csv", lines)), capsys, "--try-commands"
    )
    assert outcome.status == 0
    said = {_key(row)[1:]: row["published_command"] for row in outcome.rows if row["verdict"] == "timing only"}
    failed = {key for key, text in said.items() if text == "the published command fails: exit 1, 0 bytes"}
    assert failed == {(operation, name) for operation in ("sign", "verify") for name in ("RSA-2048", "ECDSA-P-256")}
    assert {text for key, text in said.items() if key not in failed} == {""}
    assert len(said) == 5 + 2 * 3


def _lines(recordings: Path) -> list[str]:
    return (recordings / "published_results.csv").read_bytes().decode("utf-8").split("\r\n")


def _table(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_bytes("\r\n".join(lines).encode())
    return path


def _key(row: dict[str, str]) -> tuple[str, str, str]:
    return row["board"], row["operation"], row["parameter_set"]


def _rename(source: Path, target: Path) -> None:
    """As other boards of the study have them: no numbers, `key` and `verification`; a few as CSV only."""
    target.mkdir(parents=True)
    for path in sorted(source.glob("*.cfn")):
        name = path.stem.split("_", 1)[1].replace("_keys_", "_key_").replace("_verifying_", "_verification_")
        if name.endswith(IN_CSV_TOO):
            (target / f"{name}.csv").write_bytes(converter_csv(read_recording(path).power_w))
        else:
            shutil.copyfile(path, target / f"{name}.cfn")
